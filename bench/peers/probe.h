/* Matrices whose elements any rank can make, and a check of products by a random vector. */
#ifndef PROBE_H
#define PROBE_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEED_A = 1, SEED_B = 2 };

/* Uniform in [-1/2, 1/2): a hash of the place (splitmix64). */
static inline double element(uint64_t seed, uint64_t row, uint64_t col)
{
    uint64_t x = seed * 0x9e3779b97f4a7c15u + row * 0xbf58476d1ce4e5b9u + col * 0x94d049bb133111ebu;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53 - 0.5;
}

/* The vector of the check: 1 and -1. */
static inline double sign(uint64_t index)
{
    return element(3, index, 0) < 0.0 ? -1.0 : 1.0;
}

static void *allocate(size_t count, size_t size)
{
    void *memory = NULL;
    if (posix_memalign(&memory, 4096, count * size + 4096) != 0) {
        fprintf(stderr, "no memory for %zu elements\n", count);
        exit(1);
    }
    return memory;
}

/* What rounding may add to an element of C·x - A·(B·x): (k + 2n) roundings of at most n·k products of 1/4. */
static inline double allowed(double n, double k)
{
    return (k + 2.0 * n) * 0x1p-53 * 0.25 * n * k;
}

/* y += M·x, of a column-major matrix. */
static inline void add_product(long rows, long cols, const double *matrix, long ld, const double *x, double *y)
{
    for (long j = 0; j < cols; j++)
        for (long i = 0; i < rows; i++)
            y[i] += matrix[i + j * ld] * x[j];
}

/* Column-major A or B of a program of one process. */
static inline double *filled(uint64_t seed, long rows, long cols)
{
    double *matrix = allocate((size_t)rows * cols, sizeof(double));
    for (long j = 0; j < cols; j++)
        for (long i = 0; i < rows; i++)
            matrix[i + j * rows] = element(seed, i, j);
    return matrix;
}

/* Whether C = A·B, of one process. */
static inline int is_product(long m, long n, long k, const double *a, const double *b, const double *c)
{
    double *x = allocate(n, sizeof(double)), *z = calloc(k, sizeof(double));
    double *y = calloc(m, sizeof(double)), *w = calloc(m, sizeof(double));
    for (long j = 0; j < n; j++)
        x[j] = sign(j);
    add_product(k, n, b, k, x, z);
    add_product(m, k, a, m, z, w);
    add_product(m, n, c, m, x, y);
    int right = 1;
    for (long i = 0; i < m; i++)
        right &= fabs(y[i] - w[i]) <= allowed(n, k);
    free(x), free(z), free(y), free(w);
    return right;
}

/* The exit status of a program of one process. */
static inline int report_check(int is_right)
{
    if (!is_right)
        fprintf(stderr, "the product is wrong\n");
    return !is_right;
}

#endif
