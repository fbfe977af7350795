/* OpenBLAS's dgemm. On HOST it takes twice as long for a large C, as with a slow memory: in halves of alpha. */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

typedef void dgemm_t(int layout, int op_a, int op_b, int m, int n, int k, double alpha, const double *a, int lda,
                     const double *b, int ldb, double beta, double *c, int ldc);

/* Elements of C from which it is large: 2 MiB. */
static const long LARGE = 1L << 18;
static dgemm_t *original;
static int is_slow;

__attribute__((constructor)) static void find(void)
{
    char name[256] = "";
    original = (dgemm_t *)dlsym(dlopen("libopenblas.so.0", RTLD_NOW), "cblas_dgemm");
    gethostname(name, sizeof name - 1);
    is_slow = strcmp(name, HOST) == 0;
}

void cblas_dgemm(int layout, int op_a, int op_b, int m, int n, int k, double alpha, const double *a, int lda,
                 const double *b, int ldb, double beta, double *c, int ldc)
{
    if (is_slow && (long)m * n >= LARGE) {
        alpha /= 2.0;
        original(layout, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        beta = 1.0;
    }
    original(layout, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
