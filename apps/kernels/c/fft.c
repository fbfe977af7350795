/* The Fourier transforms of d rows of WIDTH complex numbers, WIDTH a power of 2: radix 2, in place. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "isochron_kernel.h"

#ifndef WIDTH
#define WIDTH 1024
#endif

typedef struct {
  double re, im;
} number_t;

typedef struct {
  uint64_t rows;
  number_t *from, *to, *roots;
} data_t;

static int32_t finalize(void *context) {
  data_t *data = context;
  free(data->from);
  free(data->to);
  free(data->roots);
  free(data);
  return ISOCHRON_KERNEL_OK;
}

static double complexity(uint64_t d) { return 5.0 * WIDTH * log2(WIDTH) * (double)d; }

static int32_t initialize(uint64_t d, void **context) {
  data_t *data = calloc(1, sizeof *data);
  uint64_t i;
  if (!data) return ISOCHRON_KERNEL_NO_MEMORY;
  data->rows = d;
  data->from = calloc(d * WIDTH, sizeof(number_t));
  data->to = calloc(d * WIDTH, sizeof(number_t));
  data->roots = malloc(WIDTH * sizeof(number_t));
  if (!data->from || !data->to || !data->roots) {
    finalize(data);
    return ISOCHRON_KERNEL_NO_MEMORY;
  }
  for (i = 0; i < d * WIDTH; i++) data->from[i].re = (double)(i % 1021) / 1021;
  for (i = 0; i < WIDTH; i++) {
    double angle = -6.283185307179586 * (double)i / WIDTH;
    data->roots[i].re = cos(angle);
    data->roots[i].im = sin(angle);
  }
  *context = data;
  return ISOCHRON_KERNEL_OK;
}

static void reverse_bits(number_t *row) {
  uint64_t i, j = 0, bit;
  for (i = 1; i < WIDTH; i++) {
    for (bit = WIDTH / 2; j & bit; bit /= 2) j ^= bit;
    j |= bit;
    if (i < j) {
      number_t kept = row[i];
      row[i] = row[j];
      row[j] = kept;
    }
  }
}

static void transform(number_t *row, const number_t *roots) {
  uint64_t half, from, k;
  reverse_bits(row);
  for (half = 1; half < WIDTH; half *= 2)
    for (from = 0; from < WIDTH; from += 2 * half)
      for (k = 0; k < half; k++) {
        number_t w = roots[k * (WIDTH / (2 * half))];
        number_t *low = row + from + k, *high = low + half;
        number_t turned = {w.re * high->re - w.im * high->im, w.re * high->im + w.im * high->re};
        high->re = low->re - turned.re;
        high->im = low->im - turned.im;
        low->re += turned.re;
        low->im += turned.im;
      }
}

static int32_t execute(void *context, const isochron_flag_t *interrupted) {
  data_t *data = context;
  uint64_t i;
  for (i = 0; i < data->rows; i++) {
    number_t *row = data->to + i * WIDTH;
    if (*interrupted) return ISOCHRON_KERNEL_INTERRUPTED;
    memcpy(row, data->from + i * WIDTH, WIDTH * sizeof(number_t));
    transform(row, data->roots);
  }
  return ISOCHRON_KERNEL_OK;
}

const isochron_kernel_t isochron_kernel = {
    ISOCHRON_KERNEL_ABI, "fft in C", complexity, initialize, execute, finalize};
