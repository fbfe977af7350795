/* Products of matrices whose elements all differ, against a plain triple loop: mpirun -n 6 values.
 * Matrices that agree in their blocks are used in place, and others are moved, which the session tells.
 * Each layout stands for A, for B and for C. The place of an element follows from the definitions of ScaLAPACK and of the
 * header, so a source, a grid or an order that is taken for another one gives wrong elements.
 * ISOCHRON_STORE names a new folder: a second session begins with what the first one has saved there. */
#include <complex.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "checks.h"
#include "isochron.h"

enum { RANKS = 6, M = 23, N = 19, K = 17, SPARE = 3, MOST_BLOCKS = 4, LAYOUTS = 9, AGREEING = 48 };

/* A matrix and this rank's pieces of it. */
struct matrix {
  isochron_matrix_t table;
  int64_t rectangles[RANKS][4], row_cuts[4], col_cuts[4], owners[9];
  int n_pieces;
  int64_t rows[MOST_BLOCKS], cols[MOST_BLOCKS], lds[MOST_BLOCKS];
  void *pieces[MOST_BLOCKS];
};

/* The place of an element: a rank, one of its pieces, and the row and column in that. */
struct place {
  int64_t rank;
  int piece;
  int64_t row, col;
};

static isochron_session_t *session;

static int is_complex(int type)
{
  return type == ISOCHRON_C32 || type == ISOCHRON_C64;
}

static size_t count_bytes(int type)
{
  static const size_t bytes[] = {sizeof(float), sizeof(double), sizeof(float complex), sizeof(double complex)};
  return bytes[type];
}

static void put(int type, void *at, double complex value)
{
  switch (type) {
  case ISOCHRON_F32: *(float *)at = (float)creal(value); break;
  case ISOCHRON_F64: *(double *)at = creal(value); break;
  case ISOCHRON_C32: *(float complex *)at = (float complex)value; break;
  default: *(double complex *)at = value;
  }
}

static double complex get(int type, const void *at)
{
  switch (type) {
  case ISOCHRON_F32: return *(const float *)at;
  case ISOCHRON_F64: return *(const double *)at;
  case ISOCHRON_C32: return *(const float complex *)at;
  default: return *(const double complex *)at;
  }
}

/* Returns an element of A, B or C. All sums of products are whole numbers that float can hold. */
static double complex find_element(int type, int which, int64_t row, int64_t col)
{
  int64_t seed = (3 + 2 * which) * row + 5 * col + row * col;
  double complex value = (double)(seed % 7 - 3);
  return is_complex(type) ? value + I * (double)((seed + row) % 5 - 2) : value;
}

/* What lies between the lines of a piece. */
static const double GAP = -77.0;

static void describe_cyclic(isochron_matrix_t *table, int is_by_columns, int64_t row_source, int64_t col_source)
{
  table->kind = ISOCHRON_BLOCK_CYCLIC;
  table->row_block = 3, table->col_block = 2;
  table->grid_rows = 2, table->grid_cols = 3, table->grid_by_columns = is_by_columns;
  table->row_source = row_source, table->col_source = col_source;
}

/* Five rectangles in two columns; the third rank has none. */
static void describe_rectangles(struct matrix *made)
{
  int64_t rows = made->table.rows, cols = made->table.cols;
  const int64_t rectangles[RANKS][4] = {{9, 0, rows - 9, 8}, {4, 8, 8, cols - 8}, {0, 0, 0, 0},
                                        {0, 0, 9, 8}, {12, 8, rows - 12, cols - 8}, {0, 8, 4, cols - 8}};
  made->table.kind = ISOCHRON_RECTANGLES;
  memcpy(made->rectangles, rectangles, sizeof rectangles);
  made->table.rectangles = made->rectangles[0];
}

/* Nine blocks; the fourth rank has none. */
static void describe_blocks(struct matrix *made)
{
  const int64_t row_cuts[] = {0, 5, 6, made->table.rows}, col_cuts[] = {0, 3, 11, made->table.cols};
  const int64_t owners[] = {4, 0, 4, 1, 5, 0, 2, 2, 1};
  memcpy(made->row_cuts, row_cuts, sizeof row_cuts);
  memcpy(made->col_cuts, col_cuts, sizeof col_cuts);
  memcpy(made->owners, owners, sizeof owners);
  made->table.kind = ISOCHRON_BLOCKS;
  made->table.block_rows = made->table.block_cols = 3;
  made->table.row_cuts = made->row_cuts, made->table.col_cuts = made->col_cuts, made->table.owners = made->owners;
}

