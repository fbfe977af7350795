/* Work divided by benchmarks of the program's kernel and by its models, and failures of one rank. No time of a clock decides:
 * too many units run until they are interrupted. mpirun -n 3 partitions */
#include <math.h>
#include <mpi.h>
#include <pthread.h>
#include <string.h>
#include "checks.h"
#include "isochron.h"

enum { RANKS = 3, UNITS = 60 };
static const int64_t SHARES[RANKS] = {10, 20, 30};

static isochron_session_t *session;

/* The kernel's data: units, the most that end by themselves, and its failure. */
struct work {
  uint64_t units, limit;
  int32_t failure;
  int n_prepared, n_freed;
};

static double count_units(uint64_t units) { return (double)units; }

static int32_t prepare(uint64_t units, void **context)
{
  struct work *work = *context;
  work->units = units, work->n_prepared++;
  return ISOCHRON_KERNEL_OK;
}

static int32_t run(void *context, const isochron_flag_t *interrupted)
{
  struct work *work = context;
  for (volatile int i = 0; i < 1000; i++)
    continue;
  while (work->units > work->limit && !*interrupted)
    continue;
  return work->units > work->limit ? ISOCHRON_KERNEL_INTERRUPTED : work->failure;
}

static int32_t end(void *context)
{
  ((struct work *)context)->n_freed++;
  return ISOCHRON_KERNEL_OK;
}

static const isochron_kernel_t KERNEL = {ISOCHRON_KERNEL_ABI, "limited", count_units, prepare, run, end};

/* A model's data: its rank's share, the points that it got, and its failure. */
struct share {
  int64_t units;
  int n_points, n_bounds;
  int failure;
  double factor;
};

static double tell_time(void *context, double units)
{
  struct share *share = context;
  return share->factor * units / share->units;
}

static int take_point(void *context, const isochron_point_t *point)
{
  struct share *share = context;
  share->n_points += point->struct_size == sizeof *point && point->units > 0 && point->seconds > 0;
  share->n_bounds += point->repetitions == 0;
  return share->failure;
}

static void make_models(struct share *shares, isochron_model_t *models)
{
  for (int i = 0; i < RANKS; i++) {
    shares[i] = (struct share){.units = SHARES[i], .factor = 1.0};
    models[i] = (isochron_model_t){.struct_size = sizeof *models, .time = tell_time, .update = take_point, .context = &shares[i]};
  }
}

