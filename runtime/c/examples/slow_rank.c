#define _POSIX_C_SOURCE 200809L
#include "slow_rank.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Seconds of work over CPU seconds: of a fast rank and of the slow one, so that three ranks share two cores. */
static const double PACES[] = {2.0, 8.0};
enum { WARM_UP = 20, MOST_MOVES = 100 };

static struct {
  int sweep, n_moves, moves[MOST_MOVES];
  double begun, cpu, ended; /* the clocks where work began, and where the last sweep ended */
  double seconds[2];        /* of the first sweeps, and of the others */
  double rows, cpu_s;       /* of all sweeps */
} run;

static double read_clock(clockid_t clock)
{
  struct timespec now;
  clock_gettime(clock, &now);
  return now.tv_sec + 1e-9 * now.tv_nsec;
}

static double find_pace(int sweep, int is_last)
{
  const char *from = getenv("STENCIL_SLOW_FROM");
  return PACES[is_last && sweep >= (from ? atoi(from) : 0)];
}

static int is_last_rank(void)
{
  int rank, ranks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return rank + 1 == ranks;
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

void begin_work(void)
{
  run.begun = read_clock(CLOCK_MONOTONIC);
  run.cpu = read_clock(CLOCK_THREAD_CPUTIME_ID);
}

double end_work(int64_t rows)
{
  double cpu_s = read_clock(CLOCK_THREAD_CPUTIME_ID) - run.cpu, pace = find_pace(run.sweep, is_last_rank());
  run.rows += rows;
  run.cpu_s += cpu_s;
  if (getenv("STENCIL_MADE_UP")) {
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return 1e-3 * rows * pace * (1.0 + 0.06 * draw_normal(1000 * (uint64_t)run.sweep + rank));
  }
  double left = run.begun + pace * cpu_s - read_clock(CLOCK_MONOTONIC);
  if (left > 0.0) {
    struct timespec pause = {(time_t)left, (long)(1e9 * (left - (time_t)left))};
    nanosleep(&pause, NULL);
  }
  return read_clock(CLOCK_MONOTONIC) - run.begun;
}

void end_sweep(int moved)
{
  double now = read_clock(CLOCK_MONOTONIC);
  if (run.sweep > 0)
    run.seconds[run.sweep >= WARM_UP] += now - run.ended;
  run.ended = now;
  run.sweep++;
  if (moved && run.n_moves < MOST_MOVES)
    run.moves[run.n_moves++] = run.sweep;
}

void print_run(const double *cells, int64_t n_cells)
{
  int rank, is_last = is_last_rank();
  double sum = 0.0;
  for (int64_t i = 0; i < n_cells; i++)
    sum += cells[i];
  double speeds[2] = {run.rows / run.cpu_s / PACES[0], run.rows / run.cpu_s / find_pace(run.sweep, is_last)};
  double mine[3] = {sum, speeds[0], speeds[1]}, sums[3], seconds[2], rows, ideal = 0.0;
  const char *from = getenv("STENCIL_SLOW_FROM");
  MPI_Allreduce(mine, sums, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(&run.rows, &rows, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(run.seconds, seconds, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  for (int sweep = WARM_UP; sweep < run.sweep; sweep++)
    ideal += rows / run.sweep / sums[1 + (sweep >= (from ? atoi(from) : 0))];
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0)
    return;
  printf("%.2f s, %.3f x ideal after %d sweeps, %d moves: after sweeps [", seconds[0] + seconds[1],
         seconds[1] / ideal, WARM_UP, run.n_moves);
  for (int move = 0; move < run.n_moves; move++)
    printf(move ? ", %d" : "%d", run.moves[move]);
  printf("]\nsum %.9e\n", sums[0]);
}
