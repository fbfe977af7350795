/* The rank-BLOCK update of a part of C by three loops, as the reference BLAS has it. */
#include "update.h"

static int32_t multiply(int m, int n, const double *a, const double *b, double *c,
                        const isochron_flag_t *interrupted) {
  int i, j, l;
  for (j = 0; j < n; j++) {
    if (*interrupted) return ISOCHRON_KERNEL_INTERRUPTED;
    for (l = 0; l < BLOCK; l++)
      for (i = 0; i < m; i++)
        c[i + (size_t)j * m] += a[i + (size_t)l * m] * b[l + (size_t)j * BLOCK];
  }
  return ISOCHRON_KERNEL_OK;
}

const isochron_kernel_t isochron_kernel = {
    ISOCHRON_KERNEL_ABI, "naive GEMM in C", complexity, initialize, execute, finalize};
