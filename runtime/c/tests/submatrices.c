/* Multiplies submatrices as ScaLAPACK describes them, and matrices whose first blocks are short: mpirun -n 4 submatrices. */
#include <mpi.h>
#include <stdio.h>
#include "checks.h"
#include "isochron.h"

enum { N = 40, LLD = 50, M = 20, COLS = 15, K = 17 };

static double local[3][LLD * N];
/* The elements of A, of B and of C before and after the product. */
static double find_a(int64_t row, int64_t col) { return (double)(row + 2 * col); }
static double find_b(int64_t row, int64_t col) { return (double)(3 * row - col); }
static double find_c(int64_t row, int64_t col)
{
  double sum = (double)(row - col);
  for (int64_t k = 0; k < K; k++)
    sum += find_a(row, k) * find_b(k, col);
  return sum;
}

/* A function of the elements, and the number of elements that it was asked about. */
struct visitor {
  double (*find)(int64_t row, int64_t col);
  int n_elements;
};

static double find_before(int64_t row, int64_t col) { return (double)(row - col); }

static void fill(void *context, int64_t row, int64_t col, void *element)
{
  struct visitor *visitor = context;
  *(double *)element = visitor->find(row, col);
  visitor->n_elements++;
}

static void compare(void *context, int64_t row, int64_t col, void *element)
{
  struct visitor *visitor = context;
  n_failed += *(double *)element != visitor->find(row, col);
  visitor->n_elements++;
}

/* Visits all elements of a matrix, which the ranks have together. */
static void visit_all(isochron_session_t *session, const isochron_matrix_t *matrix, int wanted,
                      void (*visit)(void *, int64_t, int64_t, void *), double (*find)(int64_t, int64_t))
{
  struct visitor visitor = {find, 0};
  int sum;
  check(isochron_elements(session, ISOCHRON_F64, matrix, visit, &visitor));
  MPI_Allreduce(&visitor.n_elements, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  n_failed += sum != wanted;
}

/* Multiplies C += A B, and compares every element. What lies around a submatrix stays. */
static void multiply(isochron_session_t *session, const isochron_matrix_t *a, const isochron_matrix_t *b, const isochron_matrix_t *c)
{
  double one = 1.0;
  int n_around = 0, n_kept = 0;
  for (int side = 0; side < 3; side++)
    for (int i = 0; i < LLD * N; i++)
      local[side][i] = -7.5;
  visit_all(session, a, M * K, fill, find_a);
  visit_all(session, b, K * COLS, fill, find_b);
  visit_all(session, c, M * COLS, fill, find_before);
  for (int i = 0; i < LLD * N; i++)
    n_around += local[2][i] == -7.5;
  check(isochron_gemm(session, ISOCHRON_F64, 'N', 'N', &one, a, b, &one, c));
  visit_all(session, c, M * COLS, compare, find_c);
  for (int i = 0; i < LLD * N; i++)
    n_kept += local[2][i] == -7.5;
  n_failed += n_kept != n_around;
}

int main(int argc, char **argv)
{
  int provided, descriptor[9] = {1, 0, N, N, 5, 4, 1, 0, LLD};
  isochron_session_t *session;
  isochron_matrix_t a = {.struct_size = sizeof a}, b = a, c = a;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  check(isochron_open_comm(MPI_COMM_WORLD, "blas=embedded strategy=homogeneous", &session));
  check(isochron_from_descriptor(descriptor, 3, 6, M, K, 2, 2, 0, local[0], &a));
  check(isochron_from_descriptor(descriptor, 14, 1, K, COLS, 2, 2, 0, local[1], &b));
  check(isochron_from_descriptor(descriptor, 20, 26, M, COLS, 2, 2, 0, local[2], &c));
  multiply(session, &a, &b, &c);
  isochron_matrix_t uneven = {.struct_size = sizeof uneven, .kind = ISOCHRON_BLOCK_CYCLIC, .row_block = 5, .col_block = 4,
                              .grid_rows = 2, .grid_cols = 2, .grid_by_columns = 1, .col_source = 1, .ld = LLD};
  a = b = c = uneven;
  a.rows = c.rows = M, a.cols = b.rows = K, b.cols = c.cols = COLS;
  a.first_row_block = c.first_row_block = 2, a.first_col_block = 1, b.first_row_block = 5, c.first_col_block = 3;
  a.data = local[0], b.data = local[1], c.data = local[2];
  multiply(session, &a, &b, &c);
  check(isochron_close(session));
  MPI_Allreduce(MPI_IN_PLACE, &n_failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && n_failed == 0)
    printf("the submatrices are right\n");
  MPI_Finalize();
  return n_failed > 0;
}
