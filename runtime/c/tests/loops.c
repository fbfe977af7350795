/* The calls of a balanced loop that the examples leave out: shares, reports, flags of isochron_record, blocks of any length.
 * mpirun -n 3 loops */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "checks.h"
#include "isochron.h"

enum { UNITS = 60, MOST_RANKS = 16, MOST_BYTES = 40 };

/* Seconds of a unit on a rank, and on one that is slow. */
static const double UNIT_S = 1e-3, SLOW_UNIT_S = 4e-3;

static int ranks;
static isochron_session_t *session;

static isochron_balancer_t *open_balancer(const char *settings)
{
  isochron_balancer_t *balancer;
  check(isochron_balancer(session, UNITS, settings, &balancer));
  return balancer;
}

static int64_t count_units(const isochron_balancer_t *balancer)
{
  int64_t first, count;
  check(isochron_part(balancer, &first, &count));
  return count;
}

/* The units and the shares are the parts of all ranks, whose numbers of units differ. */
static void check_shares(const isochron_balancer_t *balancer)
{
  int64_t count = count_units(balancer), counts[MOST_RANKS], units[MOST_RANKS];
  double shares[MOST_RANKS];
  MPI_Allgather(&count, 1, MPI_INT64_T, counts, 1, MPI_INT64_T, MPI_COMM_WORLD);
  check(isochron_shares(balancer, shares, ranks));
  check(isochron_units(balancer, units, ranks));
  for (int other = 0; other < ranks; other++) {
    expect("a share is the part of the rank", shares[other] == (double)counts[other] / UNITS);
    expect("the units are those of the rank", units[other] == counts[other]);
  }
}

static void try_shares(void)
{
  char settings[32];
  snprintf(settings, sizeof settings, "weight=%d", rank + 1);
  isochron_balancer_t *balancer = open_balancer(settings);
  expect("the first division follows the weights", count_units(balancer) == UNITS * 2 * (rank + 1) / (ranks * (ranks + 1)));
  check_shares(balancer);
  check(isochron_close_balancer(balancer));
}

/* Does a sweep of made-up time. Returns 1 if the parts have changed. */
static int sweep(isochron_balancer_t *balancer, int slow_rank)
{
  int64_t count = count_units(balancer);
  int changed;
  check(isochron_record(balancer, count, count * (rank == slow_rank ? SLOW_UNIT_S : UNIT_S), 0));
  check(isochron_balance(balancer, &changed));
  return changed;
}

/* Returns 1 if the report of a balancer has a text. */
static int is_reported(isochron_balancer_t *balancer, const char *text)
{
  const char *report;
  check(isochron_balancer_report(balancer, &report));
  int is_there = strstr(report, text) != NULL;
  check(isochron_free(report));
  return is_there;
}

/* Nothing is learnt from sweeps that one rank has ignored, and much from others. */
static void try_ignored_sweeps(void)
{
  isochron_balancer_t *balancer = open_balancer("move_unit_s=0");
  int n_changes = 0;
  for (int i = 0; i < 20; i++) {
    if (rank == 1)
      check(isochron_record(balancer, 0, 0.0, ISOCHRON_IGNORE));
    n_changes += sweep(balancer, ranks - 1);
  }
  expect("ignored sweeps change nothing", n_changes == 0);
  expect("and are counted", is_reported(balancer, "\"sweeps\":20,") && is_reported(balancer, "\"changes\":[]"));
  for (int i = 0; i < 20; i++)
    n_changes += sweep(balancer, ranks - 1);
  expect("other sweeps do", n_changes > 0);
  expect("and the report says why", is_reported(balancer, "\"why\":\"saving\""));
  check_shares(balancer);
  check(isochron_close_balancer(balancer));
}

/* Moves once, says how long that took, and has another rank become slow. Returns the number of changes that follow. */
static int change_again(double moving_s)
{
  isochron_balancer_t *balancer = open_balancer("sweeps=400");
  int n_changes = 0;
  for (int i = 0; i < 40 && n_changes == 0; i++)
    n_changes = sweep(balancer, ranks - 1);
  expect("units leave the slow rank", n_changes == 1);
  check(isochron_record(balancer, 0, moving_s, ISOCHRON_MOVED));
  for (int i = 0; i < 60; i++)
    n_changes += sweep(balancer, 0);
  check(isochron_close_balancer(balancer));
  return n_changes - 1;
}

static void try_costs_of_moving(void)
{
  expect("a move that took long is not made again", change_again(1e6) == 0);
  expect("a move that took no time is", change_again(1e-9) > 0);
}

/* Blocks of this rank's units, and the bytes of each. */
struct blocks {
  unsigned char bytes[UNITS * MOST_BYTES];
  int64_t lengths[UNITS];
};

static int64_t find_length(int64_t unit)
{
  return unit * 7 % 5 * 10;
}

