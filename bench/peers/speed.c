/* The speed of every rank's dgemm while all of them compute, in 10^9 flop/s.
 *
 * speed SECONDS: their sum, and all of them by rank, as a JSON object on standard output of rank 0. */
#include <mpi.h>

#include "probe.h"

void dgemm_(const char *op_a, const char *op_b, const int *m, const int *n, const int *k, const double *alpha,
            const double *a, const int *lda, const double *b, const int *ldb, const double *beta, double *c,
            const int *ldc);

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double wanted_s = argc > 1 ? atof(argv[1]) : 1.0;
    const int size = 1024, depth = 256;
    const double one = 1.0, flop = 2.0 * size * size * depth;
    double *a = filled(SEED_A, size, depth), *b = filled(SEED_B, depth, size), *c = filled(SEED_A, size, size);
    double done = 0.0, start_s = 0.0;
    dgemm_("N", "N", &size, &size, &depth, &one, a, &size, b, &depth, &one, c, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    start_s = MPI_Wtime();
    while (MPI_Wtime() - start_s < wanted_s) {
        dgemm_("N", "N", &size, &size, &depth, &one, a, &size, b, &depth, &one, c, &size);
        done += flop;
    }
    double speed = done / (MPI_Wtime() - start_s), *all = calloc(ranks, sizeof(double));
    MPI_Gather(&speed, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    double sum = 0.0;
    for (int other = 0; other < ranks; other++)
        sum += all[other] / 1e9;
    if (rank == 0)
        printf("{\"gflops\": %.6f, \"ranks\": [", sum);
    for (int other = 0; rank == 0 && other < ranks; other++)
        printf("%s%.6f", other ? ", " : "", all[other] / 1e9);
    if (rank == 0)
        printf("]}\n");
    MPI_Finalize();
    return 0;
}
