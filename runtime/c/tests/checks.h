/* Checks of programs that test the library. A program has a rank of its own. */
#ifndef CHECKS_H
#define CHECKS_H
#include <mpi.h>
#include <stdio.h>
#include "isochron.h"

static int rank, n_failed;

/* Ends the job if a call has failed. */
static inline void check(int status)
{
  if (status != ISOCHRON_OK)
    fprintf(stderr, "%s\n", isochron_last_error()), MPI_Abort(MPI_COMM_WORLD, status);
}

/* Counts and prints a property that does not hold. */
static inline void expect(const char *what, int holds)
{
  if (!holds)
    printf("rank %d: %s\n", rank, what);
  n_failed += !holds;
}
#endif
