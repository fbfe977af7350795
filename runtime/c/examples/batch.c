/* Shares of a batch, whose samples are drawn anew for each step: none has to move. mpirun -n 3 batch. The last rank takes four
 * times as long for a sample, by made-up times. */
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include "isochron.h"

static void check(int status)
{
  if (status != ISOCHRON_OK)
    fprintf(stderr, "%s\n", isochron_last_error()), MPI_Abort(MPI_COMM_WORLD, status);
}

int main(int argc, char **argv)
{
  int provided, rank, ranks, changed;
  int64_t first, count;
  isochron_session_t *session;
  isochron_balancer_t *balancer;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  check(isochron_open_comm(MPI_COMM_WORLD, NULL, &session));
  check(isochron_balancer(session, 900, "sweeps=20 move_unit_s=0", &balancer));
  check(isochron_part(balancer, &first, &count));
  for (int step = 0; step < 20; step++) {
    double seconds = (rank == ranks - 1 ? 4e-3 : 1e-3) * count; /* draw and compute count samples here */
    check(isochron_record(balancer, count, seconds, 0));
    check(isochron_balance(balancer, &changed));
    if (changed)
      check(isochron_part(balancer, &first, &count));
  }
  printf("rank %d has %" PRId64 " of 900 samples\n", rank, count);
  check(isochron_close_balancer(balancer));
  check(isochron_close(session));
  return MPI_Finalize();
}