/* The units and the seconds of all ranks are the same on all. */
static void check_units(const isochron_partition_t *partition, const int64_t *wanted)
{
  int64_t units[RANKS];
  double seconds[RANKS], others[RANKS];
  check(isochron_partition_units(partition, units, seconds, RANKS));
  expect("the units", memcmp(units, wanted, sizeof units) == 0);
  memcpy(others, seconds, sizeof seconds);
  MPI_Bcast(others, RANKS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  expect("the seconds of all ranks", memcmp(others, seconds, sizeof seconds) == 0);
  check(isochron_partition_units(partition, units, NULL, RANKS));
}

/* The even division takes rank 0 too long. The models know a better one. */
static void try_models(void)
{
  static const int64_t EVEN[RANKS] = {20, 20, 20};
  struct work work = {.limit = rank == 0 ? 10 : UNITS};
  struct share shares[RANKS];
  isochron_model_t models[RANKS];
  isochron_partition_t *partition;
  int ended;
  make_models(shares, models);
  check(isochron_partition(session, UNITS, "max_seconds=0.2 max_reps=3", models, RANKS, &partition));
  check_units(partition, EVEN);
  check(isochron_partition_iterate(partition, &KERNEL, &work, &ended));
  expect("a run that was stopped ends nothing", !ended);
  check_units(partition, EVEN);
  check(isochron_partition_iterate(partition, &KERNEL, &work, &ended));
  expect("the models have nothing better", ended);
  check_units(partition, SHARES);
  expect("sizes are prepared and freed", work.n_prepared == 2 && work.n_freed == 2);
  for (int i = 0; i < RANKS; i++)
    expect("the points of a model", shares[i].n_points == 2 && shares[i].n_bounds == (i == 0));
  check(isochron_partition_iterate(partition, &KERNEL, &work, &ended));
  expect("the end is the end", ended && work.n_prepared == 2);
  check(isochron_close_partition(partition));
}

/* Without models the points of the ranks decide, and rank 0 gets no more than it can do. */
static void try_fits(void)
{
  struct work work = {.limit = rank == 0 ? 10 : UNITS};
  isochron_partition_t *partition;
  int64_t units[RANKS];
  int ended = 0;
  check(isochron_partition(session, UNITS, "max_seconds=0.2 max_reps=3 max_iterations=4 fit=cpm granule=4", NULL, 0, &partition));
  while (!ended)
    check(isochron_partition_iterate(partition, &KERNEL, &work, &ended));
  check(isochron_partition_units(partition, units, NULL, RANKS));
  expect("all units", units[0] + units[1] + units[2] == UNITS);
  expect("no more than a rank can do", units[0] <= 10);
  expect("granules", units[0] % 4 == 0 && units[1] % 4 == 0 && units[2] % 4 == 0);
  check(isochron_close_partition(partition));
}

static void try_benchmark(void)
{
  struct work work = {.limit = 7};
  isochron_point_t point = {.struct_size = sizeof point};
  check(isochron_benchmark(session, &KERNEL, &work, rank, "min_reps=4 unbound=true", &point));
  expect("this rank's units", point.units == rank && work.units == (uint64_t)rank);
  expect("a time", rank == 0 ? point.seconds == 0 && point.repetitions == 0 : point.seconds > 0 && point.repetitions > 0);
  check(isochron_benchmark(session, &KERNEL, &work, rank == 1 ? 9 : 3, "max_seconds=0.2", &point));
  expect("a bound", rank == 1 ? point.repetitions == 0 && point.seconds >= 0.4 : point.repetitions > 0);
}

/* The call has failed with this status, and these words, on every rank. */
static void expect_failure(const char *what, int status, int wanted, const char *words)
{
  if (status != wanted || !strstr(isochron_last_error(), words))
    printf("%s: %d: %s\n", what, status, isochron_last_error());
  expect(what, status == wanted && strstr(isochron_last_error(), words));
}

static void try_failures(void)
{
  struct work work = {.limit = UNITS, .failure = rank == 1 ? 7 : 0};
  struct share shares[RANKS];
  isochron_model_t models[RANKS];
  isochron_partition_t *partition;
  isochron_point_t point = {.struct_size = sizeof point};
  int ended;
  expect_failure("a kernel that fails on one rank", isochron_benchmark(session, &KERNEL, &work, 5, NULL, &point), ISOCHRON_FAILED,
                 "kernel limited: execute of 5 units returned error 7");
  expect_failure("different units", isochron_partition(session, UNITS + (rank == 2), NULL, NULL, 0, &partition), ISOCHRON_INPUT,
                 "units is 60 on ranks 0-1, 61 on rank 2");
  make_models(shares, models);
  expect_failure("models for some ranks", isochron_partition(session, UNITS, NULL, models, 2, &partition), ISOCHRON_INPUT, "models = 2");
  check(isochron_partition(session, UNITS, "max_reps=3", models, RANKS, &partition));
  expect_failure("and in an iteration", isochron_partition_iterate(partition, &KERNEL, &work, &ended), ISOCHRON_FAILED, "rank 1 ");
  work.failure = 0;
  shares[1].failure = rank == 2;
  expect_failure("a model that fails on one rank", isochron_partition_iterate(partition, &KERNEL, &work, &ended), ISOCHRON_FAILED,
                 "the model of rank 1: update for 20 units returned 1");
  shares[1].failure = 0;
  shares[2].factor = rank == 0 ? NAN : 1.0;
  expect_failure("a time that is none", isochron_partition_iterate(partition, &KERNEL, &work, &ended), ISOCHRON_FAILED,
                 "the model of rank 2: it gives NaN s");
  shares[2].factor = 1.0;
  check(isochron_partition_iterate(partition, &KERNEL, &work, &ended));
  check(isochron_close_partition(partition));
  expect_failure("a closed partition", isochron_partition_iterate(partition, &KERNEL, &work, &ended), ISOCHRON_HANDLE, "closed");
}

/* Uses a partition of another thread. */
static void *use_elsewhere(void *partition)
{
  int ended;
  struct work work = {.limit = UNITS};
  expect_failure("another thread", isochron_partition_iterate(partition, &KERNEL, &work, &ended), ISOCHRON_HANDLE, "this thread");
  return NULL;
}

static void try_thread(void)
{
  isochron_partition_t *partition;
  pthread_t thread;
  check(isochron_partition(session, UNITS, NULL, NULL, 0, &partition));
  expect("a thread", pthread_create(&thread, NULL, use_elsewhere, partition) == 0 && pthread_join(thread, NULL) == 0);
  check(isochron_close_partition(partition));
}

int main(int argc, char **argv)
{
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  check(isochron_open_comm(MPI_COMM_WORLD, "blas=embedded", &session));
  try_benchmark();
  try_models();
  try_fits();
  try_failures();
  try_thread();
  check(isochron_close(session));
  MPI_Allreduce(MPI_IN_PLACE, &n_failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && n_failed == 0)
    printf("the partitions are right\n");
  MPI_Finalize();
  return n_failed > 0;
}
