/* Emulates a slow rank: the last one takes four times as long as the others, or from a sweep on if the environment has
 * STENCIL_SLOW_FROM=SWEEP. With STENCIL_MADE_UP=1 times are made up, with 6 % noise, and no rank waits. */
#include <stdint.h>

/* Starts the clock of this rank's work. */
void begin_work(void);
/* Waits as long as a rank of this pace would still compute. Returns the seconds of the work on `rows` rows. */
double end_work(int64_t rows);
/* Ends a sweep, after which rows have moved or not. */
void end_sweep(int moved);
/* Prints the seconds of the run over those of the ideal division, its moves, and the sum of all ranks' cells. */
void print_run(const double *cells, int64_t n_cells);
