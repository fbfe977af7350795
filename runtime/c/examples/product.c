/* Multiplies matrices of which every rank has some rows: mpirun -n 2 product. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include "isochron.h"

enum { N = 100 };

static void check(int status)
{
  if (status != ISOCHRON_OK)
    fprintf(stderr, "%s\n", isochron_last_error()), MPI_Abort(MPI_COMM_WORLD, status);
}

int main(int argc, char **argv)
{
  int rank, ranks, provided;
  double one = 1.0, zero = 0.0;
  isochron_session_t *session;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int64_t (*rectangles)[4] = malloc(ranks * sizeof *rectangles);
  for (int i = 0; i < ranks; i++) {
    int64_t first = N * i / ranks, end = N * (i + 1) / ranks;
    rectangles[i][0] = first, rectangles[i][1] = 0, rectangles[i][2] = end - first, rectangles[i][3] = N;
  }
  isochron_matrix_t rows = {.struct_size = sizeof rows, .kind = ISOCHRON_RECTANGLES, .row_major = 1,
                            .rows = N, .cols = N, .rectangles = rectangles[0], .ld = N};
  isochron_matrix_t a = rows, b = rows, c = rows;
  int64_t n_mine = rectangles[rank][2] * N;
  double *mine = malloc(3 * n_mine * sizeof(double));
  a.data = mine, b.data = mine + n_mine, c.data = mine + 2 * n_mine;
  for (int64_t i = 0; i < 2 * n_mine; i++)
    mine[i] = 1.0;
  check(isochron_open_comm(MPI_COMM_WORLD, NULL, &session));
  check(isochron_gemm(session, ISOCHRON_F64, 'N', 'N', &one, &a, &b, &zero, &c));
  if (rank == 0)
    printf("each element of C is %g\n", ((double *)c.data)[0]);
  check(isochron_close(session));
  free(mine), free(rectangles);
  return MPI_Finalize();
}
