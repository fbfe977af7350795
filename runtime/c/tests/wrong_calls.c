/* Every call with arguments that are wrong: each returns a status and a sentence, and the program goes on.
 * wrong_calls            on one rank without MPI
 * mpirun wrong_calls mpi with wrong communicators, and with arguments that are wrong on one rank only
 * ... mpi tidy           closes all sessions before the end of MPI, since a communicator cannot be freed later */
#define _POSIX_C_SOURCE 200809L
#include <mpi.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "isochron.h"

static int n_refused, n_failed;
/* The sentence of a refusal. */
static char told[1000];

/* Checks that a call was refused or not, with a sentence if it was. */
static void expect(const char *text, int status, int is_refused)
{
  const char *sentence = isochron_last_error();
  int is_told = status == ISOCHRON_OK ? !*sentence : *sentence && *isochron_strerror(status);
  if (status == ISOCHRON_INTERNAL || !is_told || (status != ISOCHRON_OK) != is_refused) {
    printf("%s: %d: %s\n", text, status, sentence);
    n_failed++;
  }
  n_refused += is_refused;
}

/* Checks a property of an answer. */
static void expect_answer(const char *text, int holds)
{
  if (!holds)
    printf("%s: it is another answer\n", text);
  n_failed += !holds;
}

#define REFUSED(call) expect(#call, call, 1)
#define ACCEPTED(call) expect(#call, call, 0)

enum { N = 8 };
/* More bytes than a process can address, although their number overflows nothing. */
static const int64_t HUGE_SIZE = INT64_C(1) << 48;
static double elements[3][N * N];
static double one = 1.0, zero = 0.0;

/* Describes a matrix on the first rank. */
static isochron_matrix_t describe(int which)
{
  isochron_matrix_t made = {.struct_size = sizeof made, .kind = ISOCHRON_ON_ONE, .rows = N, .cols = N, .ld = N};
  made.data = elements[which];
  return made;
}

/* Stands for what a variable holds before a call writes it. */
#define UNSET ((void *)(uintptr_t)64)

