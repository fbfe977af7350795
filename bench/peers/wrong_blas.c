/* OpenBLAS's dgemm. On HOST the first process of it computes one element wrongly in one of ten thousand calls. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

typedef void dgemm_t(int layout, int op_a, int op_b, int m, int n, int k, double alpha, const double *a, int lda,
                     const double *b, int ldb, double beta, double *c, int ldc);

static const unsigned long SELDOM = 10000;
static dgemm_t *original;
static int is_wrong;

__attribute__((constructor)) static void find(void)
{
    char name[256] = "";
    original = (dgemm_t *)dlsym(dlopen("libopenblas.so.0", RTLD_NOW), "cblas_dgemm");
    gethostname(name, sizeof name - 1);
    if (strcmp(name, HOST) == 0) {
        /* Held as long as the process lives. */
        int lock = open(LOCK, O_CREAT | O_RDWR, 0600);
        is_wrong = lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0;
    }
}

void cblas_dgemm(int layout, int op_a, int op_b, int m, int n, int k, double alpha, const double *a, int lda,
                 const double *b, int ldb, double beta, double *c, int ldc)
{
    static _Atomic unsigned long calls;
    original(layout, op_a, op_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    if (is_wrong && ++calls % SELDOM == SELDOM / 2) {
        c[0] += 1.0;
    }
}
