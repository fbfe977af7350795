/* C = A·B by one call of a CBLAS library with threads of its own.
 *
 * dgemm LIBRARY M N K REPETITIONS: the seconds of each repetition as a JSON object on standard output. */
#include <dlfcn.h>
#include <time.h>

#include "probe.h"

typedef void dgemm_call(int, int, int, int, int, int, double, const double *, int, const double *, int, double,
                        double *, int);

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "dgemm LIBRARY M N K REPETITIONS\n");
        return 2;
    }
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    dgemm_call *dgemm = library ? (dgemm_call *)dlsym(library, "cblas_dgemm") : NULL;
    if (!dgemm) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    int m = atoi(argv[2]), n = atoi(argv[3]), k = atoi(argv[4]), repetitions = atoi(argv[5]);
    double *a = filled(SEED_A, m, k), *b = filled(SEED_B, k, n), *c = allocate((size_t)m * n, sizeof(double));
    enum { COLUMN_MAJOR = 102, NO_TRANSPOSE = 111 };
    for (size_t at = 0; at < (size_t)m * n; at++)
        c[at] = 0.0;
    /* The library starts its threads and takes its buffers before the clock runs. */
    dgemm(COLUMN_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, m, n, k < 256 ? k : 256, 1.0, a, m, b, k, 0.0, c, m);
    printf("{\"wall_s\": [");
    for (int repetition = 0; repetition < repetitions; repetition++) {
        double start_s = now_s();
        dgemm(COLUMN_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, m, n, k, 1.0, a, m, b, k, 0.0, c, m);
        printf("%s%.9f", repetition ? ", " : "", now_s() - start_s);
    }
    printf("]}\n");
    return report_check(is_product(m, n, k, a, b, c));
}
