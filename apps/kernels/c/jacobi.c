/* A sweep of Jacobi's method over d rows of a dense system with WIDTH unknowns. */
#include <stdlib.h>
#include <string.h>

#include "isochron_kernel.h"

#ifndef WIDTH
#define WIDTH 1024
#endif

typedef struct {
  uint64_t rows;
  double *a, *b, *x, *next;
} data_t;

static int32_t finalize(void *context) {
  data_t *data = context;
  free(data->a);
  free(data->b);
  free(data->x);
  free(data->next);
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
  data->b = malloc(d * sizeof(double));
  data->x = calloc(WIDTH, sizeof(double));
  data->next = calloc(d, sizeof(double));
  if (!data->a || !data->b || !data->x || !data->next) {
    finalize(data);
    return ISOCHRON_KERNEL_NO_MEMORY;
  }
  for (i = 0; i < d * WIDTH; i++) data->a[i] = (double)(i % 1021) / 1021;
  for (i = 0; i < d; i++) {
    /* Dominated by its diagonal, so that the method converges. */
    data->a[i * WIDTH + i % WIDTH] = WIDTH;
    data->b[i] = 1;
  }
  *context = data;
  return ISOCHRON_KERNEL_OK;
}

static int32_t execute(void *context, const isochron_flag_t *interrupted) {
  data_t *data = context;
  uint64_t i, j, known = data->rows < WIDTH ? data->rows : WIDTH;
  for (i = 0; i < data->rows; i++) {
    const double *row = data->a + i * WIDTH;
    uint64_t own = i % WIDTH;
    double sum = 0;
    if (*interrupted) return ISOCHRON_KERNEL_INTERRUPTED;
    for (j = 0; j < WIDTH; j++) sum += row[j] * data->x[j];
    data->next[i] = (data->b[i] - sum + row[own] * data->x[own]) / row[own];
  }
  /* In place of the exchange of the new values. */
  memcpy(data->x, data->next, known * sizeof(double));
  return ISOCHRON_KERNEL_OK;
}

const isochron_kernel_t isochron_kernel = {
    ISOCHRON_KERNEL_ABI, "jacobi in C", complexity, initialize, execute, finalize};
