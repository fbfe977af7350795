/* Algorithms of the program, predicted and chosen, and the communicator of their ranks; and what is wrong with an algorithm, in words.
 * No time of a clock decides. mpirun -n 4 predictions, with ISOCHRON_STORE for files */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include "checks.h"
#include "isochron.h"

static int ranks;
static isochron_session_t *session;

/* The kernel's data: its failure. */
static double count_units(uint64_t units) { return (double)units; }
static int32_t prepare(uint64_t units, void **context) { return units > 0 && *context ? ISOCHRON_KERNEL_OK : 1; }
static int32_t work(void *context, const isochron_flag_t *interrupted)
{
  for (volatile int i = 0; i < 1000 && !*interrupted; i++)
    continue;
  return *(int32_t *)context;
}
static int32_t end(void *context) { return context ? ISOCHRON_KERNEL_OK : 1; }
static const isochron_kernel_t KERNEL = {ISOCHRON_KERNEL_ABI, "failing", count_units, prepare, work, end};

/* A chain: each process works, and hands on to the next. What is wrong with it is a word. */
struct chain {
  int64_t processes;
  const char *wrong;
};

static int is_wrong(void *chain, const char *word) { return strcmp(((struct chain *)chain)->wrong, word) == 0; }
static int64_t processes(void *chain) { return ((struct chain *)chain)->processes; }
static double volume(void *chain, int64_t process) { return is_wrong(chain, "volume") ? -1.0 : 100.0 * (process + 1); }
static double size(void *chain, int64_t process) { return is_wrong(chain, "size") ? INFINITY : 10.0 * (process + 1); }
static double bytes(void *chain, int64_t from, int64_t to)
{
  return is_wrong(chain, "bytes") ? NAN : to == from + 1 ? 8.0 : 0.0;
}

static void scheme(void *chain, isochron_scheme_t *order)
{
  int64_t all = processes(chain);
  isochron_scheme_begin_repeat(order, 2);
  for (int64_t i = 0; i < all; i++) {
    isochron_scheme_compute(order, i, is_wrong(chain, "percent") ? 40.0 : 50.0);
    if (i + 1 < all)
      isochron_scheme_transfer(order, i, i + 1, 50.0);
  }
  if (!is_wrong(chain, "open"))
    isochron_scheme_end(order);
  if (is_wrong(chain, "negative process"))
    expect("a negative process", isochron_scheme_compute(order, -1, 100.0) == ISOCHRON_ARGUMENT);
  if (is_wrong(chain, "times"))
    expect("negative repetitions", isochron_scheme_begin_repeat(order, -2) == ISOCHRON_ARGUMENT);
  if (is_wrong(chain, "close"))
    expect("a scheme is no platform", isochron_close_platform((isochron_platform_t *)order) == ISOCHRON_HANDLE);
}

static isochron_algorithm_t describe(struct chain *chain)
{
  return (isochron_algorithm_t){.struct_size = sizeof(isochron_algorithm_t), .processes = processes, .volume = volume, .size = size,
                                .bytes = bytes, .scheme = scheme, .context = chain};
}

/* The call has failed with this status, and these words. */
static void expect_failure(const char *what, int status, int wanted, const char *words)
{
  if (status != wanted || !strstr(isochron_last_error(), words))
    printf("%s: %d: %s\n", what, status, isochron_last_error());
  expect(what, status == wanted && strstr(isochron_last_error(), words));
}

/* Numbers are the same on all ranks. */
static void expect_alike(const char *what, const void *numbers, int bytes_of_them)
{
  char others[256];
  memcpy(others, numbers, bytes_of_them);
  MPI_Bcast(others, bytes_of_them, MPI_BYTE, 0, MPI_COMM_WORLD);
  expect(what, memcmp(others, numbers, bytes_of_them) == 0);
}

static isochron_platform_t *try_recon(void)
{
  static const int64_t units[] = {5, 50};
  int32_t failure = rank == ranks - 1 ? 7 : 0;
  isochron_platform_t *platform;
  expect_failure("a kernel that fails on one rank", isochron_recon(session, &KERNEL, &failure, units, 2, NULL, &platform), ISOCHRON_FAILED,
                 "kernel failing: execute of 5 units returned error 7");
  failure = 0;
  expect_failure("no sizes", isochron_recon(session, &KERNEL, &failure, NULL, 0, NULL, &platform), ISOCHRON_INPUT, "each above 0");
  check(isochron_recon(session, &KERNEL, &failure, units, 2, "max_reps=3", &platform));
  return platform;
}

