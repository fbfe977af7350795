/* Rows of a dense matrix and the vector that they are multiplied by: a unit is a row of WIDTH columns.
 * The file that includes this defines make_element, finish_row and end_run. */
#include <stdlib.h>
#include <string.h>

#include "isochron_kernel.h"

#ifndef WIDTH
#define WIDTH 1024
#endif

typedef struct {
  uint64_t rows;
  double *a, *x, *y;
} data_t;

/* Element j of row i. */
static double make_element(uint64_t i, uint64_t j);
/* The element of y for row i, from the product of the row and x. */
static double finish_row(const data_t *data, uint64_t i, double product);
/* What follows the last row. */
static void end_run(data_t *data);

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
  uint64_t i, j;
  if (!data) return ISOCHRON_KERNEL_NO_MEMORY;
  data->rows = d;
  data->a = malloc(d * WIDTH * sizeof(double));
  data->x = malloc(WIDTH * sizeof(double));
  data->y = calloc(d, sizeof(double));
  if (!data->a || !data->x || !data->y) {
    finalize(data);
    return ISOCHRON_KERNEL_NO_MEMORY;
  }
  for (i = 0; i < d; i++)
    for (j = 0; j < WIDTH; j++) data->a[i * WIDTH + j] = make_element(i, j);
  for (j = 0; j < WIDTH; j++) data->x[j] = (double)j / WIDTH;
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
    data->y[i] = finish_row(data, i, sum);
  }
  end_run(data);
  return ISOCHRON_KERNEL_OK;
}
