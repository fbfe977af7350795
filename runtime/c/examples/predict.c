/* Predicts a ring of bodies on each number of processes, and runs it on the ranks that are fastest: mpirun -n 4 predict. */
#include <mpi.h>
#include <stdio.h>
#include "isochron.h"

/* A unit is the forces of 1000 bodies on one. Up to 10 processes have equal parts. */
enum { BODIES = 5040, OTHERS = 1000, MOST = 10 };
static double mine[BODIES], others[BODIES], forces[BODIES];

static void add_forces(int64_t body, int64_t n_others)
{
  for (int64_t i = 0; i < n_others; i++) {
    double away = others[i] - mine[body];
    forces[body] += away / (away * away + 1.0);
  }
}

/* The kernel: the work without the messages. */
static double count_operations(uint64_t units) { return 5.0 * OTHERS * units; }
static int32_t begin(uint64_t units, void **context) { return *(uint64_t *)*context = units, ISOCHRON_KERNEL_OK; }
static int32_t work(void *context, const isochron_flag_t *interrupted)
{
  for (uint64_t unit = 0; unit < *(uint64_t *)context && !*interrupted; unit++)
    add_forces(unit % BODIES, OTHERS);
  return *interrupted ? ISOCHRON_KERNEL_INTERRUPTED : ISOCHRON_KERNEL_OK;
}
static int32_t end(void *context) { return context ? ISOCHRON_KERNEL_OK : 1; }

/* The algorithm: each process has a part of the bodies, and the parts go round. The context is the number of processes. */
static int64_t processes(void *ring) { return *(int64_t *)ring; }
static double volume(void *ring, int64_t process)
{
  return process < processes(ring) ? (double)BODIES / OTHERS * BODIES / processes(ring) : 0.0;
}
static double bytes(void *ring, int64_t from, int64_t to)
{
  return to == (from + 1) % processes(ring) ? sizeof mine : 0.0;
}
static void scheme(void *ring, isochron_scheme_t *order)
{
  int64_t all = processes(ring);
  isochron_scheme_begin_repeat(order, all);
  isochron_scheme_begin_parallel(order);
  for (int64_t process = 0; process < all; process++)
    isochron_scheme_compute(order, process, 100.0 / all);
  isochron_scheme_end(order);
  isochron_scheme_begin_parallel(order);
  for (int64_t process = 0; process < all && all > 1; process++)
    isochron_scheme_transfer(order, process, (process + 1) % all, 100.0 / all);
  isochron_scheme_end(order);
  isochron_scheme_end(order);
}

static void run(MPI_Comm ring, double predicted_s)
{
  int rank, all;
  MPI_Comm_rank(ring, &rank), MPI_Comm_size(ring, &all);
  MPI_Barrier(ring);
  double start = MPI_Wtime();
  for (int step = 0; step < all; step++) {
    for (int body = 0; body < BODIES / all; body++)
      add_forces(body, BODIES / all);
    MPI_Sendrecv_replace(others, BODIES / all, MPI_DOUBLE, (rank + 1) % all, 0, (rank + all - 1) % all, 0, ring, MPI_STATUS_IGNORE);
  }
  MPI_Barrier(ring);
  if (rank == 0)
    printf("%d processes: predicted %.4f s, measured %.4f s\n", all, predicted_s, MPI_Wtime() - start);
}

static void check(int status)
{
  if (status != ISOCHRON_OK)
    fprintf(stderr, "%s\n", isochron_last_error()), MPI_Abort(MPI_COMM_WORLD, status);
}

int main(int argc, char **argv)
{
  static const isochron_kernel_t kernel = {ISOCHRON_KERNEL_ABI, "forces", count_operations, begin, work, end};
  static const int64_t units[] = {100, 1000, 10000};
  int64_t counts[MOST], places[MOST];
  isochron_algorithm_t rings[MOST];
  isochron_predicted_t predicted = {.struct_size = sizeof predicted};
  isochron_session_t *session;
  isochron_platform_t *platform;
  MPI_Comm group;
  uint64_t measured;
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  check(isochron_open_comm(MPI_COMM_WORLD, NULL, &session));
  check(isochron_recon(session, &kernel, &measured, units, 3, "max_seconds=1", &platform));
  for (int i = 0; i < MOST; i++) {
    counts[i] = i + 1;
    rings[i] = (isochron_algorithm_t){.struct_size = sizeof *rings, .processes = processes, .volume = volume, .bytes = bytes,
                                      .scheme = scheme, .context = &counts[i]};
  }
  check(isochron_choose(platform, rings, MOST, places, MOST, &predicted, NULL));
  check(isochron_group_comm(MPI_COMM_WORLD, places, predicted.processes, &group));
  if (group != MPI_COMM_NULL)
    run(group, predicted.seconds), MPI_Comm_free(&group);
  check(isochron_close_platform(platform));
  check(isochron_close(session));
  return MPI_Finalize();
}