static void try_predictions(const isochron_platform_t *platform)
{
  struct chain chains[] = {{ranks, ""}, {1, ""}, {ranks + 1, ""}};
  isochron_algorithm_t all[] = {describe(&chains[0]), describe(&chains[1]), describe(&chains[2])};
  isochron_predicted_t predicted = {.struct_size = sizeof predicted}, chosen = predicted;
  int64_t places[16];
  double seconds[3];
  MPI_Comm group;
  for (int i = 0; i < ranks; i++)
    places[i] = ranks - 1 - i;
  check(isochron_timeof(platform, &all[0], places, ranks, &predicted));
  expect("a prediction", predicted.seconds >= predicted.compute_s && predicted.compute_s > 0 && predicted.processes == ranks);
  expect_alike("the prediction of all ranks", &predicted, sizeof predicted);
  check(isochron_choose(platform, all, 1, places, 16, &chosen, seconds));
  expect("the best places are no slower", chosen.seconds <= predicted.seconds && chosen.processes == ranks && chosen.is_exact);
  check(isochron_group_comm(MPI_COMM_WORLD, places, ranks, &group));
  for (int i = 0, found = rank; i < ranks; i++, found = rank) {
    MPI_Bcast(&found, 1, MPI_INT, i, group);
    expect("the order of a group", found == places[i]);
  }
  MPI_Comm_free(&group);
  check(isochron_choose(platform, all, 3, places, 16, &chosen, seconds));
  expect_alike("the choice of all ranks", places, (int)(chosen.processes * sizeof *places));
  /* The chain of one does a part of the work alone. */
  expect("the chosen one", chosen.processes == 1 && chosen.chosen == (ranks > 1) && isinf(seconds[2]) && seconds[1] == chosen.seconds);
  check(isochron_group_comm(MPI_COMM_WORLD, places, 1, &group));
  expect("who is free", (group == MPI_COMM_NULL) == (rank != places[0]));
  if (group != MPI_COMM_NULL)
    MPI_Comm_free(&group);
  if (ranks > 1)
    expect_failure("room for fewer", isochron_choose(platform, all, 1, places, ranks - 1, &chosen, NULL), ISOCHRON_ARGUMENT, "n_places: ");
}

static void try_wrong_algorithms(const isochron_platform_t *platform)
{
  static const struct { const char *wrong; int status; const char *words; } WRONGS[] = {
    {"volume", ISOCHRON_INPUT, "-1 units of work of process 0"},
    {"size", ISOCHRON_INPUT, "inf units in the memory of process 0"},
    {"percent", ISOCHRON_INPUT, "80 % of the work of process 0, not 100 %"},
    {"open", ISOCHRON_INPUT, "a section without an end"},
    {"negative process", ISOCHRON_ARGUMENT, "process: -1 is negative"},
    {"times", ISOCHRON_ARGUMENT, "times: -2 is negative"},
    {"bytes", ISOCHRON_INPUT, "NaN bytes from process 0 to 1"},
  };
  isochron_predicted_t predicted = {.struct_size = sizeof predicted};
  int64_t places[16];
  for (int i = 0; i < 16; i++)
    places[i] = i;
  /* One process has no messages. */
  for (size_t i = 0; i < sizeof WRONGS / sizeof *WRONGS - (ranks == 1); i++) {
    struct chain chain = {ranks, WRONGS[i].wrong};
    isochron_algorithm_t algorithm = describe(&chain);
    expect_failure(chain.wrong, isochron_timeof(platform, &algorithm, places, ranks, &predicted), WRONGS[i].status, WRONGS[i].words);
    expect_failure(chain.wrong, isochron_choose(platform, &algorithm, 1, places, ranks, &predicted, NULL), WRONGS[i].status, WRONGS[i].words);
  }
  struct chain chain = {INT64_C(1) << 40, ""};
  isochron_algorithm_t algorithm = describe(&chain), lacking = algorithm;
  expect_failure("far too many", isochron_choose(platform, &algorithm, 1, places, 16, &predicted, NULL), ISOCHRON_INPUT, "no algorithm has at most");
  chain.processes = -1;
  expect_failure("negative processes", isochron_timeof(platform, &algorithm, places, 1, &predicted), ISOCHRON_ARGUMENT, "algorithm.processes: -1");
  lacking.bytes = NULL;
  expect_failure("no function", isochron_choose(platform, &lacking, 1, places, 16, &predicted, NULL), ISOCHRON_ARGUMENT, "algorithms[0]: it has no function bytes");
  chain = (struct chain){ranks, "close"};
  check(isochron_timeof(platform, &algorithm, places, ranks, &predicted));
}