static void describe(struct matrix *made, int layout, int64_t rows, int64_t cols)
{
  memset(made, 0, sizeof *made);
  made->table.struct_size = sizeof made->table;
  made->table.rows = rows, made->table.cols = cols;
  made->table.row_major = layout % 2;
  switch (layout) {
  case 0: describe_cyclic(&made->table, 0, 1, 2); break;
  case 1: describe_cyclic(&made->table, 0, 0, 1); break;
  case 2: describe_cyclic(&made->table, 1, 1, 1); break;
  case 3: describe_cyclic(&made->table, 1, 1, 0); break;
  case 4: case 5: describe_rectangles(made); break;
  case 6: case 7: describe_blocks(made); break;
  default: made->table.kind = ISOCHRON_ON_ONE, made->table.rank = 4;
  }
}

static struct place find_in_cyclic(const isochron_matrix_t *table, int64_t row, int64_t col)
{
  int64_t row_block = row / table->row_block, col_block = col / table->col_block;
  int64_t grid_row = (row_block + table->row_source) % table->grid_rows;
  int64_t grid_col = (col_block + table->col_source) % table->grid_cols;
  struct place found = {.piece = 0};
  found.rank = table->grid_by_columns ? grid_col * table->grid_rows + grid_row : grid_row * table->grid_cols + grid_col;
  found.row = row_block / table->grid_rows * table->row_block + row % table->row_block;
  found.col = col_block / table->grid_cols * table->col_block + col % table->col_block;
  return found;
}

static struct place find_in_rectangles(const struct matrix *matrix, int64_t row, int64_t col)
{
  struct place found = {.rank = -1};
  for (int owner = 0; owner < RANKS; owner++) {
    const int64_t *first = matrix->rectangles[owner];
    if (row >= first[0] && row < first[0] + first[2] && col >= first[1] && col < first[1] + first[3])
      found = (struct place){owner, 0, row - first[0], col - first[1]};
  }
  return found;
}

static struct place find_in_blocks(const struct matrix *matrix, int64_t row, int64_t col)
{
  int block_row = 0, block_col = 0;
  while (row >= matrix->row_cuts[block_row + 1])
    block_row++;
  while (col >= matrix->col_cuts[block_col + 1])
    block_col++;
  int block = block_col * 3 + block_row, piece = 0;
  for (int before = 0; before < block; before++)
    piece += matrix->owners[before] == matrix->owners[block];
  return (struct place){matrix->owners[block], piece, row - matrix->row_cuts[block_row], col - matrix->col_cuts[block_col]};
}

static struct place find_place(const struct matrix *matrix, int64_t row, int64_t col)
{
  switch (matrix->table.kind) {
  case ISOCHRON_BLOCK_CYCLIC: return find_in_cyclic(&matrix->table, row, col);
  case ISOCHRON_RECTANGLES: return find_in_rectangles(matrix, row, col);
  case ISOCHRON_BLOCKS: return find_in_blocks(matrix, row, col);
  default: return (struct place){matrix->table.rank, 0, row, col};
  }
}

static void *find_address(const struct matrix *matrix, int type, struct place place)
{
  int64_t line = matrix->table.row_major ? place.row : place.col;
  int64_t along = matrix->table.row_major ? place.col : place.row;
  return (char *)matrix->pieces[place.piece] + (line * matrix->lds[place.piece] + along) * count_bytes(type);
}

/* Finds the sizes of this rank's pieces. */
static void measure_pieces(struct matrix *matrix)
{
  for (int64_t row = 0; row < matrix->table.rows; row++)
    for (int64_t col = 0; col < matrix->table.cols; col++) {
      struct place place = find_place(matrix, row, col);
      if (place.rank != rank)
        continue;
      int piece = place.piece;
      matrix->n_pieces = piece >= matrix->n_pieces ? piece + 1 : matrix->n_pieces;
      matrix->rows[piece] = place.row >= matrix->rows[piece] ? place.row + 1 : matrix->rows[piece];
      matrix->cols[piece] = place.col >= matrix->cols[piece] ? place.col + 1 : matrix->cols[piece];
    }
}

