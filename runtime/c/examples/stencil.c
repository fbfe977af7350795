/* A stencil whose rows follow the speeds of the ranks: mpirun -n 3 stencil [SETTINGS [SWEEPS]]. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "isochron.h"
#include "slow_rank.h"

enum { ROWS = 1200, COLS = 1000, CELLS = (ROWS + 2) * COLS, ROW_BYTES = COLS * sizeof(double) };

static void check(int status)
{
  if (status != ISOCHRON_OK)
    fprintf(stderr, "%s\n", isochron_last_error()), MPI_Abort(MPI_COMM_WORLD, status);
}

/* Takes the row above this rank's rows and the one below them from its neighbours. The plate is cold below its end. */
static void exchange_borders(double *rows, int64_t count, int up, int down)
{
  double *first = rows + COLS, *last = rows + count * COLS, *beyond = memset(last + COLS, 0, ROW_BYTES);
  MPI_Sendrecv(first, COLS, MPI_DOUBLE, up, 1, beyond, COLS, MPI_DOUBLE, down, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Sendrecv(last, COLS, MPI_DOUBLE, down, 2, rows, COLS, MPI_DOUBLE, up, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv)
{
  int rank, ranks, changed, provided, sweeps = argc > 2 ? atoi(argv[2]) : 1000;
  int64_t first, count;
  double *rows = calloc(CELLS, sizeof *rows), *next = calloc(CELLS, sizeof *next), *swap;
  isochron_session_t *session;
  isochron_balancer_t *balancer;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int up = rank > 0 ? rank - 1 : MPI_PROC_NULL, down = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
  for (int col = 0; rank == 0 && col < COLS; col++)
    rows[col] = next[col] = 1.0; /* the plate is hot above its first row */
  check(isochron_open_comm(MPI_COMM_WORLD, NULL, &session));
  check(isochron_balancer(session, ROWS, argc > 1 ? argv[1] : NULL, &balancer));
  check(isochron_part(balancer, &first, &count));
  for (int sweep = 0; sweep < sweeps; sweep++) {
    exchange_borders(rows, count, up, down);
    begin_work();
    for (int64_t row = 1; row <= count; row++)
      for (int64_t i = row * COLS + 1; i < (row + 1) * COLS - 1; i++)
        next[i] = 0.25 * (rows[i - COLS] + rows[i + COLS] + rows[i - 1] + rows[i + 1]);
    check(isochron_record(balancer, count, end_work(count), 0));
    check(isochron_balance(balancer, &changed));
    if (changed) {
      check(isochron_part(balancer, &first, &count));
      check(isochron_move(balancer, next + COLS, rows + COLS, ROW_BYTES));
    } else
      swap = rows, rows = next, next = swap;
    end_sweep(changed);
  }
  print_run(rows + COLS, count * COLS);
  check(isochron_close_balancer(balancer));
  check(isochron_close(session));
  return MPI_Finalize();
}