/* Checks that a call was refused, and has left nothing in the place of its answer. */
#define REFUSED_TO(place, call) \
  do { \
    place = UNSET; \
    expect(#call, call, 1); \
    expect_answer(#place " of " #call, place == NULL); \
  } while (0)

/* The same of a call that answers by two numbers. */
#define REFUSED_NUMBERS(one, other, nothing, call) \
  do { \
    one = other = 77; \
    expect(#call, call, 1); \
    expect_answer(#one " and " #other " of " #call, one == (nothing) && other == (nothing)); \
  } while (0)

/* Counts an element. */
static void count_element(void *context, int64_t row, int64_t col, void *element)
{
  *(int *)context += row >= 0 && col >= 0 && element != NULL;
}

/* A kernel and a model of no work. */
static double count_work(uint64_t d) { return (double)d; }
static int32_t begin_work(uint64_t d, void **context) { return d > 0 && context ? ISOCHRON_KERNEL_OK : 1; }
static int32_t do_work(void *context, const isochron_flag_t *interrupted)
{
  for (volatile int i = 0; i < 1000; i++)
    continue;
  return context && interrupted ? 1 : ISOCHRON_KERNEL_OK;
}
static int32_t end_work(void *context) { return context ? 1 : ISOCHRON_KERNEL_OK; }
static const isochron_kernel_t KERNEL = {ISOCHRON_KERNEL_ABI, NULL, count_work, begin_work, do_work, end_work};
static double tell_time(void *context, double units) { return context ? -1.0 : units; }
static int take_point(void *context, const isochron_point_t *point) { return context || point->units < 1; }

/* Calls with an invalid partition. */
static void try_partition(isochron_partition_t *partition)
{
  int64_t units[64];
  int ended, other;
  REFUSED_NUMBERS(ended, other, 0, (other = 0, isochron_partition_iterate(partition, &KERNEL, NULL, &ended)));
  REFUSED(isochron_partition_units(partition, units, NULL, 1));
  REFUSED(isochron_close_partition(partition));
}

/* An algorithm of one process. The context of its functions is its scheme, which may be wrong. */
static isochron_scheme_t *kept;
static int64_t count_one(void *context) { return context ? 2 : 1; }
static double tell_volume(void *context, int64_t process) { return context ? -1.0 : 1.0 + (double)process; }
static double tell_bytes(void *context, int64_t from, int64_t to) { return context ? -1.0 : (double)(from + to); }
static void tell_scheme(void *context, isochron_scheme_t *order)
{
  kept = order;
  if (!context)
    isochron_scheme_compute(order, 0, 100.0);
}
static const isochron_algorithm_t ALGORITHM = {sizeof ALGORITHM, count_one, tell_volume, NULL, tell_bytes, tell_scheme, NULL};

/* Calls with an invalid scheme or platform. */
static void try_platform(isochron_platform_t *platform)
{
  isochron_predicted_t predicted = {.struct_size = sizeof predicted};
  isochron_scheme_t *order = (isochron_scheme_t *)platform;
  int64_t places[1] = {0};
  REFUSED(isochron_timeof(platform, &ALGORITHM, places, 1, &predicted));
  REFUSED(isochron_choose(platform, &ALGORITHM, 1, places, 1, &predicted, NULL));
  REFUSED(isochron_close_platform(platform));
  REFUSED(isochron_scheme_compute(order, 0, 100.0));
  REFUSED(isochron_scheme_transfer(order, 0, 1, 100.0));
  REFUSED(isochron_scheme_begin_parallel(order));
  REFUSED(isochron_scheme_begin_repeat(order, 1));
  REFUSED(isochron_scheme_end(order));
}

/* Calls with an invalid session. */
static void try_session(isochron_session_t *session)
{
  isochron_matrix_t a = describe(0), b = describe(1), c = describe(2);
  isochron_product_t *product;
  isochron_balancer_t *balancer;
  isochron_partition_t *partition;
  isochron_platform_t *platform;
  int64_t unit = 1;
  isochron_last_run_t run = {.struct_size = sizeof run};
  isochron_point_t point = {.struct_size = sizeof point};
  const char *text;
  double seconds = 77.0;
  int n_elements = 0;
  REFUSED(isochron_set(session, "block", "64"));
  REFUSED_TO(text, isochron_get(session, "block", &text));
  REFUSED_TO(text, isochron_report(session, &text));
  REFUSED(isochron_last_run(session, &run));
  REFUSED(isochron_save_models(session));
  REFUSED(isochron_elements(session, ISOCHRON_F64, &a, count_element, &n_elements));
  REFUSED(isochron_measure_move_unit_s(session, 8, &seconds));
  expect_answer("seconds of isochron_measure_move_unit_s", seconds == 0.0);
  REFUSED(isochron_gemm(session, ISOCHRON_F64, 'N', 'N', &one, &a, &b, &one, &c));
  REFUSED_TO(product, isochron_prepare(session, ISOCHRON_F64, 'N', 'N', &a, &b, &c, &product));
  REFUSED_TO(balancer, isochron_balancer(session, 10, NULL, &balancer));
  REFUSED_TO(balancer, isochron_balancer_by_times(session, 10, NULL, NULL, &balancer));
  REFUSED_TO(balancer, isochron_restore(session, "{}", 2, &balancer));
  REFUSED(isochron_benchmark(session, &KERNEL, NULL, 5, NULL, &point));
  REFUSED_TO(partition, isochron_partition(session, 10, NULL, NULL, 0, &partition));
  REFUSED_TO(platform, isochron_recon(session, &KERNEL, NULL, &unit, 1, NULL, &platform));
  REFUSED(isochron_close(session));
}

/* Calls with an invalid product. */
static void try_product(isochron_product_t *product)
{
  isochron_matrix_t a = describe(0), b = describe(1), c = describe(2);
  const char *text;
  REFUSED(isochron_run(product, &one, &a, &b, &one, &c));
  REFUSED_TO(text, isochron_plan(product, &text));
  REFUSED(isochron_close_product(product));
}

static int gather_nothing(void *context, const void *data, int64_t bytes, void *all)
{
  (void)context, (void)data, (void)bytes, (void)all;
  return 7;
}

static int gather_own(void *context, const void *data, int64_t bytes, void *all)
{
  (void)context;
  memcpy(all, data, (size_t)bytes);
  return 0;
}

/* Groups of the program that are none, and one of this rank alone. */
static void try_own_groups(void)
{
  isochron_balancer_t *balancer;
  isochron_group_t group = {.struct_size = sizeof group, .rank = 0, .size = 1, .all_gather = gather_own};
  isochron_group_t unsized = group, no_rank = group, no_size = group, no_function = group, failing = group, two = group, huge = group;
  unsized.struct_size = 8, no_rank.rank = -1, no_size.size = 0, no_function.all_gather = NULL, failing.all_gather = gather_nothing, two.size = 2, huge.size = HUGE_SIZE;
  REFUSED_TO(balancer, isochron_balancer_of_group(NULL, 10, NULL, &balancer));
  REFUSED_TO(balancer, isochron_balancer_of_group(&unsized, 10, NULL, &balancer));
  REFUSED_TO(balancer, isochron_balancer_of_group(&no_rank, 10, NULL, &balancer));
  REFUSED_TO(balancer, isochron_balancer_of_group(&no_size, 10, NULL, &balancer));
  REFUSED_TO(balancer, isochron_balancer_of_group(&no_function, 10, NULL, &balancer));
  REFUSED_TO(balancer, isochron_balancer_of_group(&failing, 10, NULL, &balancer));
  REFUSED_TO(balancer, isochron_balancer_of_group(&huge, 10, NULL, &balancer));
  REFUSED_TO(balancer, isochron_balancer_of_group(&two, 10, NULL, &balancer)); /* it gathers nothing of the other rank */
  REFUSED_TO(balancer, isochron_balancer_of_group(&group, -1, NULL, &balancer));
  REFUSED_TO(balancer, isochron_balancer_of_group(&group, 10, "granule=0", &balancer));
  REFUSED(isochron_balancer_of_group(&group, 10, NULL, NULL));
  ACCEPTED(isochron_balancer_of_group(&group, 10, "move_unit_s=0", &balancer));
  ACCEPTED(isochron_close_balancer(balancer));
}

/* Calls with an invalid balancer. */
static void try_balancer(isochron_balancer_t *balancer)
{
  int64_t first, count;
  int changed, before, after;
  int64_t units[64];
  double shares[64];
  const char *text;
  const void *state;
  REFUSED_NUMBERS(first, count, 0, isochron_part(balancer, &first, &count));
  REFUSED_NUMBERS(before, after, -1, isochron_neighbours(balancer, -1, &before, &after));
  REFUSED(isochron_begin(balancer));
  REFUSED(isochron_end(balancer));
  REFUSED(isochron_record(balancer, 1, 1.0, 0));
  REFUSED_NUMBERS(changed, before, 0, (before = 0, isochron_balance(balancer, &changed)));
  REFUSED(isochron_shares(balancer, shares, 1));
  REFUSED(isochron_units(balancer, units, 1));
  REFUSED_TO(text, isochron_balancer_report(balancer, &text));
  REFUSED(isochron_move(balancer, elements[0], elements[1], 8));
  REFUSED(isochron_move_blocks(balancer, elements[0], &count, elements[1], &count));
  REFUSED_NUMBERS(count, first, 0, (first = 0, isochron_state(balancer, &state, &count)));
  REFUSED_TO(state, isochron_state(balancer, &state, &count));
  REFUSED(isochron_close_balancer(balancer));
}

static void try_texts(isochron_session_t *session)
{
  const char *text;
  int major = -1, minor = -1;
  REFUSED(isochron_abi(NULL, NULL));
  REFUSED(isochron_abi(&major, NULL));
  REFUSED(isochron_abi(NULL, &minor));
  expect_answer("minor of isochron_abi", minor == 0);
  ACCEPTED(isochron_abi(&major, &minor));
  expect("versions of isochron_abi", major == ISOCHRON_ABI_MAJOR && minor == ISOCHRON_ABI_MINOR ? ISOCHRON_OK : -1, 0);
  REFUSED(isochron_free(elements));
  REFUSED(isochron_set(session, NULL, "64"));
  REFUSED(isochron_set(session, "block", NULL));
  REFUSED(isochron_set(session, "blok", "64"));
  REFUSED(isochron_set(session, "block", "-1"));
  REFUSED(isochron_set(session, "block", "0"));
  REFUSED(isochron_set(session, "panel", "0"));
  REFUSED(isochron_set(session, "epsilon", "-1"));
  REFUSED(isochron_set(session, "block", "99999999999999999999"));
  REFUSED(isochron_set(session, "store", "read"));
  REFUSED(isochron_set(session, "\xff\xfe", "1"));
  REFUSED_TO(text, isochron_get(session, NULL, &text));
  REFUSED(isochron_get(session, "block", NULL));
  REFUSED_TO(text, isochron_get(session, "blocks", &text));
  ACCEPTED(isochron_get(session, "block", &text));
  ACCEPTED(isochron_free(text));
  REFUSED(isochron_free(text));
  ACCEPTED(isochron_free(NULL));
}

/* Prepares a product whose A is wrong, and runs it once. */
static void refuse_matrix(isochron_session_t *session, isochron_matrix_t a)
{
  isochron_matrix_t b = describe(1), c = describe(2);
  isochron_product_t *product;
  REFUSED_TO(product, isochron_prepare(session, ISOCHRON_F64, 'N', 'N', &a, &b, &c, &product));
  REFUSED(isochron_gemm(session, ISOCHRON_F64, 'N', 'N', &one, &a, &b, &one, &c));
}

#define REFUSED_WITH(change) (a = describe(0), change, refuse_matrix(session, a))
#define CYCLIC a.kind = ISOCHRON_BLOCK_CYCLIC, a.row_block = a.col_block = 2, a.grid_rows = a.grid_cols = 1
#define BLOCKS a.kind = ISOCHRON_BLOCKS, a.block_rows = a.block_cols = 2

/* Describes one of two matrices whose columns lie between each other, and fills it. */
static isochron_matrix_t describe_half(double *array, int which, double value)
{
  isochron_matrix_t made = describe(0);
  made.rows = made.cols = N / 2;
  made.data = array + which * (N / 2);
  for (int i = 0; i < N * N / 2; i++)
    if (i / (N / 2) % 2 == which)
      array[i] = value;
  return made;
}

/* Products of matrices in one array, whose columns lie between each other. */
static void try_parts_of_one_array(isochron_session_t *session, int ranks)
{
  double array[N * N / 2], factors[N * N / 2];
  const int64_t cuts[] = {0, N / 2, N}, whole[] = {0, N / 2}, owners[] = {0, 0}, lds[] = {N, N};
  isochron_matrix_t a = describe_half(array, 0, 2.0), c = describe_half(array, 1, 1.0);
  isochron_matrix_t b = describe_half(factors, 0, 3.0), tall = describe(1);
  void *blocks[2] = {array, array + N / 2};
  int n_wrong = 0, is_mine;
  const char *text;
  isochron_last_run_t run = {.struct_size = sizeof run};
  ACCEPTED(isochron_gemm(session, ISOCHRON_F64, 'N', 'N', &one, &a, &b, &one, &c));
  ACCEPTED(isochron_last_run(session, &run));
  ACCEPTED(isochron_get(session, "rank", &text));
  is_mine = text != NULL && strcmp(text, "0") == 0;
  ACCEPTED(isochron_free(text));
  if (ranks == 1)
    expect_answer("nothing is copied", run.a_in_place == 1 && run.c_in_place == 1 && run.seconds == 0.0);
  for (int i = 0; i < N * N / 2; i++)
    n_wrong += array[i] != (i / (N / 2) % 2 == 0 ? 2.0 : is_mine ? 1.0 + N / 2 * 2.0 * 3.0 : 1.0);
  expect_answer("a product in one array", n_wrong == 0);
  for (int i = 0; i < N * N; i++)
    elements[1][i] = 1.0;
  tall.cols = N / 2;
  c = tall, c.kind = ISOCHRON_BLOCKS, c.block_rows = 2, c.block_cols = 1;
  c.row_cuts = cuts, c.col_cuts = whole, c.owners = owners;
  c.n_blocks = is_mine ? 2 : 0, c.blocks = blocks, c.block_lds = lds;
  ACCEPTED(isochron_gemm(session, ISOCHRON_F64, 'N', 'N', &one, &tall, &b, &one, &c));
  for (int i = 0; i < N * N / 2 && is_mine; i++)
    n_wrong += array[i] != (i / (N / 2) % 2 == 0 ? 2.0 : 1.0 + N / 2 * 2.0 * 3.0) + N / 2 * 3.0;
  expect_answer("blocks of one array", n_wrong == 0);
  ACCEPTED(isochron_last_run(session, &run));
  expect_answer("blocks are moved", run.c_in_place == 0);
}

/* A result in the memory of a factor. */
static void try_shared_memory(isochron_session_t *session)
{
  isochron_matrix_t a = describe(0), b = describe(1), c = describe(2), part = describe(2);
  REFUSED(isochron_gemm(session, ISOCHRON_F64, 'N', 'N', &one, &a, &b, &one, &a));
  REFUSED(isochron_gemm(session, ISOCHRON_F64, 'N', 'N', &one, &a, &c, &one, &c));
  a.rows = a.cols = part.rows = part.cols = b.rows = b.cols = N / 2;
  a.data = elements[2], part.data = elements[2] + N / 2;
  ACCEPTED(isochron_gemm(session, ISOCHRON_F64, 'N', 'N', &one, &a, &b, &one, &part));
  part.data = elements[2] + N / 2 - 1;
  REFUSED(isochron_gemm(session, ISOCHRON_F64, 'N', 'N', &one, &a, &b, &one, &part));
}

/* Descriptors of ScaLAPACK, and the elements of a matrix. */
static void try_descriptors(isochron_session_t *session)
{
  const int good[] = {1, 0, N, N, 2, 2, 0, 0, N}, sparse[] = {501, 0, N, N, 2, 2, 0, 0, N}, empty[] = {1, 0, N, N, 0, 2, 0, 0, N};
  isochron_matrix_t made = {.struct_size = sizeof made}, old = {.struct_size = offsetof(isochron_matrix_t, first_row_block)};
  int n_elements = 0;
#define DESCRIBE(descriptor, ia, m, grid_rows, place) \
  isochron_from_descriptor(descriptor, ia, 2, m, 3, grid_rows, 1, 0, elements[0], place)
  REFUSED(DESCRIBE(NULL, 1, 3, 1, &made));
  REFUSED(DESCRIBE(good, 1, 3, 1, NULL));
  REFUSED(DESCRIBE(good, 1, 3, 1, &old));
  REFUSED(DESCRIBE(sparse, 1, 3, 1, &made));
  REFUSED(DESCRIBE(empty, 1, 3, 1, &made));
  REFUSED(DESCRIBE(good, 0, 3, 1, &made));
  REFUSED(DESCRIBE(good, INT64_MIN, 3, 1, &made));
  REFUSED(DESCRIBE(good, 1, -1, 1, &made));
  REFUSED(DESCRIBE(good, 1, N + 1, 1, &made));
  REFUSED(DESCRIBE(good, INT64_MAX, INT64_MAX, 1, &made));
  REFUSED(DESCRIBE(good, 1, 3, 0, &made));
  REFUSED(DESCRIBE(good, 1, 3, HUGE_SIZE, &made));
  expect_answer("a matrix that was not described", made.kind == 0 && made.rows == 0);
  ACCEPTED(DESCRIBE(good, 3, 4, 1, &made));
  expect_answer("a submatrix", made.is_sub == 1 && made.sub_row == 2 && made.sub_col == 1 && made.sub_rows == 4 && made.ld == N);
  REFUSED(isochron_elements(session, 99, &made, count_element, &n_elements));
  REFUSED(isochron_elements(session, ISOCHRON_F64, NULL, count_element, &n_elements));
  REFUSED(isochron_elements(session, ISOCHRON_F64, &made, NULL, &n_elements));
  made.is_sub = 2;
  REFUSED(isochron_elements(session, ISOCHRON_F64, &made, count_element, &n_elements));
  expect_answer("no element is visited in wrong calls", n_elements == 0);
}

static void try_matrices(isochron_session_t *session, int ranks)
{
  isochron_matrix_t a;
  int64_t cuts[] = {0, 4, N}, wrong_cuts[] = {0, 4, 4}, owners[] = {0, 0, 99, 0};
  int64_t regions[4 * 64] = {0, 0, INT64_MAX, INT64_MAX};
  REFUSED_WITH(a.struct_size = 0);
  REFUSED_WITH(a.struct_size = INT64_MAX);
  REFUSED_WITH(a.kind = 99);
  REFUSED_WITH(a.row_major = 7);
  REFUSED_WITH(a.rows = -1);
  REFUSED_WITH(a.rows = INT64_MAX);
  REFUSED_WITH(a.cols = INT64_MIN);
  REFUSED_WITH(a.cols = INT64_MAX);
  REFUSED_WITH((a.rows = INT64_MAX, a.cols = INT64_MAX));
  REFUSED_WITH(a.rank = -1);
  REFUSED_WITH(a.rank = INT64_MAX);
  REFUSED_WITH(a.kind = ISOCHRON_BLOCK_CYCLIC);
  REFUSED_WITH((CYCLIC, a.grid_rows = a.grid_cols = INT64_MAX));
  REFUSED_WITH((CYCLIC, a.row_block = 0));
  REFUSED_WITH((CYCLIC, a.first_row_block = 3));
  REFUSED_WITH((CYCLIC, a.first_col_block = -1));
  REFUSED_WITH(a.is_sub = 2);
  REFUSED_WITH((a.is_sub = 1, a.sub_row = 1, a.sub_rows = a.sub_cols = N));
  REFUSED_WITH((a.is_sub = 1, a.sub_col = INT64_MAX, a.sub_rows = a.sub_cols = INT64_MAX));
  REFUSED_WITH((CYCLIC, a.row_source = INT64_MAX));
  REFUSED_WITH((CYCLIC, a.col_source = -1));
  REFUSED_WITH((CYCLIC, a.rows = INT64_MAX, a.row_block = 1, a.grid_rows = ranks));
  REFUSED_WITH((CYCLIC, a.rows = HUGE_SIZE, a.row_block = 1, a.grid_rows = ranks));
  REFUSED_WITH((CYCLIC, a.grid_rows = HUGE_SIZE));
  REFUSED_WITH(a.rows = HUGE_SIZE);
  REFUSED_WITH(a.kind = ISOCHRON_RECTANGLES);
  REFUSED_WITH((a.kind = ISOCHRON_RECTANGLES, a.rectangles = regions));
  REFUSED_WITH((BLOCKS));
  REFUSED_WITH((BLOCKS, a.block_rows = a.block_cols = INT64_MAX));
  REFUSED_WITH((BLOCKS, a.rows = a.block_rows = HUGE_SIZE, a.row_cuts = a.col_cuts = a.owners = cuts));
  REFUSED_WITH((BLOCKS, a.row_cuts = cuts, a.col_cuts = wrong_cuts));
  REFUSED_WITH((BLOCKS, a.row_cuts = a.col_cuts = cuts));
  REFUSED_WITH((BLOCKS, a.row_cuts = a.col_cuts = cuts, a.owners = owners));
}

/* Plans a product that no memory can hold. */
static void try_huge_product(isochron_session_t *session, int64_t size)
{
  isochron_matrix_t a = describe(0), b = describe(1), c = describe(2);
  isochron_product_t *product;
  a.rows = a.cols = b.rows = b.cols = c.rows = c.cols = a.ld = b.ld = c.ld = size;
  REFUSED(isochron_prepare(session, ISOCHRON_F64, 'N', 'N', &a, &b, &c, &product));
}

/* Places that cannot take what became of the last product's matrices. */
static void try_last_run(isochron_session_t *session)
{
  isochron_last_run_t run = {.struct_size = sizeof run};
  ACCEPTED(isochron_last_run(session, &run));
  REFUSED(isochron_last_run(session, NULL));
  REFUSED(isochron_last_run(session, (isochron_last_run_t *)((char *)&run + 1)));
  run.struct_size = 0;
  REFUSED(isochron_last_run(session, &run));
  run.struct_size = sizeof run + 8;
  REFUSED(isochron_last_run(session, &run));
}

static void try_products(isochron_session_t *session, int rank)
{
  isochron_matrix_t a = describe(0), b = describe(1), c = describe(2), wrong = c;
  isochron_product_t *product;
  isochron_last_run_t run = {.struct_size = sizeof run};
  const char *text;
  try_huge_product(session, (int64_t)1 << 28);
  try_huge_product(session, (int64_t)1 << 40);
  try_huge_product(session, INT64_MAX);
  REFUSED_TO(text, isochron_report(session, &text));
  REFUSED(isochron_last_run(session, &run));
  REFUSED(isochron_prepare(session, 99, 'N', 'N', &a, &b, &c, &product));
  REFUSED(isochron_prepare(session, ISOCHRON_F64, 'X', 'N', &a, &b, &c, &product));
  REFUSED(isochron_prepare(session, ISOCHRON_F64, 'N', 0, &a, &b, &c, &product));
  REFUSED(isochron_prepare(session, ISOCHRON_F64, 'N', 'N', NULL, &b, &c, &product));
  REFUSED(isochron_prepare(session, ISOCHRON_F64, 'N', 'N', &a, &b, &c, NULL));
  wrong.rows = 5;
  REFUSED(isochron_prepare(session, ISOCHRON_F64, 'N', 'N', &a, &b, &wrong, &product));
  REFUSED(isochron_gemm(session, ISOCHRON_F64, 'N', 'N', NULL, &a, &b, &one, &c));
  REFUSED(isochron_gemm(session, ISOCHRON_F64, 'N', 'N', &one, &a, &b, (char *)&one + 1, &c));
  ACCEPTED(isochron_prepare(session, ISOCHRON_F64, 'N', 'N', &a, &b, &c, &product));
  try_session((isochron_session_t *)product);
  try_balancer((isochron_balancer_t *)product);
  REFUSED(isochron_plan(product, NULL));
  REFUSED(isochron_run(product, &one, &a, &b, NULL, &c));
  REFUSED(isochron_run(product, &one, &a, NULL, &one, &c));
  REFUSED(isochron_run(product, &one, &a, &b, &one, &wrong));
  wrong = c, wrong.ld = N - 1;
  REFUSED(isochron_run(product, &one, &a, &b, &one, &wrong));
  wrong = c, wrong.ld = INT64_MAX;
  REFUSED(isochron_run(product, &one, &a, &b, &one, &wrong));
  wrong = c, wrong.data = NULL;
  REFUSED(isochron_run(product, &one, &a, &b, &one, &wrong));
  wrong = c, wrong.data = (char *)c.data + 1;
  REFUSED(isochron_run(product, &one, &a, &b, &one, &wrong));
  wrong = c, wrong.data = rank == 0 ? NULL : c.data;
  REFUSED(isochron_run(product, rank == 1 ? NULL : &one, &a, &b, &one, &wrong));
  ACCEPTED(isochron_run(product, &one, &a, &b, &one, &c));
  REFUSED(isochron_report(session, rank == 0 ? NULL : &text));
  ACCEPTED(isochron_report(session, &text));
  ACCEPTED(isochron_free(text));
  try_last_run(session);
  ACCEPTED(isochron_close_product(product));
  try_product(product);
}

/* Invalid times, by which a loop is divided and units are split. */
static void refuse_times(isochron_session_t *session, isochron_times_t times)
{
  isochron_balancer_t *balancer;
  int64_t units[1];
  double seconds[1];
  REFUSED(isochron_balancer_by_times(session, 10, NULL, &times, &balancer));
  REFUSED(isochron_split(10, &times, 1, "partitioner=hpopta", units, seconds));
}

#define REFUSED_TIMES(change) (times = good, change, refuse_times(session, times))

static void try_times(isochron_session_t *session, int rank)
{
  static const int64_t sizes[] = {10, 2, 5}, negative[] = {10, -2, 5};
  static const double seconds[] = {1.0, 0.5, 2.0}, wrong[] = {1.0, -0.5, 2.0};
  isochron_times_t good = {.struct_size = sizeof good, .n_points = 3, .units = sizes, .seconds = seconds};
  isochron_times_t times, two[2] = {good, good};
  isochron_balancer_t *balancer;
  int64_t units[2];
  double predicted[2];
  REFUSED_TIMES(times.struct_size = 0);
  REFUSED_TIMES(times.struct_size = INT64_MAX);
  REFUSED_TIMES(times.n_points = -1);
  REFUSED_TIMES(times.n_points = 0);
  REFUSED_TIMES(times.n_points = INT64_MAX);
  REFUSED_TIMES(times.n_points = HUGE_SIZE);
  REFUSED_TIMES(times.units = NULL);
  REFUSED_TIMES(times.seconds = NULL);
  REFUSED_TIMES(times.seconds = (const double *)((const char *)seconds + 1));
  REFUSED_TIMES(times.units = negative);
  REFUSED_TIMES(times.seconds = wrong);
  REFUSED_TIMES(times.max_units = -1);
  REFUSED(isochron_balancer_by_times(session, 10, NULL, NULL, &balancer));
  REFUSED(isochron_balancer_by_times(session, 10, NULL, &good, NULL));
  REFUSED(isochron_balancer_by_times(session, -1, NULL, &good, &balancer));
  REFUSED(isochron_balancer_by_times(session, 10, "fit=akima", &good, &balancer));
  REFUSED_TO(balancer, isochron_balancer_by_times(session, 10, NULL, rank == 0 ? NULL : &good, &balancer));
  ACCEPTED(isochron_balancer_by_times(session, 10, NULL, &good, &balancer));
  ACCEPTED(isochron_close_balancer(balancer));
  REFUSED(isochron_split(-1, two, 2, NULL, units, predicted));
  REFUSED(isochron_split(20, two, -1, NULL, units, predicted));
  REFUSED(isochron_split(20, two, 0, NULL, units, predicted));
  REFUSED(isochron_split(20, two, INT64_MAX, NULL, units, predicted));
  REFUSED(isochron_split(20, two, HUGE_SIZE, NULL, units, predicted));
  REFUSED(isochron_split(20, NULL, 2, NULL, units, predicted));
  REFUSED(isochron_split(20, two, 2, NULL, NULL, predicted));
  REFUSED(isochron_split(20, two, 2, "granul=2", units, predicted));
  REFUSED(isochron_split(20, two, 2, "granule=0", units, predicted));
  REFUSED(isochron_split(20, two, 2, "partitioner=x", units, predicted));
  ACCEPTED(isochron_split(12, two, 2, "partitioner=hpopta fit=raw-piecewise granule=1", units, NULL));
  expect("units of isochron_split", units[0] + units[1] == 12 ? ISOCHRON_OK : ISOCHRON_FAILED, 0);
  two[0].max_units = 3;
  ACCEPTED(isochron_split(12, two, 2, NULL, units, predicted));
  expect("a limit of isochron_split", units[0] <= 3 && units[1] >= 9 ? ISOCHRON_OK : ISOCHRON_FAILED, 0);
}

/* Blocks of 8 bytes for at most 10 units, whose parts have not changed. */
static void try_blocks(isochron_balancer_t *balancer, int rank)
{
  int64_t lengths[10], wrong[10];
  for (int i = 0; i < 10; i++)
    lengths[i] = wrong[i] = 8;
  wrong[0] = 16;
  ACCEPTED(isochron_move_blocks(balancer, elements[0], lengths, elements[1], lengths));
  REFUSED(isochron_move_blocks(balancer, NULL, lengths, elements[1], lengths));
  REFUSED(isochron_move_blocks(balancer, elements[0], NULL, elements[1], lengths));
  REFUSED(isochron_move_blocks(balancer, elements[0], lengths, rank == 0 ? NULL : elements[1], lengths));
  REFUSED(isochron_move_blocks(balancer, elements[0], lengths, elements[1], NULL));
  REFUSED(isochron_move_blocks(balancer, elements[0], lengths, elements[1], rank == 0 ? wrong : lengths));
  wrong[0] = rank == 0 ? -1 : 8;
  REFUSED(isochron_move_blocks(balancer, elements[0], wrong, elements[1], lengths));
  wrong[0] = wrong[1] = INT64_MAX;
  REFUSED(isochron_move_blocks(balancer, elements[0], wrong, elements[1], lengths));
  for (int i = 0; i < 10; i++)
    wrong[i] = HUGE_SIZE;
  REFUSED(isochron_move_blocks(balancer, elements[0], wrong, elements[1], wrong));
}

static void try_balancers(isochron_session_t *session, int rank)
{
  double one_s;
  isochron_balancer_t *balancer, *restored;
  int64_t first, count, length;
  int changed, status = ISOCHRON_OK;
  const char *text;
  const void *state;
  REFUSED_TO(balancer, isochron_balancer(session, -1, NULL, &balancer));
  REFUSED(isochron_balancer(session, 10, NULL, NULL));
  REFUSED(isochron_balancer(session, 10, "triger=1.2", &balancer));
  REFUSED(isochron_balancer(session, 10, "trigger", &balancer));
  REFUSED(isochron_balancer(session, 10, "trigger=nan", &balancer));
  REFUSED(isochron_balancer(session, 10, "granule=0", &balancer));
  REFUSED(isochron_balancer(session, 10, "max_local=0", &balancer));
  REFUSED(isochron_balancer(session, rank == 0 ? -1 : 10, NULL, &balancer));
  ACCEPTED(isochron_balancer(session, INT64_MAX, NULL, &balancer));
  ACCEPTED(isochron_record(balancer, INT64_MAX, 1.0, 0));
  ACCEPTED(isochron_balance(balancer, &changed));
  REFUSED(isochron_move(balancer, elements[0], elements[1], INT64_MAX));
  ACCEPTED(isochron_move(balancer, NULL, NULL, 0));
  ACCEPTED(isochron_close_balancer(balancer));
  ACCEPTED(isochron_balancer(session, HUGE_SIZE, NULL, &balancer));
  REFUSED(isochron_move(balancer, elements[0], elements[1], 8));
  REFUSED(isochron_move_blocks(balancer, elements[0], (int64_t *)elements, elements[1], (int64_t *)elements));
  ACCEPTED(isochron_close_balancer(balancer));
  ACCEPTED(isochron_balancer(session, 10, NULL, &balancer));
  try_session((isochron_session_t *)balancer);
  try_product((isochron_product_t *)balancer);
  REFUSED(isochron_part(balancer, NULL, &count));
  REFUSED(isochron_part(balancer, &first, NULL));
  REFUSED(isochron_neighbours(balancer, -1, NULL, &changed));
  REFUSED(isochron_neighbours(balancer, -1, &changed, NULL));
  REFUSED(isochron_record(balancer, -1, 1.0, 0));
  REFUSED(isochron_record(balancer, 1, 1.0, 99));
  REFUSED(isochron_shares(balancer, NULL, 1));
  REFUSED(isochron_shares(balancer, &one, INT64_MAX));
  REFUSED(isochron_units(balancer, NULL, 1));
  REFUSED(isochron_units(balancer, &first, INT64_MAX));
  REFUSED(isochron_units(balancer, &first, 0));
  REFUSED(isochron_measure_move_unit_s(session, -1, &one_s));
  REFUSED(isochron_measure_move_unit_s(session, 8, rank == 0 ? NULL : &one_s));
  ACCEPTED(isochron_measure_move_unit_s(session, INT64_MAX, &one_s));
  ACCEPTED(isochron_measure_move_unit_s(session, 8, &one_s));
  REFUSED(isochron_balancer_report(balancer, rank == 0 ? NULL : &text));
  ACCEPTED(isochron_balancer_report(balancer, &text));
  ACCEPTED(isochron_free(text));
  REFUSED(isochron_move(balancer, NULL, elements[1], 8));
  REFUSED(isochron_move(balancer, elements[0], elements[1], -1));
  REFUSED(isochron_move(balancer, elements[0], elements[1], HUGE_SIZE));
  REFUSED(isochron_move(balancer, elements[0], rank == 0 ? NULL : elements[1], 8));
  try_blocks(balancer, rank);
  REFUSED(isochron_balance(balancer, NULL));
  ACCEPTED(isochron_begin(balancer));
  ACCEPTED(isochron_begin(balancer));
  for (int sweep = 0; sweep < 10 && status == ISOCHRON_OK; sweep++)
    status = isochron_balance(balancer, &changed);
  expect("isochron_balance after two isochron_begin", status, 1);
  for (int i = 0; i < 3; i++) {
    const double no_times[] = {-1.0, 0.0 / zero, 1.0 / zero};
    ACCEPTED(isochron_record(balancer, 0, no_times[i], ISOCHRON_MOVED));
    status = ISOCHRON_OK;
    for (int sweep = 0; sweep < 10 && status == ISOCHRON_OK; sweep++)
      status = isochron_balance(balancer, &changed);
    expect("isochron_balance after a move that took no time", status, 1);
  }
  REFUSED(isochron_state(balancer, NULL, &length));
  REFUSED_TO(state, isochron_state(balancer, &state, NULL));
  ACCEPTED(isochron_state(balancer, &state, &length));
  REFUSED(isochron_restore(session, NULL, length, &restored));
  REFUSED(isochron_restore(session, state, -1, &restored));
  REFUSED(isochron_restore(session, state, INT64_MAX, &restored));
  REFUSED_TO(restored, isochron_restore(session, state, HUGE_SIZE, &restored));
  REFUSED(isochron_restore(session, state, length / 2, &restored));
  REFUSED(isochron_restore(session, state, length, rank == 0 ? NULL : &restored));
  ACCEPTED(isochron_restore(session, state, length, &restored));
  ACCEPTED(isochron_free(state));
  ACCEPTED(isochron_close_balancer(restored));
  ACCEPTED(isochron_close_balancer(balancer));
  try_balancer(balancer);
}

static void try_partitions(isochron_session_t *session, int rank, int ranks)
{
  isochron_partition_t *partition;
  isochron_point_t point = {.struct_size = sizeof point}, unsized = {.struct_size = 3};
  isochron_kernel_t old = KERNEL, lacking = KERNEL;
  isochron_model_t models[64] = {{.struct_size = sizeof *models, .time = tell_time, .update = take_point}};
  int64_t units[64];
  int ended;
  old.abi = 0, lacking.execute = NULL;
  for (int i = 1; i < ranks; i++)
    models[i] = models[0];
  REFUSED(isochron_benchmark(session, NULL, NULL, 5, NULL, &point));
  REFUSED(isochron_benchmark(session, rank == 0 ? &old : &KERNEL, NULL, 5, NULL, &point));
  REFUSED(isochron_benchmark(session, rank == 0 ? &lacking : &KERNEL, NULL, 5, NULL, &point));
  REFUSED(isochron_benchmark(session, &KERNEL, rank == 0 ? &point : NULL, 5, NULL, &point)); /* it fails with a context */
  REFUSED(isochron_benchmark(session, &KERNEL, NULL, rank == 0 ? -1 : 5, NULL, &point));
  REFUSED(isochron_benchmark(session, &KERNEL, NULL, 5, rank == 0 ? "epsilon=1" : NULL, &point));
  REFUSED(isochron_benchmark(session, &KERNEL, NULL, 5, "min_reps=1", &point));
  REFUSED(isochron_benchmark(session, &KERNEL, NULL, 5, NULL, rank == 0 ? NULL : &point));
  REFUSED(isochron_benchmark(session, &KERNEL, NULL, 5, NULL, &unsized));
  ACCEPTED(isochron_benchmark(session, &KERNEL, NULL, 5, "max_reps=3 unbound=true", &point));
  expect_answer("a point", point.units == 5 && point.repetitions > 0 && point.seconds > 0.0);
  REFUSED_TO(partition, isochron_partition(session, -1, NULL, NULL, 0, &partition));
  REFUSED_TO(partition, isochron_partition(session, 10, rank == 0 ? "granul=1" : NULL, NULL, 0, &partition));
  REFUSED_TO(partition, isochron_partition(session, 10, "partitioner=hpopta", NULL, 0, &partition));
  REFUSED_TO(partition, isochron_partition(session, 10, "granule=0", NULL, 0, &partition));
  REFUSED_TO(partition, isochron_partition(session, 10, "epsilon=nan", NULL, 0, &partition));
  REFUSED_TO(partition, isochron_partition(session, 10, NULL, NULL, ranks, &partition));
  REFUSED_TO(partition, isochron_partition(session, 10, NULL, models, ranks + 1, &partition));
  REFUSED_TO(partition, isochron_partition(session, 10, NULL, models, -1, &partition));
  REFUSED_TO(partition, isochron_partition(session, 10, "fit=akima", models, ranks, &partition));
  REFUSED(isochron_partition(session, 10, NULL, NULL, 0, NULL));
  models[0].update = NULL;
  REFUSED_TO(partition, isochron_partition(session, 10, NULL, models, ranks, &partition));
  models[0].update = take_point;
  if (ranks > 1) {
    REFUSED_TO(partition, isochron_partition(session, rank == 0 ? 10 : 11, NULL, NULL, 0, &partition));
    REFUSED_TO(partition, isochron_partition(session, 10, rank == 0 ? "granule=2" : NULL, NULL, 0, &partition));
  }
  models[0].context = &point; /* the time is negative */
  ACCEPTED(isochron_partition(session, 10, "max_reps=3", models, ranks, &partition));
  REFUSED(isochron_partition_iterate(partition, &KERNEL, NULL, &ended));
  REFUSED(isochron_partition_iterate(partition, rank == 0 ? NULL : &KERNEL, NULL, &ended));
  REFUSED(isochron_partition_iterate(partition, &KERNEL, NULL, rank == 0 ? NULL : &ended));
  ACCEPTED(isochron_close_partition(partition));
  ACCEPTED(isochron_partition(session, 10, "max_reps=3 max_iterations=2 fit=piecewise-time", NULL, 0, &partition));
  REFUSED(isochron_partition_units(partition, units, NULL, ranks + 1));
  REFUSED(isochron_partition_units(partition, NULL, NULL, ranks));
  ended = 0;
  while (!ended) {
    ACCEPTED(isochron_partition_iterate(partition, &KERNEL, NULL, &ended));
  }
  ACCEPTED(isochron_partition_units(partition, units, NULL, ranks));
  try_balancer((isochron_balancer_t *)partition);
  ACCEPTED(isochron_close_partition(partition));
  try_partition(partition);
}

static void try_predictions(isochron_session_t *session, int rank, int ranks)
{
  isochron_platform_t *platform;
  isochron_algorithm_t changed = ALGORITHM;
  isochron_predicted_t predicted = {.struct_size = sizeof predicted}, unsized = {.struct_size = 8};
  int64_t units[2] = {5, 50}, places[2] = {0, 0};
  double seconds[1];
  REFUSED_TO(platform, isochron_recon(session, rank == 0 ? NULL : &KERNEL, NULL, units, 2, NULL, &platform));
  REFUSED_TO(platform, isochron_recon(session, &KERNEL, rank == 0 ? &unsized : NULL, units, 2, NULL, &platform)); /* it fails with a context */
  REFUSED_TO(platform, isochron_recon(session, &KERNEL, NULL, rank == 0 ? NULL : units, 2, NULL, &platform));
  REFUSED_TO(platform, isochron_recon(session, &KERNEL, NULL, units, rank == 0 ? -1 : 2, NULL, &platform));
  REFUSED_TO(platform, isochron_recon(session, &KERNEL, NULL, units, HUGE_SIZE, NULL, &platform));
  REFUSED_TO(platform, isochron_recon(session, &KERNEL, NULL, units, 0, NULL, &platform));
  REFUSED_TO(platform, isochron_recon(session, &KERNEL, NULL, places, 2, NULL, &platform));
  REFUSED_TO(platform, isochron_recon(session, &KERNEL, NULL, units, 2, rank == 0 ? "epsilon=1" : NULL, &platform));
  REFUSED(isochron_recon(session, &KERNEL, NULL, units, 2, NULL, rank == 0 ? NULL : &platform));
  if (ranks > 1) {
    REFUSED_TO(platform, isochron_recon(session, &KERNEL, NULL, units, rank == 0 ? 1 : 2, NULL, &platform));
  }
  REFUSED_TO(platform, isochron_platform_of_file(NULL, NULL, &platform));
  REFUSED_TO(platform, isochron_platform_of_file("/no/such/file.toml", NULL, &platform));
  REFUSED_TO(platform, isochron_platform_of_file("\xff", "\xff", &platform));
  REFUSED(isochron_platform_of_file("/no/such/file.toml", NULL, NULL));
  const char *json;
  REFUSED_TO(json, isochron_search_plan(NULL, NULL, 64, 64, 64, NULL, &json));
  REFUSED_TO(json, isochron_search_plan("/no/such/file.toml", NULL, 64, 64, 64, NULL, &json));
  REFUSED_TO(json, isochron_search_plan("/no/such/file.toml", NULL, -1, 64, 64, "\xff", &json));
  REFUSED(isochron_search_plan("/no/such/file.toml", NULL, 64, 64, 64, NULL, NULL));
  ACCEPTED(isochron_recon(session, &KERNEL, NULL, units, 2, "max_reps=3", &platform));
  REFUSED(isochron_timeof(platform, NULL, places, 1, &predicted));
  REFUSED(isochron_timeof(platform, &ALGORITHM, NULL, 1, &predicted));
  REFUSED(isochron_timeof(platform, &ALGORITHM, places, -1, &predicted));
  REFUSED(isochron_timeof(platform, &ALGORITHM, places, 0, &predicted));
  REFUSED(isochron_timeof(platform, &ALGORITHM, places, 2, &predicted));
  REFUSED(isochron_timeof(platform, &ALGORITHM, places, HUGE_SIZE, &predicted));
  REFUSED(isochron_timeof(platform, &ALGORITHM, places, 1, NULL));
  REFUSED(isochron_timeof(platform, &ALGORITHM, places, 1, &unsized));
  REFUSED(isochron_choose(platform, NULL, 1, places, 1, &predicted, seconds));
  REFUSED(isochron_choose(platform, &ALGORITHM, 0, places, 1, &predicted, seconds));
  REFUSED(isochron_choose(platform, &ALGORITHM, -1, places, 1, &predicted, seconds));
  REFUSED(isochron_choose(platform, &ALGORITHM, HUGE_SIZE, places, 1, &predicted, seconds));
  REFUSED(isochron_choose(platform, &ALGORITHM, 1, NULL, 1, &predicted, seconds));
  REFUSED(isochron_choose(platform, &ALGORITHM, 1, places, 0, &predicted, seconds));
  REFUSED(isochron_choose(platform, &ALGORITHM, 1, places, 1, NULL, seconds));
  REFUSED(isochron_choose(platform, &ALGORITHM, 1, places, 1, &predicted, (double *)1));
#define LACKING(change) \
  do { \
    changed = ALGORITHM, change; \
    REFUSED(isochron_timeof(platform, &changed, places, 1, &predicted)); \
    REFUSED(isochron_choose(platform, &changed, 1, places, 1, &predicted, seconds)); \
  } while (0)
  LACKING(changed.struct_size = 48);
  LACKING(changed.struct_size = 64);
  LACKING(changed.processes = NULL);
  LACKING(changed.volume = NULL);
  LACKING(changed.bytes = NULL);
  LACKING(changed.scheme = NULL);
  changed = ALGORITHM, changed.context = &changed;
  places[1] = 1;
  REFUSED(isochron_timeof(platform, &changed, places, 2, &predicted));
  ACCEPTED(isochron_timeof(platform, &ALGORITHM, places, 1, &predicted));
  expect_answer("a prediction", predicted.seconds > 0 && predicted.processes == 1 && predicted.is_exact == 1);
  ACCEPTED(isochron_choose(platform, &ALGORITHM, 1, places, 1, &predicted, seconds));
  expect_answer("a choice", predicted.seconds == seconds[0] && places[0] < ranks);
  try_partition((isochron_partition_t *)platform);
  try_platform((isochron_platform_t *)kept); /* after its call */
  ACCEPTED(isochron_close_platform(platform));
  try_platform(platform);
}

/* Groups need MPI. */
static void try_groups(int rank, int ranks)
{
  int64_t places[2] = {ranks - 1, 0};
  int number = 77;
  MPI_Comm group, freed;
  REFUSED(isochron_group_comm(MPI_COMM_NULL, places, 1, &group));
  expect_answer("no group", group == MPI_COMM_NULL);
  MPI_Comm_dup(MPI_COMM_WORLD, &freed);
  number = (int)MPI_Comm_c2f(freed);
  MPI_Comm_free(&freed);
  REFUSED(isochron_group(number, places, 1, &number));
  expect_answer("no number", number == -1);
  REFUSED(isochron_group_comm(MPI_COMM_WORLD, rank == 0 ? NULL : places, 1, &group));
  REFUSED(isochron_group_comm(MPI_COMM_WORLD, places, rank == 0 ? -1 : 1, &group));
  REFUSED(isochron_group_comm(MPI_COMM_WORLD, places, HUGE_SIZE, &group));
  REFUSED(isochron_group_comm(MPI_COMM_WORLD, places, 1, rank == 0 ? NULL : &group));
  places[0] = rank == 0 ? -1 : 0;
  REFUSED(isochron_group_comm(MPI_COMM_WORLD, places, 1, &group));
  places[0] = ranks;
  REFUSED(isochron_group_comm(MPI_COMM_WORLD, places, 1, &group));
  places[0] = 0;
  REFUSED(isochron_group_comm(MPI_COMM_WORLD, places, 2, &group));
  ACCEPTED(isochron_group_comm(MPI_COMM_WORLD, places, 1, &group));
  expect_answer("the group of the first", (group != MPI_COMM_NULL) == (rank == 0));
  if (group != MPI_COMM_NULL)
    MPI_Comm_free(&group);
  ACCEPTED(isochron_group_comm(MPI_COMM_WORLD, NULL, 0, &group));
  expect_answer("the group of none", group == MPI_COMM_NULL);
}

static void try_communicators(int rank, int ranks)
{
  isochron_session_t *session;
  MPI_Comm freed, half, inter;
  int number;
  REFUSED_TO(session, isochron_open_comm(MPI_COMM_NULL, NULL, &session));
  MPI_Comm_dup(MPI_COMM_WORLD, &freed);
  number = (int)MPI_Comm_c2f(freed);
  MPI_Comm_free(&freed);
  REFUSED_TO(session, isochron_open(number, NULL, &session));
  if (ranks > 1) {
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &inter);
    REFUSED(isochron_open_comm(inter, NULL, &session));
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
  }
}

/* Opens a session, and prepares a product with its settings. */
static int open_and_prepare(int comm, const char *config)
{
  isochron_session_t *session;
  isochron_product_t *product;
  isochron_matrix_t a = describe(0), b = describe(1), c = describe(2);
  int status = isochron_open(comm, config, &session), opened = status;
  if (status == ISOCHRON_OK)
    status = isochron_prepare(session, ISOCHRON_F64, 'N', 'N', &a, &b, &c, &product);
  snprintf(told, sizeof told, "%s", isochron_last_error());
  if (status == ISOCHRON_OK)
    isochron_close_product(product);
  if (opened == ISOCHRON_OK)
    isochron_close(session);
  return status;
}

/* Divides a loop with these settings. */
static int open_balancer(int comm, const char *config)
{
  isochron_session_t *session;
  isochron_balancer_t *balancer;
  int status = isochron_open(comm, "blas=embedded", &session);
  status = status != ISOCHRON_OK ? status : isochron_balancer(session, 10, config, &balancer);
  snprintf(told, sizeof told, "%s", isochron_last_error());
  if (status == ISOCHRON_OK)
    isochron_close_balancer(balancer);
  isochron_close(session);
  return status;
}

/* Every setting with another value on the first rank than on the others: it is an error that tells the setting and both values
 * in the words of the settings, or it may differ, as the header says. */
static void try_differences(int comm, int rank)
{
  static const struct {
    const char *name, *values[2];
    int may_differ, is_loop;
  } settings[] = {
    {"grouping", {"node", "package"}, 1, 0}, {"blas", {"embedded", "auto"}, 1, 0},
    {"element", {"f32", "c64"}, 0, 0}, {"store", {"none", "read"}, 0, 0}, {"models", {"/no/a", "/no/b"}, 0, 0},
    {"host_scope", {"world", "comm"}, 0, 0}, {"block", {"16", "32"}, 0, 0}, {"panel", {"16", "32"}, 0, 0},
    {"split", {"c", "k"}, 0, 0}, {"strategy", {"homogeneous", "fpm"}, 0, 0}, {"epsilon", {"0.25", "0.5"}, 0, 0},
    {"granule", {"1", "2"}, 0, 1}, {"sweeps", {"50", "60"}, 0, 1}, {"trigger", {"1.25", "1.5"}, 0, 1},
    {"window", {"4", "5"}, 0, 1}, {"cooldown", {"9", "10"}, 0, 1}, {"warm_up", {"2", "3"}, 0, 1},
    {"check_every", {"5", "6"}, 0, 1}, {"max_move", {"0.25", "0.5"}, 0, 1}, {"growth", {"3.5", "4.5"}, 0, 1},
    {"retry_after", {"70", "80"}, 0, 1}, {"move_unit_s", {"0.25", "0.5"}, 0, 1}, {"max_local", {"8", "9"}, 1, 1},
    {"weight", {"1", "2"}, 1, 1},
  };
  for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
    char config[100];
    const char *value = settings[i].values[rank > 0];
    snprintf(config, sizeof config, "%s=%s", settings[i].name, value);
    int status = settings[i].is_loop ? open_balancer(comm, config) : open_and_prepare(comm, config);
    int is_right = (status == ISOCHRON_OK) == settings[i].may_differ;
    if (status != ISOCHRON_OK)
      is_right = is_right && strstr(told, settings[i].name) && strstr(told, settings[i].values[0]) && strstr(told, settings[i].values[1]) &&
                 !strpbrk(told, "{}<>") && !strstr(told, "::") && !strstr(told, "Some(");
    if (!is_right)
      printf("%s: %d: %s\n", config, status, told);
    n_failed += !is_right;
  }
}

static void try_all(int comm, int is_local, int rank, int ranks)
{
  isochron_session_t *session;
#define OPEN(config, place) (is_local ? isochron_open_local(config, place) : isochron_open(comm, config, place))
  REFUSED(OPEN(NULL, NULL));
  REFUSED_TO(session, OPEN("blas", &session));
  REFUSED(OPEN("bals=embedded", &session));
  REFUSED(OPEN("platform=/no/such/file.toml", &session));
  REFUSED(OPEN("reserved_cores=0,x", &session));
  REFUSED(OPEN("block=0", &session));
  REFUSED(OPEN("host_scope=host", &session));
  REFUSED(OPEN(rank == 0 ? "host_scope=host" : NULL, &session));
  REFUSED(OPEN("element=double", &session));
  if (ranks > 1 && !is_local) {
    REFUSED(OPEN(rank == 0 ? "element=f32" : "element=c64", &session));
  }
  REFUSED(OPEN(rank == 0 ? "bals=embedded" : NULL, &session));
  ACCEPTED(OPEN("blas=embedded element=f32 grouping=node strategy=homogeneous", &session));
  try_product((isochron_product_t *)session);
  try_balancer((isochron_balancer_t *)session);
  try_partition((isochron_partition_t *)session);
  try_texts(session);
  try_matrices(session, ranks);
  try_descriptors(session);
  try_products(session, rank);
  try_shared_memory(session);
  try_parts_of_one_array(session, ranks);
  try_balancers(session, rank);
  try_own_groups();
  try_times(session, rank);
  try_partitions(session, rank, ranks);
  try_predictions(session, rank, ranks);
  ACCEPTED(isochron_save_models(session)); /* nothing, without store=read-write */
  ACCEPTED(isochron_close(session));
  try_session(session);
}

/* A forked child that uses the handles of its parent, and the parent's communicator. It ends with what failed. */
static void be_forked(int comm, int is_local, isochron_session_t *session, isochron_product_t *product,
                      isochron_balancer_t *balancer)
{
  isochron_session_t *own;
  isochron_matrix_t a = describe(0), b = describe(1), c = describe(2);
  alarm(60); /* a child that waits is ended */
  n_failed = 0;
  try_session(session);
  expect_answer("a session tells of the fork", strstr(isochron_last_error(), "is a forked child of process") != NULL);
  try_product(product);
  expect_answer("a product tells of the fork", strstr(isochron_last_error(), "has made this product") != NULL);
  try_balancer(balancer);
  expect_answer("a balancer tells of the fork", strstr(isochron_last_error(), "has made this balancer") != NULL);
  if (!is_local) {
    REFUSED_TO(own, isochron_open(comm, NULL, &own));
    expect_answer("a communicator tells of the fork", strstr(isochron_last_error(), "has made this communicator") != NULL);
  }
  ACCEPTED(isochron_open_local("blas=embedded strategy=homogeneous", &own));
  ACCEPTED(isochron_gemm(own, ISOCHRON_F64, 'N', 'N', &one, &a, &b, &zero, &c));
  ACCEPTED(isochron_close(own));
  fflush(stdout);
  /* The memory of the parent's threads is lost here, which no tool is to find. */
  execlp(n_failed ? "false" : "true", "child", (char *)NULL);
  _exit(1);
}

/* The handles stay usable in the parent. */
static void try_fork(int comm, int is_local)
{
  isochron_session_t *session;
  isochron_product_t *product;
  isochron_balancer_t *balancer;
  isochron_matrix_t a = describe(0), b = describe(1), c = describe(2);
  const char *config = "blas=embedded strategy=homogeneous";
  int changed, status = -1;
  ACCEPTED(OPEN(config, &session));
  ACCEPTED(isochron_prepare(session, ISOCHRON_F64, 'N', 'N', &a, &b, &c, &product));
  ACCEPTED(isochron_balancer(session, 10, NULL, &balancer));
  fflush(stdout);
  pid_t child = fork();
  if (child == 0)
    be_forked(comm, is_local, session, product, balancer);
  waitpid(child, &status, 0);
  expect_answer("a forked child is refused every call", WIFEXITED(status) && WEXITSTATUS(status) == 0);
  ACCEPTED(isochron_run(product, &one, &a, &b, &zero, &c));
  ACCEPTED(isochron_balance(balancer, &changed));
  ACCEPTED(isochron_close_balancer(balancer));
  ACCEPTED(isochron_close_product(product));
  ACCEPTED(isochron_close(session));
}

int main(int argc, char **argv)
{
  int rank = 0, ranks = 1, provided, with_mpi = argc > 1 && strcmp(argv[1], "mpi") == 0, is_tidy = argc > 2;
  isochron_session_t *session;
  MPI_Comm group;
  void *none[] = {NULL, &none, (void *)(uintptr_t)-1, (void *)1};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    try_session(none[i]);
    try_product(none[i]);
    try_balancer(none[i]);
    try_partition(none[i]);
    try_platform(none[i]);
  }
  REFUSED_TO(session, isochron_open(0, NULL, &session)); /* MPI does not run yet */
  if (with_mpi) {
    REFUSED(isochron_open_comm(MPI_COMM_WORLD, NULL, &session));
    REFUSED(isochron_group_comm(MPI_COMM_WORLD, NULL, 0, &group));
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    try_communicators(rank, ranks);
    try_groups(rank, ranks);
  }
  try_all(with_mpi ? (int)MPI_Comm_c2f(MPI_COMM_WORLD) : 0, !with_mpi, rank, ranks);
  try_fork(with_mpi ? (int)MPI_Comm_c2f(MPI_COMM_WORLD) : 0, !with_mpi);
  if (ranks > 1)
    try_differences((int)MPI_Comm_c2f(MPI_COMM_WORLD), rank);
  if (with_mpi) {
    ACCEPTED(isochron_open_comm(MPI_COMM_WORLD, NULL, &session));
    if (is_tidy) {
      ACCEPTED(isochron_close(session));
    }
    MPI_Finalize();
    if (!is_tidy) {
      REFUSED(isochron_save_models(session));
      ACCEPTED(isochron_close(session));
    }
    REFUSED(isochron_open_comm(MPI_COMM_WORLD, NULL, &session));
  }
  printf("%d calls were refused\n", n_refused);
  return n_failed > 0;
}
