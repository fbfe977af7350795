/* The rank-BLOCK update of a part of C: d units are d blocks of C, as nearly square as they go. All column-major.
 * The file that includes this defines multiply, which computes C += A * B for the m x BLOCK pivot column and the
 * BLOCK x n pivot row. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "isochron_kernel.h"

#ifndef BLOCK
#define BLOCK 32
#endif

static int32_t multiply(int m, int n, const double *a, const double *b, double *c,
                        const isochron_flag_t *interrupted);

typedef struct {
  uint64_t m, n;
  double *a, *b, *c, *column, *row;
} data_t;

static void split_area(uint64_t d, uint64_t *m, uint64_t *n) {
  *m = (uint64_t)sqrt((double)d);
  *n = *m ? d / *m : 0;
}

static double complexity(uint64_t d) {
  uint64_t m, n;
  split_area(d, &m, &n);
  return 2.0 * (double)(m * BLOCK) * (double)(n * BLOCK) * BLOCK;
}

static int32_t finalize(void *context) {
  data_t *data = context;
  free(data->a);
  free(data->b);
  free(data->c);
  free(data->column);
  free(data->row);
  free(data);
  return ISOCHRON_KERNEL_OK;
}

static int32_t initialize(uint64_t d, void **context) {
  data_t *data = calloc(1, sizeof *data);
  uint64_t i, size;
  if (!data) return ISOCHRON_KERNEL_NO_MEMORY;
  split_area(d, &data->m, &data->n);
  data->m *= BLOCK;
  data->n *= BLOCK;
  size = data->m * data->n;
  data->a = malloc(size * sizeof(double));
  data->b = malloc(size * sizeof(double));
  data->c = calloc(size, sizeof(double));
  data->column = calloc(data->m * BLOCK, sizeof(double));
  data->row = calloc(BLOCK * data->n, sizeof(double));
  if (!data->a || !data->b || !data->c || !data->column || !data->row) {
    finalize(data);
    return ISOCHRON_KERNEL_NO_MEMORY;
  }
  for (i = 0; i < size; i++) data->a[i] = data->b[i] = (double)(i % 1021) / 1021;
  *context = data;
  return ISOCHRON_KERNEL_OK;
}

static int32_t execute(void *context, const isochron_flag_t *interrupted) {
  data_t *data = context;
  uint64_t j;
  /* In place of the messages of the pivots. */
  memcpy(data->column, data->a, data->m * BLOCK * sizeof(double));
  for (j = 0; j < data->n; j++)
    memcpy(data->row + j * BLOCK, data->b + j * data->m, BLOCK * sizeof(double));
  return multiply((int)data->m, (int)data->n, data->column, data->row, data->c, interrupted);
}
