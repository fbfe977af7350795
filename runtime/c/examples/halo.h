/* The cells of a rank, and the rows around its own. */
#include <mpi.h>
#include <stdlib.h>
#include "isochron.h"
#include "slow_rank.h"

/* Returns cells that are neither hot nor cold. They are freed by the caller. */
static double *make_plate(int64_t n_cells)
{
  double *cells = malloc(n_cells * sizeof *cells);
  for (int64_t i = 0; cells && i < n_cells; i++)
    cells[i] = 0.5;
  return cells;
}

/* Takes the rows around this rank's from the ranks that have them; one without rows has no neighbours. The plate is hot
 * above its first row and cold below its last. Returns the status of the call that finds the neighbours. */
static int exchange_borders(const isochron_balancer_t *balancer, double *rows, int64_t count, int cols)
{
  int above, below, status = isochron_neighbours(balancer, MPI_PROC_NULL, &above, &below);
  double *beyond = rows + (count + 1) * cols;
  for (int col = 1; col < cols - 1; col++)
    rows[col] = 1.0, beyond[col] = 0.0;
  MPI_Request messages[4];
  MPI_Irecv(beyond, cols, MPI_DOUBLE, below, 1, MPI_COMM_WORLD, messages);
  MPI_Irecv(rows, cols, MPI_DOUBLE, above, 2, MPI_COMM_WORLD, messages + 1);
  MPI_Isend(rows + cols, cols, MPI_DOUBLE, above, 1, MPI_COMM_WORLD, messages + 2);
  MPI_Isend(beyond - cols, cols, MPI_DOUBLE, below, 2, MPI_COMM_WORLD, messages + 3);
  wait_quietly(4, messages);
  return status;
}