static unsigned char find_byte(int64_t unit, int64_t at)
{
  return (unsigned char)(unit * 31 + at);
}

static void fill_blocks(const isochron_balancer_t *balancer, struct blocks *blocks)
{
  int64_t first, count, end = 0;
  check(isochron_part(balancer, &first, &count));
  for (int64_t unit = first; unit < first + count; unit++) {
    blocks->lengths[unit - first] = find_length(unit);
    for (int64_t at = 0; at < find_length(unit); at++)
      blocks->bytes[end++] = find_byte(unit, at);
  }
}

static void check_blocks(const isochron_balancer_t *balancer, const struct blocks *blocks)
{
  int64_t first, count, end = 0;
  int n_wrong = 0;
  check(isochron_part(balancer, &first, &count));
  for (int64_t unit = first; unit < first + count; unit++) {
    n_wrong += blocks->lengths[unit - first] != find_length(unit);
    for (int64_t at = 0; at < find_length(unit); at++)
      n_wrong += blocks->bytes[end++] != find_byte(unit, at);
  }
  expect("blocks are where their units are", n_wrong == 0);
}

/* Sets the numbers of this rank's units, or checks them: every unit has its place in one array. */
static void use_numbers(const isochron_balancer_t *balancer, int64_t *numbers, int is_check)
{
  int64_t first, count, n_wrong = 0;
  check(isochron_part(balancer, &first, &count));
  for (int64_t unit = first; unit < first + count; unit++)
    if (is_check)
      n_wrong += numbers[unit] != 3 * unit;
    else
      numbers[unit] = 3 * unit;
  expect("numbers are at the places of their units", n_wrong == 0);
}

/* Units that stay in one array keep their places. Units that would overlap others are refused. */
static void try_places(void)
{
  int64_t numbers[UNITS] = {0}, before, first, count;
  isochron_balancer_t *balancer = open_balancer("move_unit_s=0");
  int n_changes = 0;
  use_numbers(balancer, numbers, 0);
  check(isochron_part(balancer, &before, &count));
  for (int i = 0; i < 60; i++) {
    if (!sweep(balancer, i < 30 ? ranks - 1 : 0))
      continue;
    check(isochron_part(balancer, &first, &count));
    int status = isochron_move(balancer, numbers + before, numbers + before + (first == before), sizeof *numbers);
    expect("units without their places are refused", status == ISOCHRON_ARGUMENT && strstr(isochron_last_error(), "overlaps"));
    check(isochron_move(balancer, numbers + before, numbers + first, sizeof *numbers));
    use_numbers(balancer, numbers, 1);
    before = first;
    n_changes++;
  }
  expect("units move to and fro in one array", n_changes > 1);
  check(isochron_close_balancer(balancer));
}

static void try_blocks(void)
{
  static struct blocks here, there;
  isochron_balancer_t *balancer = open_balancer("move_unit_s=0");
  int n_changes = 0;
  fill_blocks(balancer, &here);
  for (int i = 0; i < 60; i++) {
    if (!sweep(balancer, i < 30 ? ranks - 1 : 0))
      continue;
    check(isochron_move(balancer, here.lengths, there.lengths, sizeof(int64_t)));
    check(isochron_move_blocks(balancer, here.bytes, here.lengths, there.bytes, there.lengths));
    here = there;
    check_blocks(balancer, &here);
    n_changes++;
  }
  expect("units move to and fro", n_changes > 1);
  check(isochron_close_balancer(balancer));
}

static int gather(void *context, const void *data, int64_t bytes, void *all)
{
  (void)context;
  return MPI_Allgather(data, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, MPI_COMM_WORLD);
}

/* The ranks of a group are balanced without messages between two of them. */
static void try_group(void)
{
  isochron_group_t group = {.struct_size = sizeof group, .rank = rank, .size = ranks, .all_gather = gather};
  isochron_balancer_t *balancer;
  check(isochron_balancer_of_group(&group, UNITS, "move_unit_s=0", &balancer));
  int n_changes = 0;
  for (int i = 0; i < 30; i++)
    n_changes += sweep(balancer, ranks - 1);
  check_shares(balancer);
  expect("a slow rank of a group has less", n_changes > 0 && (rank < ranks - 1) == (count_units(balancer) > UNITS / ranks));
  check(isochron_close_balancer(balancer));
}

int main(int argc, char **argv)
{
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  check(isochron_open_comm(MPI_COMM_WORLD, "blas=embedded grouping=node", &session));
  try_shares();
  try_ignored_sweeps();
  try_costs_of_moving();
  try_blocks();
  try_places();
  try_group();
  check(isochron_close(session));
  MPI_Allreduce(MPI_IN_PLACE, &n_failed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && n_failed == 0)
    printf("the loops are balanced\n");
  MPI_Finalize();
  return n_failed > 0;
}