static void try_groups(void)
{
  int64_t places[] = {0, 0};
  MPI_Comm group;
  expect_failure("a place twice", isochron_group_comm(MPI_COMM_WORLD, places, 2, &group), ISOCHRON_INPUT, "give different ranks");
  places[0] = rank;
  if (ranks > 1)
    expect_failure("different places", isochron_group_comm(MPI_COMM_WORLD, places, 1, &group), ISOCHRON_INPUT, "places is [0] on rank 0");
  expect("no group after a failure", group == MPI_COMM_NULL);
}

/* Two nodes of a file, of which the second does a unit in half the time. */
static void try_file(void)
{
  struct chain chain = {2, ""};
  isochron_algorithm_t algorithm = describe(&chain);
  isochron_predicted_t predicted = {.struct_size = sizeof predicted};
  isochron_platform_t *platform;
  char paths[3][512];
  int64_t places[2];
  for (int i = 0; i < 3; i++) {
    snprintf(paths[i], sizeof paths[i], "%s-%d-%d.%s", getenv("ISOCHRON_STORE"), rank, i, i < 2 ? "points" : "toml");
    FILE *file = fopen(paths[i], "w");
    if (i < 2)
      fprintf(file, "# block: 1\n10 %d\n", 2 - i);
    else
      fprintf(file, "schema = 1\n[[node]]\n[[node.device]]\nname = \"cpu0\"\npoints = \"%s\"\n[[node]]\n[[node.device]]\nname = \"cpu0\"\n"
              "points = \"%s\"\n[network]\nlevels = [{ points = [{ bytes = 0, time_s = 1 }, { bytes = 8, time_s = 2 }] }]\n", paths[0], paths[1]);
    fclose(file);
  }
  check(isochron_platform_of_file(paths[2], NULL, &platform));
  check(isochron_choose(platform, &algorithm, 1, places, 2, &predicted, NULL));
  /* 100 units on the slow node, and 200 on the fast one; two messages of 4 bytes. */
  expect("the time on nodes of a file", fabs(predicted.seconds - (20.0 + 20.0 + 2 * 1.5)) < 1e-9 && places[0] == 0 && places[1] == 1);
  check(isochron_close_platform(platform));
  const char *json;
  check(isochron_search_plan(paths[2], NULL, 8, 8, 8, "blocks=1 equal_ranks=true", &json));
  expect("a plan that is searched for", strstr(json, "\"candidates\":[{") && strstr(json, "\"equal_ranks\":{\"block\":1"));
  check(isochron_free(json));
  expect_failure("an unknown setting", isochron_search_plan(paths[2], NULL, 8, 8, 8, "blocs=1", &json), ISOCHRON_SETTING, "blocks");
  expect_failure("blocks of 0", isochron_search_plan(paths[2], NULL, 8, 8, 8, "blocks=0", &json), ISOCHRON_INPUT, "block");
  expect_failure("models that are missing", isochron_platform_of_file(paths[2], "/no/such", &platform), ISOCHRON_INPUT, "/no/such");
}

int main(int argc, char **argv)
{
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  check(isochron_open_comm(MPI_COMM_WORLD, "blas=embedded", &session));
  isochron_platform_t *platform = try_recon();
  try_predictions(platform);
  try_wrong_algorithms(platform);
  try_groups();
  try_file();
  check(isochron_close(session));
  check(isochron_close_platform(platform));
  MPI_Allreduce(MPI_IN_PLACE, &n_failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && n_failed == 0)
    printf("the predictions are right\n");
  MPI_Finalize();
  return n_failed > 0;
}
