/* A stencil whose rows follow the speeds of the ranks, one of which slow_rank.c makes slow: mpirun -n 3 stencil [SWEEPS]. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include "halo.h"
#include "isochron.h"
#include "slow_rank.h"

enum { ROWS = 1200, COLS = 4000, CELLS = (ROWS + 2) * COLS };

static void check(int status)
{
  if (status != ISOCHRON_OK)
    fprintf(stderr, "%s\n", isochron_last_error()), MPI_Abort(MPI_COMM_WORLD, status);
}

/* Runs all sweeps. Returns the sum of the cells' bits. */
static uint64_t run_sweeps(isochron_session_t *session, const char *settings)
{
  int moved;
  int64_t first, count;
  isochron_balancer_t *balancer;
  double *rows = make_plate(CELLS), *next = make_plate(CELLS), *swap;
  check(isochron_balancer(session, ROWS, settings, &balancer));
  check(isochron_part(balancer, &first, &count)); /* every row has its place in the plate, below one that is hot */
  begin_run(ROWS);
  for (int sweep = 0; sweep < count_sweeps(); sweep++) {
    check(exchange_borders(balancer, rows + first * COLS, count, COLS));
    begin_work();
    for (int64_t row = first + 1; row <= first + count; row++)
      for (int64_t i = row * COLS + 1; i < (row + 1) * COLS - 1; i++)
        next[i] = 0.25 * (rows[i - COLS] + rows[i + COLS] + (rows[i - 1] + rows[i + 1]));
    swap = rows, rows = next, next = swap;
    check(isochron_record(balancer, count, end_work(count), 0));
    check(isochron_balance(balancer, &moved));
    if (moved) {
      const double *old = rows + (first + 1) * COLS;
      check(isochron_part(balancer, &first, &count));
      check(isochron_move(balancer, old, rows + (first + 1) * COLS, COLS * sizeof *rows));
    }
    end_sweep(moved);
  }
  uint64_t sum = end_run(rows + (first + 1) * COLS, count * COLS);
  check(isochron_close_balancer(balancer));
  free(rows), free(next);
  return sum;
}

int main(int argc, char **argv)
{
  int provided;
  isochron_session_t *session;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  read_words(argc, argv);
  check(isochron_open_comm(MPI_COMM_WORLD, NULL, &session));
  uint64_t even = run_sweeps(session, choose_settings(1));
  compare_runs(even, run_sweeps(session, choose_settings(0)));
  check(isochron_close(session));
  return MPI_Finalize();
}