static int64_t count_held(const struct matrix *matrix, int piece)
{
  return matrix->lds[piece] * (matrix->table.row_major ? matrix->rows[piece] : matrix->cols[piece]);
}

/* Makes the memory of a matrix, whose lines are longer than needed, and writes its elements. */
static void fill(struct matrix *matrix, int type, int which)
{
  measure_pieces(matrix);
  for (int piece = 0; piece < matrix->n_pieces; piece++) {
    matrix->lds[piece] = (matrix->table.row_major ? matrix->cols[piece] : matrix->rows[piece]) + SPARE;
    matrix->pieces[piece] = malloc(count_held(matrix, piece) * count_bytes(type));
    for (int64_t i = 0; i < count_held(matrix, piece); i++)
      put(type, (char *)matrix->pieces[piece] + i * count_bytes(type), GAP);
  }
  for (int64_t row = 0; row < matrix->table.rows; row++)
    for (int64_t col = 0; col < matrix->table.cols; col++) {
      struct place place = find_place(matrix, row, col);
      if (place.rank == rank)
        put(type, find_address(matrix, type, place), find_element(type, which, row, col));
    }
  matrix->table.data = matrix->pieces[0], matrix->table.ld = matrix->n_pieces > 0 ? matrix->lds[0] : 1;
  matrix->table.n_blocks = matrix->n_pieces;
  matrix->table.blocks = matrix->pieces, matrix->table.block_lds = matrix->lds;
}

/* Returns an element of op(A) or op(B). */
static double complex find_factor(int type, int which, char op, int64_t row, int64_t col)
{
  double complex value = op == 'N' ? find_element(type, which, row, col) : find_element(type, which, col, row);
  return op == 'C' ? conj(value) : value;
}

/* Compares this rank's elements of C with a triple loop, and what lies between its lines with what was there. */
static void check_result(const struct matrix *c, int type, const char ops[2], const double complex scalars[2], int layout)
{
  int n_wrong = 0;
  for (int64_t row = 0; row < M; row++)
    for (int64_t col = 0; col < N; col++) {
      struct place place = find_place(c, row, col);
      if (place.rank != rank)
        continue;
      double complex sum = 0.0;
      for (int64_t k = 0; k < K; k++)
        sum += find_factor(type, 0, ops[0], row, k) * find_factor(type, 1, ops[1], k, col);
      double complex wanted = scalars[0] * sum + scalars[1] * find_element(type, 2, row, col);
      void *at = find_address(c, type, place);
      n_wrong += get(type, at) != wanted;
      put(type, at, GAP);
    }
  for (int piece = 0; piece < c->n_pieces; piece++)
    for (int64_t i = 0; i < count_held(c, piece); i++)
      n_wrong += get(type, (char *)c->pieces[piece] + i * count_bytes(type)) != GAP;
  if (n_wrong > 0)
    printf("rank %d, layout %d, type %d, %c%c: %d are wrong\n", rank, layout, type, ops[0], ops[1], n_wrong);
  n_failed += n_wrong;
}

/* Multiplies at once, or by a product that is prepared. */
static void multiply(int is_prepared, int type, const char ops[2], const void *alpha, const struct matrix *a,
                     const struct matrix *b, const void *beta, const struct matrix *c)
{
  isochron_product_t *product;
  if (!is_prepared) {
    check(isochron_gemm(session, type, ops[0], ops[1], alpha, &a->table, &b->table, beta, &c->table));
    return;
  }
  check(isochron_prepare(session, type, ops[0], ops[1], &a->table, &b->table, &c->table, &product));
  check(isochron_run(product, alpha, &a->table, &b->table, beta, &c->table));
  check(isochron_close_product(product));
}

