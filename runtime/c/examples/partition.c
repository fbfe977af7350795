/* Divides the rows of a matrix by benchmarks of its own kernel, from nothing, and multiplies: mpirun -n 3 partition. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include "isochron.h"

enum { ROWS = 3000, COLS = 1000, SWEEPS = 20 };

/* Some rows of a matrix, each with its product with a vector behind it. */
struct rows { uint64_t count; double numbers[][COLS + 1]; };

static double count_operations(uint64_t count) { return 2.0 * COLS * count; }

static int32_t make_rows(uint64_t count, void **context)
{
  struct rows *rows = *context = malloc(sizeof *rows + count * sizeof *rows->numbers);
  if (!rows)
    return ISOCHRON_KERNEL_NO_MEMORY;
  rows->count = count;
  for (uint64_t row = 0; row < count; row++)
    for (int col = 0; col <= COLS; col++)
      rows->numbers[row][col] = 1.0;
  return ISOCHRON_KERNEL_OK;
}

static int32_t multiply_rows(void *context, const isochron_flag_t *interrupted)
{
  struct rows *rows = context;
  for (uint64_t row = 0; row < rows->count && !*interrupted; row++) {
    double sum = 0.0;
    for (int col = 0; col < COLS; col++)
      sum += 0.5 * rows->numbers[row][col];
    rows->numbers[row][COLS] = sum;
  }
  return *interrupted ? ISOCHRON_KERNEL_INTERRUPTED : ISOCHRON_KERNEL_OK;
}

static int32_t free_rows(void *context) { return free(context), ISOCHRON_KERNEL_OK; }

static void check(int status)
{
  if (status != ISOCHRON_OK)
    fprintf(stderr, "%s\n", isochron_last_error()), MPI_Abort(MPI_COMM_WORLD, status);
}

int main(int argc, char **argv)
{
  static const isochron_kernel_t kernel = {ISOCHRON_KERNEL_ABI, "rows", count_operations, make_rows, multiply_rows, free_rows};
  int rank, ranks, provided, ended = 0;
  isochron_session_t *session;
  isochron_partition_t *partition;
  isochron_flag_t interrupted = 0;
  double sum = 0.0;
  void *mine;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  check(isochron_open_comm(MPI_COMM_WORLD, NULL, &session));
  check(isochron_partition(session, ROWS, "epsilon=0.1", NULL, 0, &partition));
  while (!ended)
    check(isochron_partition_iterate(partition, &kernel, NULL, &ended));
  int64_t *units = malloc(ranks * sizeof *units);
  check(isochron_partition_units(partition, units, NULL, ranks));
  check(make_rows(units[rank], &mine));
  for (int sweep = 0; sweep < SWEEPS; sweep++)
    check(multiply_rows(mine, &interrupted));
  for (int64_t row = 0; row < units[rank]; row++)
    sum += ((struct rows *)mine)->numbers[row][COLS];
  printf("rank %d has %d rows, and the sum of their products is %.0f\n", rank, (int)units[rank], sum);
  free_rows(mine), free(units);
  check(isochron_close_partition(partition));
  check(isochron_close(session));
  return MPI_Finalize();
}
