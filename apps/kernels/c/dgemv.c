/* The product of a matrix with d rows of WIDTH columns and a vector. */
#include <stdlib.h>

#include "isochron_kernel.h"

#ifndef WIDTH
#define WIDTH 1024
#endif

typedef struct {
  uint64_t rows;
  double *a, *x, *y;
} data_t;

static int32_t finalize(void *context) {
  data_t *data = context;
  free(data->a);
  free(data->x);
  free(data->y);
  free(data);
  return ISOCHRON_KERNEL_OK;
}

static double complexity(uint64_t d) { return 2.0 * WIDTH * (double)d; }

static int32_t initialize(uint64_t d, void **context) {
  data_t *data = calloc(1, sizeof *data);
  uint64_t i;
  if (!data) return ISOCHRON_KERNEL_NO_MEMORY;
  data->rows = d;
  data->a = malloc(d * WIDTH * sizeof(double));
  data->x = malloc(WIDTH * sizeof(double));
  data->y = calloc(d, sizeof(double));
  if (!data->a || !data->x || !data->y) {
    finalize(data);
    return ISOCHRON_KERNEL_NO_MEMORY;
  }
  for (i = 0; i < d * WIDTH; i++) data->a[i] = (double)(i % 1021) / 1021;
  for (i = 0; i < WIDTH; i++) data->x[i] = (double)i / WIDTH;
  *context = data;
  return ISOCHRON_KERNEL_OK;
}

static int32_t execute(void *context, const isochron_flag_t *interrupted) {
  data_t *data = context;
  uint64_t i, j;
  for (i = 0; i < data->rows; i++) {
    const double *row = data->a + i * WIDTH;
    double sum = 0;
    if (*interrupted) return ISOCHRON_KERNEL_INTERRUPTED;
    for (j = 0; j < WIDTH; j++) sum += row[j] * data->x[j];
    data->y[i] = sum;
  }
  return ISOCHRON_KERNEL_OK;
}

const isochron_kernel_t isochron_kernel = {
    ISOCHRON_KERNEL_ABI, "dgemv in C", complexity, initialize, execute, finalize};
