/* Emulates a slow rank, and prints the times of a run. The last rank takes four times as long for a row as others. */
#include <mpi.h>
#include <stdint.h>

/* Reads the command line: [SWEEPS] [--slow-from SWEEP] [--granule ROWS] [--made-up]. Made-up times have 6 % noise, and no
 * rank waits. */
void read_words(int argc, char **argv);
/* Sets the sweeps of a run (1000), the sweep from which the last rank is slow (0), the rows that stay together (1), and
 * whether times are made up. */
void set_words(int sweeps, int slow_from, int granule, int is_made_up);
/* Returns the sweeps of a run. */
int count_sweeps(void);
/* Returns the settings of the balancer; with even parts no rows move. The text is valid until the next call. */
const char *choose_settings(int is_even);
/* Begins a run on this number of rows, over all ranks. */
void begin_run(int64_t rows);
/* Begins this rank's work of a sweep. */
void begin_work(void);
/* Sleeps until a rank of this pace would have finished. Returns the seconds of the work on this rank's rows. */
double end_work(int64_t rows);
/* Waits for messages, and leaves the core to others meanwhile: three ranks share two cores. */
void wait_quietly(int n, MPI_Request *messages);
/* The same for messages of Fortran. */
void wait_quietly_f(int n, MPI_Fint *messages);
/* Ends a sweep, after which rows have moved or not. */
void end_sweep(int moved);
/* Prints the seconds of the run over those of the ideal division, and its moves. Returns the sum of the bits of all
 * ranks' cells. */
uint64_t end_run(const double *cells, int64_t n_cells);
/* Prints whether two runs have come to the same cells, by the sums of their bits. */
void compare_runs(uint64_t even, uint64_t balanced);
