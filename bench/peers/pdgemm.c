/* C = A·B by ScaLAPACK's pdgemm.
 *
 * pdgemm M N K REPETITIONS BLOCK ROWS: the seconds of each repetition as a JSON object on standard output of rank 0, on a
 * grid with this number of rows. The product is checked; a smaller one warms up what starts late: connections, the threads
 * and buffers of the BLAS. */
#include <mpi.h>

#include "probe.h"

#ifdef LOGICAL_BLOCK
/* The inner dimension of PBLAS's calls of dgemm. The reference library says 32, whatever the block size is, with which
 * dgemm is far from its peak; a program that defines the function has a say. */
int pilaenv_(int *context, char *precision, int length)
{
    (void)context, (void)precision, (void)length;
    return LOGICAL_BLOCK;
}
#endif

void Cblacs_pinfo(int *rank, int *size);
void Cblacs_get(int context, int what, int *value);
void Cblacs_gridinit(int *context, const char *order, int rows, int cols);
void Cblacs_gridinfo(int context, int *rows, int *cols, int *row, int *col);
void Cblacs_gridexit(int context);
int numroc_(const int *n, const int *block, const int *place, const int *source, const int *count);
void descinit_(int *descriptor, const int *m, const int *n, const int *mb, const int *nb, const int *row_source,
               const int *col_source, const int *context, const int *ld, int *info);
void pdgemm_(const char *op_a, const char *op_b, const int *m, const int *n, const int *k, const double *alpha,
             const double *a, const int *ia, const int *ja, const int *a_desc, const double *b, const int *ib,
             const int *jb, const int *b_desc, const double *beta, double *c, const int *ic, const int *jc,
             const int *c_desc);

static const int ZERO = 0, ONE = 1;

typedef struct {
    int context, block, rows, cols, row, col;
} Grid;

/* A block-cyclic matrix: the local part is rows×cols, column-major without gaps. */
typedef struct {
    int rows, cols, descriptor[9];
    double *values;
} Matrix;

/* The place in the whole matrix of a local row or column. */
static long global(long local, int block, int place, int count)
{
    return (local / block * count + place) * (long)block + local % block;
}

static Matrix matrix(const Grid *grid, int rows, int cols)
{
    Matrix made;
    made.rows = numroc_(&rows, &grid->block, &grid->row, &ZERO, &grid->rows);
    made.cols = numroc_(&cols, &grid->block, &grid->col, &ZERO, &grid->cols);
    int info, ld = made.rows > 1 ? made.rows : 1;
    descinit_(made.descriptor, &rows, &cols, &grid->block, &grid->block, &ZERO, &ZERO, &grid->context, &ld, &info);
    if (info != 0) {
        fprintf(stderr, "descinit: %d\n", info);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    made.values = allocate((size_t)made.rows * made.cols, sizeof(double));
    return made;
}

/* Fills with the elements of a seed, with zeros for seed 0. */
static void fill(const Grid *grid, Matrix *into, uint64_t seed)
{
    for (long j = 0; j < into->cols; j++) {
        long col = global(j, grid->block, grid->col, grid->cols);
        for (long i = 0; i < into->rows; i++) {
            long row = global(i, grid->block, grid->row, grid->rows);
            into->values[i + j * into->rows] = seed ? element(seed, row, col) : 0.0;
        }
    }
}

/* M·x, all of it on every rank. */
static double *product(const Grid *grid, const Matrix *matrix, int rows, const double *x)
{
    double *here = calloc(matrix->rows + 1, sizeof(double)), *all = calloc(rows, sizeof(double));
    double *mine = allocate(matrix->cols, sizeof(double));
    for (long j = 0; j < matrix->cols; j++)
        mine[j] = x[global(j, grid->block, grid->col, grid->cols)];
    add_product(matrix->rows, matrix->cols, matrix->values, matrix->rows, mine, here);
    for (long i = 0; i < matrix->rows; i++)
        all[global(i, grid->block, grid->row, grid->rows)] += here[i];
    MPI_Allreduce(MPI_IN_PLACE, all, rows, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    free(here), free(mine);
    return all;
}

static int is_right(const Grid *grid, const int *size, const Matrix *a, const Matrix *b, const Matrix *c)
{
    double *x = allocate(size[1], sizeof(double));
    for (int j = 0; j < size[1]; j++)
        x[j] = sign(j);
    double *z = product(grid, b, size[2], x), *w = product(grid, a, size[0], z), *y = product(grid, c, size[0], x);
    int right = 1;
    for (int i = 0; i < size[0]; i++)
        right &= fabs(y[i] - w[i]) <= allowed(size[1], size[2]);
    free(x), free(z), free(w), free(y);
    return right;
}

static double multiply(const int *size, int k, const Matrix *a, const Matrix *b, Matrix *c)
{
    const double alpha = 1.0, beta = 0.0;
    MPI_Barrier(MPI_COMM_WORLD);
    double start_s = MPI_Wtime();
    pdgemm_("N", "N", &size[0], &size[1], &k, &alpha, a->values, &ONE, &ONE, a->descriptor, b->values, &ONE, &ONE,
            b->descriptor, &beta, c->values, &ONE, &ONE, c->descriptor);
    MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Wtime() - start_s;
}

/* Whether the product is right. */
static int run(const Grid *grid, const int *size, int repetitions, int rank)
{
    Matrix a = matrix(grid, size[0], size[2]), b = matrix(grid, size[2], size[1]), c = matrix(grid, size[0], size[1]);
    fill(grid, &a, SEED_A), fill(grid, &b, SEED_B), fill(grid, &c, 0);
    multiply(size, size[2] < 256 ? size[2] : 256, &a, &b, &c);
    if (rank == 0)
        printf("{\"wall_s\": [");
    for (int repetition = 0; repetition < repetitions; repetition++) {
        double seconds = multiply(size, size[2], &a, &b, &c);
        if (rank == 0)
            printf("%s%.9f", repetition ? ", " : "", seconds);
    }
    int right = is_right(grid, size, &a, &b, &c);
    if (rank == 0)
        printf("]}\n"), fflush(stdout);
    free(a.values), free(b.values), free(c.values);
    return right;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    Cblacs_pinfo(&rank, &ranks);
    if (argc != 7) {
        if (rank == 0)
            fprintf(stderr, "pdgemm M N K REPETITIONS BLOCK ROWS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    int size[3] = {atoi(argv[1]), atoi(argv[2]), atoi(argv[3])};
    Grid grid = {.block = atoi(argv[5]), .rows = atoi(argv[6])};
    if (grid.block < 1 || grid.rows < 1 || ranks % grid.rows != 0) {
        fprintf(stderr, "no grid of %d ranks has %s rows of blocks of %s\n", ranks, argv[6], argv[5]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    grid.cols = ranks / grid.rows;
    Cblacs_get(-1, 0, &grid.context);
    Cblacs_gridinit(&grid.context, "Row", grid.rows, grid.cols);
    Cblacs_gridinfo(grid.context, &grid.rows, &grid.cols, &grid.row, &grid.col);
    int right = run(&grid, size, atoi(argv[4]), rank);
    Cblacs_gridexit(grid.context);
    if (!right && rank == 0)
        fprintf(stderr, "the product is wrong\n");
    MPI_Finalize();
    return !right;
}
