#define _POSIX_C_SOURCE 200809L
#include "slow_rank.h"
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Time of a fast rank and of the slow one over the CPU time of the work: three ranks share two cores, and mostly
 * wait. */
static const double PACES[] = {6.0, 24.0};
/* Sweeps that are not counted in the second ratio. */
enum { WARM_UP = 20, MOST_MOVES = 1000 };
/* Relative noise of made-up times, and their seconds for a row. */
static const double NOISE = 0.06, MADE_UP_ROW_S = 1e-3;

static struct {
  int sweeps, slow_from, granule, is_made_up;
  double row_s; /* CPU seconds of a row, as the first sweep showed; 0 before it */
} pace = {1000, 0, 1, 0, 0.0};

static struct {
  int64_t rows;
  int sweep, n_moves, moves[MOST_MOVES];
  double begun, cpu, ended; /* the clocks where work began, and where the last sweep ended */
  double seconds[2];        /* of the first sweeps, and of the others */
} run;

static double read_clock(clockid_t clock)
{
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

static int find_rank(int *ranks)
{
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, ranks);
  return rank;
}

static double find_pace(int rank, int ranks, int sweep)
{
  return PACES[rank + 1 == ranks && sweep >= pace.slow_from];
}

/* Returns a nearly normally distributed number, the same for the same seed. */
static double draw_normal(uint64_t seed)
{
  double sum = -6.0;
  uint64_t state = seed * 0x9e3779b97f4a7c15u;
  for (int i = 0; i < 12; i++) {
    state = (state ^ (state >> 31)) * 0xbf58476d1ce4e5b9u + 0x94d049bb133111ebu;
    sum += (double)(state >> 11) / 9007199254740992.0;
  }
  return sum;
}

void set_words(int sweeps, int slow_from, int granule, int is_made_up)
{
  pace.sweeps = sweeps;
  pace.slow_from = slow_from;
  pace.granule = granule;
  pace.is_made_up = is_made_up;
  pace.row_s = is_made_up ? MADE_UP_ROW_S : 0.0;
}

void read_words(int argc, char **argv)
{
  int sweeps = 1000, slow_from = 0, granule = 1, is_made_up = 0;
  for (int word = 1; word < argc; word++)
    if (strcmp(argv[word], "--made-up") == 0)
      is_made_up = 1;
    else if (strcmp(argv[word], "--slow-from") == 0 && word + 1 < argc)
      slow_from = atoi(argv[++word]);
    else if (strcmp(argv[word], "--granule") == 0 && word + 1 < argc)
      granule = atoi(argv[++word]);
    else
      sweeps = atoi(argv[word]);
  set_words(sweeps, slow_from, granule, is_made_up);
}

int count_sweeps(void)
{
  return pace.sweeps;
}

const char *choose_settings(int is_even)
{
  static char settings[100];
  snprintf(settings, sizeof settings, "sweeps=%d granule=%d%s%s", pace.sweeps, pace.granule,
           pace.is_made_up ? " move_unit_s=1e-3" : "", is_even ? " trigger=1e12" : "");
  return settings;
}

void begin_run(int64_t rows)
{
  memset(&run, 0, sizeof run);
  run.rows = rows;
  MPI_Barrier(MPI_COMM_WORLD);
  run.ended = read_clock(CLOCK_MONOTONIC);
}

void begin_work(void)
{
  run.begun = read_clock(CLOCK_MONOTONIC);
  run.cpu = read_clock(CLOCK_THREAD_CPUTIME_ID);
}

double end_work(int64_t rows)
{
  double row_s = (read_clock(CLOCK_THREAD_CPUTIME_ID) - run.cpu) / (rows > 0 ? rows : 1);
  int ranks, rank = find_rank(&ranks);
  double factor = find_pace(rank, ranks, run.sweep);
  if (pace.is_made_up)
    return rows * MADE_UP_ROW_S * factor * (1.0 + NOISE * draw_normal(1000 * (uint64_t)run.sweep + rank));
  if (pace.row_s == 0.0)
    MPI_Allreduce(&row_s, &pace.row_s, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  double left = run.begun + factor * pace.row_s * rows - read_clock(CLOCK_MONOTONIC);
  if (left > 0.0) {
    struct timespec pause = {(time_t)left, (long)(1e9 * (left - (time_t)left))};
    nanosleep(&pause, NULL);
  }
  return read_clock(CLOCK_MONOTONIC) - run.begun;
}

void wait_quietly(int n, MPI_Request *messages)
{
  const struct timespec pause = {0, 50000};
  for (int i = 0, done; i < n; i++)
    while (MPI_Test(messages + i, &done, MPI_STATUS_IGNORE), !done)
      nanosleep(&pause, NULL);
}

void wait_quietly_f(int n, MPI_Fint *messages)
{
  for (int i = 0; i < n; i++) {
    MPI_Request message = MPI_Request_f2c(messages[i]);
    wait_quietly(1, &message);
    messages[i] = MPI_Request_c2f(message);
  }
}

void end_sweep(int moved)
{
  double now = read_clock(CLOCK_MONOTONIC);
  run.seconds[run.sweep >= WARM_UP] += now - run.ended;
  run.ended = now;
  run.sweep++;
  if (moved && run.n_moves < MOST_MOVES)
    run.moves[run.n_moves++] = run.sweep;
}

static void print_summary(const double seconds[2], int ranks)
{
  double ideal[2] = {0.0, 0.0};
  for (int sweep = 0; sweep < run.sweep; sweep++) {
    double speed = 0.0;
    for (int rank = 0; rank < ranks; rank++)
      speed += 1.0 / (pace.row_s * find_pace(rank, ranks, sweep));
    ideal[sweep >= WARM_UP] += run.rows / speed;
  }
  printf("%.2f s, %.3f x ideal, %.3f x after %d sweeps, %d moves: after sweeps [", seconds[0] + seconds[1],
         (seconds[0] + seconds[1]) / (ideal[0] + ideal[1]), seconds[1] / ideal[1], WARM_UP, run.n_moves);
  for (int move = 0; move < run.n_moves; move++)
    printf(move ? ", %d" : "%d", run.moves[move]);
  printf("]\n");
}

uint64_t end_run(const double *cells, int64_t n_cells)
{
  int ranks, rank = find_rank(&ranks);
  uint64_t sum = 0, sums, bits;
  double seconds[2];
  for (int64_t i = 0; i < n_cells; i++)
    sum += *(uint64_t *)memcpy(&bits, cells + i, sizeof bits);
  MPI_Allreduce(&sum, &sums, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(run.seconds, seconds, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  if (rank == 0)
    print_summary(seconds, ranks);
  return sums;
}

void compare_runs(uint64_t even, uint64_t balanced)
{
  int ranks, rank = find_rank(&ranks);
  if (rank == 0)
    printf("the same cells: %s, sum of bits %016" PRIx64 "\n", even == balanced ? "true" : "false", balanced);
}
