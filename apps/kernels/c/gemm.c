/* The rank-BLOCK update of a part of C by a BLAS. */
#include "update.h"

enum { COLUMN_MAJOR = 102, NO_TRANSPOSE = 111 };

extern void cblas_dgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha,
                        const double *a, int lda, const double *b, int ldb, double beta, double *c, int ldc);

static int32_t multiply(int m, int n, const double *a, const double *b, double *c,
                        const isochron_flag_t *interrupted) {
  if (*interrupted) return ISOCHRON_KERNEL_INTERRUPTED;
  if (m > 0 && n > 0)
    cblas_dgemm(COLUMN_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, m, n, BLOCK, 1.0, a, m, b, BLOCK, 1.0, c, m);
  return ISOCHRON_KERNEL_OK;
}

const isochron_kernel_t isochron_kernel = {
    ISOCHRON_KERNEL_ABI, "gemm in C", complexity, initialize, execute, finalize};
