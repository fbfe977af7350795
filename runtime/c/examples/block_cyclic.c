/* ScaLAPACK-style matrices in a communicator of the program's own: mpirun -n 3 block_cyclic. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "isochron.h"

enum { RANKS = 2, M = 200, N = 100, K = 300, LLD = 320 }; /* the leading dimension is larger than needed */

static void check(int status)
{
  if (status != ISOCHRON_OK)
    fprintf(stderr, "%s\n", isochron_last_error()), MPI_Abort(MPI_COMM_WORLD, status);
}

/* Describes a matrix in 32x24 blocks, the first of which is with the last rank, and makes its memory of ones. */
static isochron_matrix_t make_matrix(int64_t rows, int64_t cols, const void *one, size_t bytes)
{
  isochron_matrix_t made = {.struct_size = sizeof made, .kind = ISOCHRON_BLOCK_CYCLIC, .rows = rows, .cols = cols};
  made.row_block = 32, made.col_block = 24, made.grid_rows = 1, made.grid_cols = RANKS, made.col_source = RANKS - 1;
  made.data = malloc(LLD * cols * bytes), made.ld = LLD;
  for (int64_t i = 0; i < LLD * cols; i++)
    memcpy((char *)made.data + i * bytes, one, bytes);
  return made;
}

/* Plans C += A*B once and runs it ten times. Each element of C is then `sum`. */
static void multiply(isochron_session_t *session, int type, const void *one, const void *sum, size_t bytes)
{
  isochron_product_t *product;
  int n_right = 0;
  isochron_matrix_t a = make_matrix(M, K, one, bytes), b = make_matrix(K, N, one, bytes);
  isochron_matrix_t c = make_matrix(M, N, one, bytes);
  check(isochron_prepare(session, type, 'N', 'N', &a, &b, &c, &product));
  for (int time = 0; time < 10; time++)
    check(isochron_run(product, one, &a, &b, one, &c));
  for (int64_t i = 0; i < LLD * N; i++)
    n_right += memcmp((char *)c.data + i * bytes, sum, bytes) == 0;
  printf("%d elements of this rank are right\n", n_right);
  check(isochron_close_product(product));
  free(a.data), free(b.data), free(c.data);
}

int main(int argc, char **argv)
{
  int rank, provided;
  MPI_Comm two;
  isochron_session_t *session;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_split(MPI_COMM_WORLD, rank == 1 ? MPI_UNDEFINED : 0, rank, &two);
  if (two != MPI_COMM_NULL) { /* rank 1 has other work */
    check(isochron_open_comm(two, "block=32", &session));
    multiply(session, ISOCHRON_F32, &(float){1}, &(float){3001}, sizeof(float));
    multiply(session, ISOCHRON_F64, &(double){1}, &(double){3001}, sizeof(double));
    multiply(session, ISOCHRON_C64, (double[2]){1}, (double[2]){3001}, sizeof(double[2]));
    check(isochron_close(session));
  }
  return MPI_Finalize();
}
