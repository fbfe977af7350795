/* C = A·B in tiles, each update of a tile a task of StarPU.
 *
 * starpu LIBRARY M N K REPETITIONS TILE DEPTH: the seconds of each repetition as a JSON object. TILE is the height and width
 * of a tile of C, DEPTH the inner dimension of a task. The CBLAS library must keep to one thread a call. */
#include <dlfcn.h>
#include <starpu.h>

#include "probe.h"

typedef void dgemm_call(int, int, int, int, int, int, double, const double *, int, const double *, int, double,
                        double *, int);

static dgemm_call *dgemm;

/* The first update of a tile replaces what is in it, as beta = 0 does. */
static void update(void *buffers[], void *argument)
{
    enum { COLUMN_MAJOR = 102, NO_TRANSPOSE = 111 };
    int is_first;
    starpu_codelet_unpack_args(argument, &is_first);
    int m = STARPU_MATRIX_GET_NX(buffers[2]), n = STARPU_MATRIX_GET_NY(buffers[2]), k = STARPU_MATRIX_GET_NY(buffers[0]);
    dgemm(COLUMN_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, m, n, k, 1.0, (double *)STARPU_MATRIX_GET_PTR(buffers[0]),
          STARPU_MATRIX_GET_LD(buffers[0]), (double *)STARPU_MATRIX_GET_PTR(buffers[1]),
          STARPU_MATRIX_GET_LD(buffers[1]), is_first ? 0.0 : 1.0, (double *)STARPU_MATRIX_GET_PTR(buffers[2]),
          STARPU_MATRIX_GET_LD(buffers[2]));
}

static struct starpu_codelet codelet = {
    .cpu_funcs = {update},
    .nbuffers = 3,
    .modes = {STARPU_R, STARPU_R, STARPU_RW},
    .name = "update",
};

/* A matrix known to StarPU, cut into tiles. */
typedef struct {
    long rows, cols, tile_rows, tile_cols, n_rows;
    starpu_data_handle_t *tiles;
} Tiled;

static Tiled tiled(double *values, long rows, long cols, long tile_rows, long tile_cols)
{
    Tiled made = {rows, cols, tile_rows, tile_cols, (rows + tile_rows - 1) / tile_rows, NULL};
    long n_cols = (cols + tile_cols - 1) / tile_cols;
    made.tiles = allocate(made.n_rows * n_cols, sizeof *made.tiles);
    for (long j = 0; j < n_cols; j++)
        for (long i = 0; i < made.n_rows; i++) {
            double *first = values + i * tile_rows + j * tile_cols * rows;
            long height = rows - i * tile_rows < tile_rows ? rows - i * tile_rows : tile_rows;
            long width = cols - j * tile_cols < tile_cols ? cols - j * tile_cols : tile_cols;
            starpu_matrix_data_register(&made.tiles[i + j * made.n_rows], STARPU_MAIN_RAM, (uintptr_t)first, rows,
                                        height, width, sizeof(double));
        }
    return made;
}

static void forget(Tiled *matrix)
{
    long n_cols = (matrix->cols + matrix->tile_cols - 1) / matrix->tile_cols;
    for (long at = 0; at < matrix->n_rows * n_cols; at++)
        starpu_data_unregister(matrix->tiles[at]);
    free(matrix->tiles);
}

static void submit(const Tiled *a, const Tiled *b, const Tiled *c)
{
    for (long j = 0; j * c->tile_cols < c->cols; j++)
        for (long i = 0; i < c->n_rows; i++)
            for (long p = 0; p < b->n_rows; p++) {
                int is_first = p == 0;
                int failed = starpu_task_insert(&codelet, STARPU_R, a->tiles[i + p * a->n_rows], STARPU_R,
                                                b->tiles[p + j * b->n_rows], STARPU_RW, c->tiles[i + j * c->n_rows],
                                                STARPU_VALUE, &is_first, sizeof is_first, 0);
                if (failed) {
                    fprintf(stderr, "a task was refused: %d\n", failed);
                    exit(1);
                }
            }
    starpu_task_wait_for_all();
}

/* The clock runs from the first task to the last; StarPU and its knowledge of the matrices are there before. */
static int run(const long *size, int repetitions, long tile, long depth, double *values[3])
{
    double *c = values[2];
    for (long at = 0; at < size[0] * size[1]; at++)
        c[at] = 0.0;
    Tiled a_tiles = tiled(values[0], size[0], size[2], tile, depth);
    Tiled b_tiles = tiled(values[1], size[2], size[1], depth, tile);
    Tiled c_tiles = tiled(c, size[0], size[1], tile, tile);
    printf("{\"wall_s\": [");
    for (int repetition = 0; repetition < repetitions; repetition++) {
        double start_us = starpu_timing_now();
        submit(&a_tiles, &b_tiles, &c_tiles);
        printf("%s%.9f", repetition ? ", " : "", 1e-6 * (starpu_timing_now() - start_us));
    }
    forget(&a_tiles), forget(&b_tiles), forget(&c_tiles);
    printf("]}\n");
    return report_check(is_product(size[0], size[1], size[2], values[0], values[1], c));
}

int main(int argc, char **argv)
{
    if (argc != 8) {
        fprintf(stderr, "starpu LIBRARY M N K REPETITIONS TILE DEPTH\n");
        return 2;
    }
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    dgemm = library ? (dgemm_call *)dlsym(library, "cblas_dgemm") : NULL;
    if (!dgemm) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    if (starpu_init(NULL) != 0) {
        fprintf(stderr, "StarPU did not start\n");
        return 1;
    }
    long size[3] = {atol(argv[2]), atol(argv[3]), atol(argv[4])};
    double *values[3] = {filled(SEED_A, size[0], size[2]), filled(SEED_B, size[2], size[1]),
                         allocate((size_t)size[0] * size[1], sizeof(double))};
    long tile = atol(argv[6]), depth = atol(argv[7]);
    if (tile < 1 || depth < 1) {
        fprintf(stderr, "no tasks of tiles of %s and a depth of %s\n", argv[6], argv[7]);
        return 2;
    }
    int status = run(size, atoi(argv[5]), tile, depth, values);
    starpu_shutdown();
    return status;
}