/* C = alpha*op(A)*op(B) + beta*C, with A in this layout. */
static void try_layout(int layout)
{
  static struct matrix matrices[3];
  int type = layout % 4;
  const char ops[2] = {"NTC"[layout % 3], "NTC"[layout / 3]};
  double complex scalars[2] = {2.0, -3.0}, alpha, beta;
  if (is_complex(type))
    scalars[0] -= I, scalars[1] += 2.0 * I;
  put(type, &alpha, scalars[0]), put(type, &beta, scalars[1]);
  describe(&matrices[0], layout, ops[0] == 'N' ? M : K, ops[0] == 'N' ? K : M);
  describe(&matrices[1], (layout + 4) % LAYOUTS, ops[1] == 'N' ? K : N, ops[1] == 'N' ? N : K);
  describe(&matrices[2], (layout + 7) % LAYOUTS, M, N);
  for (int which = 0; which < 3; which++)
    fill(&matrices[which], type, which);
  multiply(layout % 2, type, ops, &alpha, &matrices[0], &matrices[1], &beta, &matrices[2]);
  check_result(&matrices[2], type, ops, scalars, layout);
  for (int which = 0; which < 3; which++)
    for (int piece = 0; piece < matrices[which].n_pieces; piece++)
      free(matrices[which].pieces[piece]);
}

/* Describes a matrix in blocks of 4 on one row of processes, or on one column of them. */
static void describe_agreeing(struct matrix *made, int is_by_rows)
{
  memset(made, 0, sizeof *made);
  made->table.struct_size = sizeof made->table, made->table.kind = ISOCHRON_BLOCK_CYCLIC;
  made->table.rows = made->table.cols = AGREEING, made->table.row_block = made->table.col_block = 4;
  made->table.grid_rows = is_by_rows ? RANKS : 1, made->table.grid_cols = is_by_rows ? 1 : RANKS;
}

/* Multiplies matrices on one row of processes, of which A may be on a column: then it has to be moved. */
static void try_places(int moves_a)
{
  static struct matrix matrices[3];
  isochron_last_run_t run = {.struct_size = sizeof run};
  double one = 1.0, zero = 0.0;
  for (int which = 0; which < 3; which++) {
    describe_agreeing(&matrices[which], moves_a && which == 0);
    fill(&matrices[which], ISOCHRON_F64, which);
  }
  multiply(moves_a, ISOCHRON_F64, "NN", &one, &matrices[0], &matrices[1], &zero, &matrices[2]);
  check(isochron_last_run(session, &run));
  expect("A is where it should be", run.a_in_place == !moves_a);
  expect("B and C are used in place", run.b_in_place == 1 && run.c_in_place == 1);
  expect("messages are those of A", (run.messages > 0) == moves_a && (run.bytes > 0) == moves_a);
  expect("moves take time", moves_a ? run.seconds > 0.0 : run.seconds == 0.0);
  for (int which = 0; which < 3; which++)
    free(matrices[which].pieces[0]);
}

/* A session knows the devices if an earlier one has saved what it learnt. */
static void try_store(int is_known)
{
  static struct matrix matrices[3];
  const char *report;
  double one = 1.0, zero = 0.0;
  check(isochron_open_comm(MPI_COMM_WORLD, "blas=embedded grouping=node block=4 panel=4 store=read-write", &session));
  for (int which = 0; which < 3; which++) {
    describe_agreeing(&matrices[which], 0);
    fill(&matrices[which], ISOCHRON_F64, which);
  }
  multiply(0, ISOCHRON_F64, "NN", &one, &matrices[0], &matrices[1], &zero, &matrices[2]);
  check(isochron_report(session, &report));
  expect("the second session knows devices", (strstr(report, "\"known\":\"store") != NULL) == is_known);
  check(isochron_free(report));
  check(isochron_save_models(session));
  check(isochron_close(session));
  for (int which = 0; which < 3; which++)
    free(matrices[which].pieces[0]);
}

int main(int argc, char **argv)
{
  int provided, ranks;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != RANKS)
    fprintf(stderr, "start %d ranks\n", RANKS), MPI_Abort(MPI_COMM_WORLD, 1);
  check(isochron_open_comm(MPI_COMM_WORLD, "blas=embedded grouping=node strategy=homogeneous block=4", &session));
  for (int layout = 0; layout < LAYOUTS; layout++)
    try_layout(layout);
  check(isochron_set(session, "split", "c"));
  try_places(0);
  try_places(1);
  check(isochron_close(session));
  try_store(0);
  try_store(1);
  MPI_Allreduce(MPI_IN_PLACE, &n_failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && n_failed == 0)
    printf("%d products are right\n", LAYOUTS);
  MPI_Finalize();
  return n_failed > 0;
}
