/* The C interface of Isochron. Made by cbindgen from runtime/c/src.
 *
 * A program opens a session on a communicator, and closes it at the end:
 *
 *   isochron_open_comm (if mpi.h was included before), isochron_open or isochron_open_local; isochron_close
 *
 * It multiplies matrices in its own memory, described by isochron_matrix_t, once or many times:
 *
 *   isochron_gemm
 *   isochron_prepare; isochron_run, as often as needed; isochron_close_product
 *
 * isochron_from_descriptor describes a matrix of ScaLAPACK, and isochron_elements lists or fills this rank's elements of any
 * matrix.
 *
 * It balances a loop of its own. After each sweep isochron_balance says if the parts of the ranks have changed:
 *
 *   isochron_balancer, or without MPI isochron_balancer_of_group; isochron_part
 *   in each sweep: isochron_begin, the work on the part, isochron_end, isochron_balance
 *   after a change: isochron_part, and isochron_move for each array
 *   isochron_close_balancer
 *
 * It divides work by benchmarks of a kernel of its own, from nothing. isochron_kernel.h describes kernels:
 *
 *   isochron_partition; isochron_partition_iterate, until it says that it has ended
 *   isochron_partition_units; isochron_close_partition
 *
 * It predicts algorithms of its own, chooses the fastest and its ranks, and gets a communicator of them:
 *
 *   isochron_recon or isochron_platform_of_file; isochron_timeof, isochron_choose
 *   isochron_group_comm (if mpi.h was included before) or isochron_group; isochron_close_platform
 *
 * Every call except isochron_strerror and isochron_last_error returns a status: ISOCHRON_OK, or why it failed.
 * isochron_last_error explains it in a sentence. A call that fails writes null for handles, texts and states, and 0 for
 * single numbers, -1 for a communicator; arrays and structs stay as they are. Calls named collective are made by all ranks, in the same order. A handle is used on the thread that made it.
 * Free texts and states by isochron_free. docs/c-and-fortran.md has whole programs. */

#ifndef ISOCHRON_H
#define ISOCHRON_H

#include <stdint.h>
#include "isochron_kernel.h"

// Major version of the interface. A program can call a library with the same major version as its header and the same
// or a higher minor version. isochron_abi returns both.
#define ISOCHRON_ABI_MAJOR 0

// Minor version of the interface. It grows with every added call, setting, constant and struct.
#define ISOCHRON_ABI_MINOR 9

// The call succeeded.
#define ISOCHRON_OK 0

// An argument is a null pointer, out of range, or not valid text.
#define ISOCHRON_ARGUMENT 1

// A handle is unknown: it was closed, is of another kind, or belongs to another thread or to the parent of a forked child.
#define ISOCHRON_HANDLE 2

// There is no setting of this name, or it does not take this value.
#define ISOCHRON_SETTING 3

// The request is wrong: a communicator, shapes, layouts, memory, a file. Nothing was computed.
#define ISOCHRON_INPUT 4

// The run failed.
#define ISOCHRON_FAILED 5

// The library has a defect.
#define ISOCHRON_INTERNAL 6

// The whole matrix is on one rank.
#define ISOCHRON_ON_ONE 0

// The matrix is two-dimensional block-cyclic, as in ScaLAPACK.
#define ISOCHRON_BLOCK_CYCLIC 1

// Each rank has a rectangle of the matrix.
#define ISOCHRON_RECTANGLES 2

// The matrix is a grid of blocks, each with one owner.
#define ISOCHRON_BLOCKS 3

// Elements are float.
#define ISOCHRON_F32 0

// Elements are double.
#define ISOCHRON_F64 1

// Elements are float complex: two float.
#define ISOCHRON_C32 2

// Elements are double complex: two double.
#define ISOCHRON_C64 3

// Flag of isochron_record: no rank learns from this sweep.
#define ISOCHRON_IGNORE 1

// Flag of isochron_record: the seconds were spent moving the program's data by other means than isochron_move.
#define ISOCHRON_MOVED 2

// The place of the process bound computes longest of all.
#define ISOCHRON_WORK 0

// The place of the process bound sends longest of all.
#define ISOCHRON_SENDS 1

// The place of the process bound receives longest of all.
#define ISOCHRON_RECEIVES 2

// The uplink bound of the platform's network is busy longest.
#define ISOCHRON_UPLINK 3

// A loop of the program, balanced over the ranks.
typedef struct isochron_balancer_t isochron_balancer_t;

// A division of work over the ranks, made by benchmarks of a kernel of the program.
typedef struct isochron_partition_t isochron_partition_t;

// The places that may run processes, with their speeds, and the network between them.
typedef struct isochron_platform_t isochron_platform_t;

// A product that is planned once and run many times.
typedef struct isochron_product_t isochron_product_t;

// The order of the work and of the messages of an algorithm, while its function scheme is called.
typedef struct isochron_scheme_t isochron_scheme_t;

// A session: the ranks of a communicator and their devices.
typedef struct isochron_session_t isochron_session_t;

// A matrix distributed over ranks, and this rank's memory for it. Set struct_size to sizeof(isochron_matrix_t), and
// all unused fields to 0. Later versions may append fields. They accept this struct as it is, and take the missing
// fields as 0.
typedef struct {
  // Bytes of this struct.
  int64_t struct_size;
  // ISOCHRON_ON_ONE, ISOCHRON_BLOCK_CYCLIC, ISOCHRON_RECTANGLES or ISOCHRON_BLOCKS.
  int64_t kind;
  // 1 for row-major memory, as in C; 0 for column-major memory, as in Fortran.
  int64_t row_major;
  // Rows of the whole matrix.
  int64_t rows;
  // Columns of the whole matrix.
  int64_t cols;
  // On one: the rank that has the matrix.
  int64_t rank;
  // Block-cyclic: rows of a block.
  int64_t row_block;
  // Block-cyclic: columns of a block.
  int64_t col_block;
  // Block-cyclic: row of the process grid that has the first block, counted from 0.
  int64_t row_source;
  // Block-cyclic: column of the process grid that has the first block, counted from 0.
  int64_t col_source;
  // Block-cyclic: rows of the process grid, which consists of the first ranks of the session.
  int64_t grid_rows;
  // Block-cyclic: columns of the process grid.
  int64_t grid_cols;
  // Block-cyclic: 1 if the grid numbers its ranks down the columns ('C' of BLACS), 0 if along the rows ('R').
  int64_t grid_by_columns;
  // Rectangles: first row, first column, rows and columns of each rank's rectangle.
  const int64_t *rectangles;
  // Blocks: number of rows of blocks.
  int64_t block_rows;
  // Blocks: number of columns of blocks.
  int64_t block_cols;
  // Blocks: the block_rows + 1 borders of the rows of blocks, from 0 to rows.
  const int64_t *row_cuts;
  // Blocks: the block_cols + 1 borders of the columns of blocks, from 0 to cols.
  const int64_t *col_cuts;
  // Blocks: the rank of each block, column of blocks by column of blocks.
  const int64_t *owners;
  // All but blocks: first element of this rank's local matrix. It is not used when a product is prepared.
  void *data;
  // All but blocks: leading dimension of the local matrix, in elements.
  int64_t ld;
  // Blocks: number of this rank's blocks.
  int64_t n_blocks;
  // Blocks: first element of each of this rank's blocks, in the order of owners.
  void *const *blocks;
  // Blocks: leading dimension of each of this rank's blocks.
  const int64_t *block_lds;
  // Block-cyclic: rows of the first row of blocks, if it has fewer than the others; 0 for row_block.
  int64_t first_row_block;
  // Block-cyclic: columns of the first column of blocks, if it has fewer than the others; 0 for col_block.
  int64_t first_col_block;
  // 1 for a submatrix of the matrix that the other fields describe, whose memory stays the whole one's; 0 for all of it.
  int64_t is_sub;
  // Submatrix: its first row, counted from 0.
  int64_t sub_row;
  // Submatrix: its first column, counted from 0.
  int64_t sub_col;
  // Submatrix: its rows.
  int64_t sub_rows;
  // Submatrix: its columns.
  int64_t sub_cols;
} isochron_matrix_t;

// Reports which matrices a product used in place, and the cost of moving the others on this rank. Set
// struct_size to sizeof(isochron_last_run_t). Later versions may append fields. They accept this struct as it is, and
// write the fields that it has.
//
// A matrix that is not where the plan needs it is moved, on all ranks.
typedef struct {
  // Bytes of this struct.
  int64_t struct_size;
  // 1 if A was used in place; 0 if it was moved.
  int64_t a_in_place;
  // 1 if B was used in place; 0 if it was moved.
  int64_t b_in_place;
  // 1 if C was written in place; 0 if it was moved.
  int64_t c_in_place;
  // Messages that this rank sent to move A, B and C to the plan's layout, and C back.
  int64_t messages;
  // Bytes of these messages.
  int64_t bytes;
  // Seconds of these moves on this rank.
  double seconds;
} isochron_last_run_t;

// The measured times of a device, or of a rank's work in a loop. Set struct_size to sizeof(isochron_times_t), and all
// unused fields to 0. Later versions may append fields. They accept this struct as it is, and take the missing fields
// as 0.
typedef struct {
  // Bytes of this struct.
  int64_t struct_size;
  // Number of points.
  int64_t n_points;
  // Units of each point, in any order.
  const int64_t *units;
  // Seconds of each point.
  const double *seconds;
  // The most units to give; 0 for no limit.
  int64_t max_units;
} isochron_times_t;

// Ranks that the program has without MPI, such as threads or the processes of a framework. Set struct_size to
// sizeof(isochron_group_t).
typedef struct {
  // Bytes of this struct.
  int64_t struct_size;
  // This rank, from 0.
  int64_t rank;
  // Number of ranks.
  int64_t size;
  // Gathers this many bytes from every rank, and writes the data of rank r at all + r * bytes. Returns 0, or another number if the group does
  // not work any more. All ranks call it together.
  int (*all_gather)(void *context, const void *data, int64_t bytes, void *all);
  // Passed on to all_gather.
  void *context;
} isochron_group_t;

// The measured time of a kernel. Set struct_size to sizeof(isochron_point_t). Later versions may append fields.
typedef struct {
  // Bytes of this struct.
  int64_t struct_size;
  // Units.
  int64_t units;
  // Mean seconds of a run.
  double seconds;
  // Repetitions; 0 if a run took too long and was stopped: seconds is a lower bound then.
  int64_t repetitions;
  // Half-width of the confidence interval of the mean, in seconds.
  double half_width_s;
} isochron_point_t;

// A model of a rank's time, of the program's own. Set struct_size to sizeof(isochron_model_t). Every rank has a copy of the
// model of each rank, and each copy gets the same points. Rank 0 divides by the times of its copies.
typedef struct {
  // Bytes of this struct.
  int64_t struct_size;
  // Returns the seconds that units take: more than 0, growing with the units, which may be any number between whole ones too.
  double (*time)(void *context, double units);
  // Takes a measured point, on all ranks. Returns 0, or another number for a failure. The points of an iteration that has
  // failed may come again.
  int (*update)(void *context, const isochron_point_t *point);
  // Passed on to both.
  void *context;
} isochron_model_t;

// An algorithm of the program's own. Set struct_size to sizeof(isochron_algorithm_t), and size to null if it is the volume. The
// functions get the context. They give the same answers on all ranks, and send no messages.
typedef struct {
  // Bytes of this struct.
  int64_t struct_size;
  // Returns the number of processes.
  int64_t (*processes)(void *context);
  // Returns the work of a process, in units of the kernel that the speeds are measured with.
  double (*volume)(void *context, int64_t process);
  // Returns the units that a process has in its memory at once, at which its speed is taken. Null: its volume.
  double (*size)(void *context, int64_t process);
  // Returns the bytes from one process to another in the whole run. It is not called with from = to.
  double (*bytes)(void *context, int64_t from, int64_t to);
  // Gives the order of the work and of the messages by the calls isochron_scheme_..., each in percent of the whole.
  void (*scheme)(void *context, isochron_scheme_t *order);
  // Passed on to all.
  void *context;
} isochron_algorithm_t;

// A predicted run. Set struct_size to sizeof(isochron_predicted_t). Later versions may append fields.
typedef struct {
  // Bytes of this struct.
  int64_t struct_size;
  // Seconds.
  double seconds;
  // The least seconds that nine of ten runs take.
  double low_s;
  // The most seconds that nine of ten runs take.
  double high_s;
  // Seconds in which the busiest process computes.
  double compute_s;
  // The process that computes longest.
  int64_t slowest;
  // The kind of the part that is busy longest: ISOCHRON_WORK, ISOCHRON_SENDS, ISOCHRON_RECEIVES or ISOCHRON_UPLINK.
  int64_t binds;
  // The process, or the uplink.
  int64_t bound;
  // Number of processes.
  int64_t processes;
  // The number of the algorithm in the list of isochron_choose, from 0.
  int64_t chosen;
  // 1 if isochron_choose has compared all places of the processes; 0 if it has exchanged some as long as that helped.
  int64_t is_exact;
} isochron_predicted_t;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Writes the version of the interface that the library has.
//
// Safety: major and minor are null, or may be written.
int isochron_abi(int *major, int *minor);

// Returns the meaning of a status in a few words. The text is never freed.
const char *isochron_strerror(int status);

// Returns the sentence of the last call on this thread: what failed, on which rank and why; empty after a success. The
// text is valid until the next call on this thread.
const char *isochron_last_error(void);

// Frees a text or a state that a call has returned. A null pointer is no error.
//
// Safety: The memory is not used any more.
int isochron_free(const void *memory);

// Opens a session: finds the devices of all ranks of a communicator. comm is its handle in Fortran, which MPI_Comm_c2f
// returns, or MPI_Comm_toint with the standard ABI of MPI. The communicator is duplicated and stays as it is.
// isochron_open_comm takes an MPI_Comm instead.
//
// config is null, or has settings of the form name=value. Separate them by spaces, or by semicolons or line breaks if
// values have spaces. Settings of products are accepted too: see isochron_set.
//
// | setting | ranks | meaning |
// |---|---|---|
// | platform | same | platform file; without one, every rank uses the devices of its host |
// | grouping | may differ | the cores that form a device: auto, package, numa, kind, node |
// | blas | may differ | the BLAS of the CPU devices: auto, embedded, openblas, blis, mkl or a file |
// | element | same | type of the elements for which blas=auto compares libraries: f32, f64 (the default), c32 or c64 |
// | store | same | use of the model store: none (the default), read or read-write |
// | models | same | folder with a points file of each device, used instead of measurements |
// | reserved_cores | same on a host | cores left to threads of the program, by their logical numbers, such as 0,1 |
// | host_scope | same | world: all sessions and ranks of the launcher divide the host (the default); comm: only the ranks of this session do |
//
// Collective: all ranks of comm. The column "ranks" says which settings all of them give alike. A setting that differs and must
// not is an error on every rank, which names it and its values.
//
// Safety: comm is the number of a communicator, which may have been freed; config is null or a string; session is null or may
// be written.
int isochron_open(int comm,
                  const char *config,
                  isochron_session_t **session);

// Opens a session of this process alone, without MPI. config is as for isochron_open.
//
// Safety: config is null or a string, and session is null or may be written.
int isochron_open_local(const char *config, isochron_session_t **session);

// Changes a setting of products that are prepared later.
//
// | setting | ranks | meaning |
// |---|---|---|
// | block | same | block size, or auto |
// | panel | same | width of the panels, or auto |
// | split | same | what is divided among the nodes: c (rows and columns of C), k (the inner dimension) or auto |
// | strategy | same | adaptive (learns in the run, the default); fpm, multi-cpm or single-cpm (measure before it); homogeneous (even) |
// | epsilon | same | imbalance at which strategies that measure before the run stop |
//
// Not collective, but all ranks must have the same settings when they prepare a product. One that differs is then an error on
// every rank, which names it and its values.
//
// Safety: name and value are null or strings.
int isochron_set(isochron_session_t *session,
                 const char *name,
                 const char *value);

// Writes a setting of products, or rank, ranks, host, devices (their number) or mpi, as text. Free it by
// isochron_free.
//
// Safety: name is null or a string, and value is null or may be written.
int isochron_get(const isochron_session_t *session, const char *name, const char **value);

// Writes the report of the session's last product as JSON: the work and the times of every device. Free it by
// isochron_free.
//
// Collective: all ranks of the session.
//
// Safety: json is null or may be written.
int isochron_report(const isochron_session_t *session, const char **json);

// Adds the times that a session has learnt to the model store, so that later sessions begin with them. It does nothing
// without store=read-write, or if there is nothing new. isochron_close does not save: call this after the last product, once
// its result is known to be right.
//
// A store that cannot be written is no error: a notice of isochron_report has the reason.
//
// Collective: all ranks of the session.
//
// Safety: No call of the session is under way.
int isochron_save_models(isochron_session_t *session);

// Closes a session. Its products and balancers stay open, and keep what they need of it.
//
// Collective: all ranks.
//
// Safety: No call of it is under way.
int isochron_close(isochron_session_t *session);

// Describes the submatrix of m rows and n columns from row ia and column ja on, counted from 1, of a matrix with a
// descriptor of ScaLAPACK: the arguments by which its routines take a matrix. descriptor has the 9 integers of a dense
// matrix (DTYPE_A is 1). The context is not read: the grid has grid_rows rows and grid_cols columns of the first
// ranks of the session, and grid_by_columns is as in isochron_matrix_t. data is this rank's local array, which is
// column-major.
//
// The call writes all fields of matrix but its struct_size, which is set before. If it fails, it writes none.
//
// Not collective: it needs no session.
//
// Safety: descriptor is null or has 9 integers; matrix is null, or points to a struct that may be written, of as many bytes as its
// first field says.
int isochron_from_descriptor(const int *descriptor,
                             int64_t ia,
                             int64_t ja,
                             int64_t m,
                             int64_t n,
                             int64_t grid_rows,
                             int64_t grid_cols,
                             int64_t grid_by_columns,
                             void *data,
                             isochron_matrix_t *matrix);

// Calls visit for each element that this rank has of a matrix, with its row and column in the whole matrix or submatrix,
// counted from 0, and its place in the memory of the matrix. So a program fills its part of a matrix, or lists its elements,
// without the rules by which they are dealt out. type is one of ISOCHRON_F32 to ISOCHRON_C64. context is passed on.
//
// Not collective.
//
// Safety: The matrix has the memory that it describes, and visit may be called with the places of its elements.
int isochron_elements(const isochron_session_t *session,
                      int type,
                      const isochron_matrix_t *matrix,
                      void (*visit)(void *context, int64_t row, int64_t col, void *element),
                      void *context);

// Multiplies once: C = alpha·op(A)·op(B) + beta·C. type is one of ISOCHRON_F32 to ISOCHRON_C64. trans_a and
// trans_b are 'N', 'T' or 'C'. alpha and beta point to one element each. If beta is 0, C is not read.
// Prepare a product that runs more than once.
//
// C shares no element with A and B. All three may be parts of one array, whose lines lie between each other.
//
// Collective: all ranks of the session, with the same arguments except their memory.
//
// Safety: The matrices have the memory that they describe. Nothing else writes it, or reads C, during the call.
int isochron_gemm(isochron_session_t *session,
                  int type,
                  char trans_a,
                  char trans_b,
                  const void *alpha,
                  const isochron_matrix_t *a,
                  const isochron_matrix_t *b,
                  const void *beta,
                  const isochron_matrix_t *c);

// Plans a product to be run many times. The memory of the matrices is not used. Close the product by
// isochron_close_product.
//
// Collective: all ranks of the session, with the same arguments.
//
// Safety: The arrays of the matrices are as long as they say, and product is null or may be written.
int isochron_prepare(isochron_session_t *session,
                     int type,
                     char trans_a,
                     char trans_b,
                     const isochron_matrix_t *a,
                     const isochron_matrix_t *b,
                     const isochron_matrix_t *c,
                     isochron_product_t **product);

// Runs a product with matrices that are described as when it was prepared. Their memory may differ.
//
// Collective: all ranks of the session, with the same scalars.
//
// Safety: As isochron_gemm.
int isochron_run(isochron_product_t *product,
                 const void *alpha,
                 const isochron_matrix_t *a,
                 const isochron_matrix_t *b,
                 const void *beta,
                 const isochron_matrix_t *c);

// Reports which matrices the session's last product used in place, and what it cost this rank to move and copy the others.
//
// Not collective.
//
// Safety: run is null, or points to a struct that may be written, of as many bytes as its first field says.
int isochron_last_run(const isochron_session_t *session,
                      isochron_last_run_t *run);

// Writes the plan of a product as JSON. Free the text by isochron_free.
//
// Safety: json is null or may be written.
int isochron_plan(const isochron_product_t *product, const char **json);

// Closes a product.
//
// Safety: No call of it is under way.
int isochron_close_product(isochron_product_t *product);

// Splits units over devices by their measured times, so that all finish together. Writes the units of each device and
// their predicted seconds; times_s may be null. config is null or settings, written as for isochron_open.
//
// | setting | meaning |
// |---|---|
// | fit | model made of the points: piecewise-speed, piecewise-time, akima, raw-piecewise, cpm |
// | partitioner | gpa or npa, for times that grow with the units; hpopta for times of any shape, with fit=raw-piecewise |
// | granule | units are given in multiples of this, and the rest to one device |
//
// Not collective: it needs no session.
//
// Safety: devices is null or has n_devices structs, whose arrays are null or have n_points numbers; config is null or a string;
// units and times_s are null or have room for n_devices numbers.
int isochron_split(int64_t total,
                   const isochron_times_t *devices,
                   int64_t n_devices,
                   const char *config,
                   int64_t *units,
                   double *times_s);

// Divides the units of a loop as isochron_balancer does, for work whose time is not a smooth function of the units,
// such as Fourier transforms. mine has the times of this rank. All ranks have times, and each rank gets one of its
// measured sizes, or nothing. The times may come from other conditions: the first sweeps scale them.
//
// Collective: all ranks of the session, with the same units, and the same settings except max_local and weight.
//
// Safety: mine is null or points to a struct whose arrays are null or have n_points numbers; config is null or a string, and
// balancer is null or may be written.
int isochron_balancer_by_times(isochron_session_t *session,
                               int64_t units,
                               const char *config,
                               const isochron_times_t *mine,
                               isochron_balancer_t **balancer);

// Divides the units of a loop over the ranks of a session. A unit is the smallest piece that can move, such as a row. config
// is null or settings, written as for isochron_open. Close the balancer by isochron_close_balancer.
//
// | setting | ranks | meaning |
// |---|---|---|
// | granule | same | units are divided in multiples of this (default 1) |
// | sweeps | same | number of sweeps of the whole loop, if known |
// | trigger | same | units move when the sweep time exceeds the predicted one by this factor (default 1.05) |
// | window, cooldown | same | sweeps before a division is judged (default 3); least sweeps between two changes (default 8) |
// | warm_up, check_every | same | sweeps ignored at the beginning and after a change (default 1); most sweeps between two checks (default 8) |
// | max_move | same | largest share of all units that may move at once (default 1) |
// | growth | same | largest growth of a part in one change, as a factor (default 2) |
// | retry_after | same | sweeps after which a rank without units is tried again (default 100) |
// | move_unit_s | same | seconds to move a unit, before any move (default: ten times those to compute one); 0 if none has to move |
// | max_local, weight | may differ | of this rank: its most units; its expected speed beside that of others (default 1) |
//
// Collective: all ranks of the session, with the same units. The column "ranks" says which settings all of them give alike. A
// setting that differs and must not is an error on every rank, which names it and its values.
//
// Safety: config is null or a string, and balancer is null or may be written.
int isochron_balancer(isochron_session_t *session,
                      int64_t units,
                      const char *config,
                      isochron_balancer_t **balancer);

// Measures the seconds to move a unit of bytes_per_unit bytes between neighbouring ranks, for the setting move_unit_s of
// isochron_balancer. Without this setting a balancer expects the first move to take ten times the computation of its units, so
// a loop of a few sweeps moves nothing. Measuring takes some milliseconds. It writes 0 on a single rank.
//
// Collective: all ranks of the session, with the same bytes_per_unit.
//
// Safety: seconds is null or may be written.
int isochron_measure_move_unit_s(isochron_session_t *session,
                                 int64_t bytes_per_unit,
                                 double *seconds);

// Writes the first unit of this rank's part, counted from 0, and the number of its units. The parts follow each other in
// the order of the ranks.
//
// Safety: first and count are null or may be written.
int isochron_part(const isochron_balancer_t *balancer,
                  int64_t *first,
                  int64_t *count);

// Writes the ranks that have the units just before and just after this rank's. Ranks without units are skipped. If there is
// no such rank, or this rank has no units, it writes the value of none, such as MPI_PROC_NULL.
//
// Safety: before and after are null or may be written.
int isochron_neighbours(const isochron_balancer_t *balancer,
                        int none,
                        int *before,
                        int *after);

// Starts to time this rank's work in a sweep.
//
// Safety: No call of the balancer is under way.
int isochron_begin(isochron_balancer_t *balancer);

// Ends the timing that isochron_begin started. Several pairs in a sweep add up.
//
// Safety: As isochron_begin.
int isochron_end(isochron_balancer_t *balancer);

// Adds the seconds that this rank needed for some of its units, such as the time between two GPU events. The times and
// the units of a sweep add up. flags is 0, ISOCHRON_IGNORE or ISOCHRON_MOVED.
//
// A negative or non-finite time makes a later isochron_balance fail on all ranks.
//
// Safety: As isochron_begin.
int isochron_record(isochron_balancer_t *balancer,
                    int64_t units,
                    double seconds,
                    int flags);

// Ends a sweep. Writes 1 to changed if the parts have changed, otherwise 0. Most calls send no message. If a time is
// invalid, or isochron_begin and isochron_end do not match, on any rank, this or a later call fails on all ranks.
//
// Collective: all ranks, after every sweep.
//
// Safety: changed is null or may be written.
int isochron_balance(isochron_balancer_t *balancer,
                     int *changed);

// Writes each rank's share of all units: the weights for ParMETIS, Scotch, Zoltan or p4est. They sum to 1.
//
// Safety: shares is null or has n_shares numbers.
int isochron_shares(const isochron_balancer_t *balancer, double *shares, int64_t n_shares);

// Writes the number of units of each rank. The parts follow each other in the order of the ranks, so the first unit of a
// part is the sum of the numbers before its own.
//
// Safety: units is null or has n_units numbers.
int isochron_units(const isochron_balancer_t *balancer,
                   int64_t *units,
                   int64_t n_units);

// Moves an array after the parts have changed. from has the units of this rank's old part, and to receives those of
// its new part, bytes_per_unit bytes each. Call it once for each array, before the next sweep.
//
// from and to are apart, or lie in one array with a place for every unit: if to is from + (new first unit - old first unit) *
// bytes_per_unit, units that stay are not touched, and the call takes as long as those that move. Otherwise all units of
// the part are copied.
//
// Collective: all ranks, with the same bytes_per_unit.
//
// Safety: from has the units of the old part, and to has room for those of the new one. In one array nothing else uses the
// memory from the first of them to the last.
int isochron_move(isochron_balancer_t *balancer,
                  const void *from,
                  void *to,
                  int64_t bytes_per_unit);

// Moves blocks of any length after the parts have changed, one for each unit. from has the blocks of this rank's old
// part, one after the other, and to receives those of its new part. from_bytes and to_bytes have the bytes of each
// block. Move the lengths first, by isochron_move with 8 bytes per unit.
//
// Collective: all ranks.
//
// Safety: from_bytes has a number for each unit of the old part, and to_bytes for each unit of the new one. from and
// to have the sum of these numbers in bytes. to overlaps nothing else.
int isochron_move_blocks(isochron_balancer_t *balancer,
                         const void *from,
                         const int64_t *from_bytes,
                         void *to,
                         const int64_t *to_bytes);

// Writes as JSON what the balancer has done, the same on every rank. Free it by isochron_free.
//
// "sweeps" counts the sweeps so far. "unusable" counts those that taught nothing, since a rank with units had no time above
// 0, and "last_unusable" is [rank, seconds] of the last one, or null. "changes" lists every change of the parts: the "sweep"
// after which it came, "why" ("saving", "drift", "retry" or "return"), the "units" of each rank, the seconds that the other sweeps were
// expected to save by it ("saving_s"), and those that moving was expected to take ("cost_s"). "drifts" lists every lasting
// change of a rank's speed: the rank ("part"), the sweep ("step"), and the "factor" by which its time grew. "moved" is
// [units, seconds]: the units that the busiest rank has sent and received, and the seconds of all moves.
//
// Collective: all ranks, between two sweeps.
//
// Safety: json is null or may be written.
int isochron_balancer_report(isochron_balancer_t *balancer,
                             const char **json);

// Writes what is known about the loop, for a checkpoint, and the number of its bytes to length. All ranks get the same.
// Free the state by isochron_free.
//
// Collective: all ranks, between two sweeps.
//
// Safety: state and length are null or may be written.
int isochron_state(isochron_balancer_t *balancer,
                   const void **state,
                   int64_t *length);

// Continues from a state of isochron_state, with the same parts and the same knowledge.
//
// Collective: all ranks of the session, with the same bytes.
//
// Safety: state is null or has length bytes, and balancer is null or may be written.
int isochron_restore(isochron_session_t *session,
                     const void *state,
                     int64_t length,
                     isochron_balancer_t **balancer);

// Closes a balancer.
//
// Safety: No call of it is under way.
int isochron_close_balancer(isochron_balancer_t *balancer);

// Divides the units of a loop over ranks that the program has without MPI. Settings and calls of the balancer are those of isochron_balancer,
// but isochron_move, which needs messages between two ranks: the program moves its data itself, and gives move_unit_s. group is copied.
// Close the balancer by isochron_close_balancer before the group ends.
//
// Collective: all ranks of the group, with the same units.
//
// Safety: group is null or points to a struct as long as its first field says, whose function may be called with its context until the balancer is
// closed; config is null or a string, and balancer is null or may be written.
int isochron_balancer_of_group(const isochron_group_t *group,
                               int64_t units,
                               const char *config,
                               isochron_balancer_t **balancer);

// Measures a kernel of the program with this rank's units, while all ranks do the same, each with its own number. They repeat in
// step, as long as one of them needs another repetition, since ranks that share a host slow each other down. The calling thread
// is bound to the first core of this rank's share of its host meanwhile, unless the host has fewer cores than ranks, or a CPU quota
// leaves only some of them. isochron_kernel.h describes kernels; when initialize is called, *context is params. config is null or settings, written as for isochron_open.
//
// | setting | ranks | meaning |
// |---|---|---|
// | min_reps, max_reps | same | fewest and most repetitions (default 3 and 20) |
// | confidence, precision | same | confidence of the interval (default 0.95), and the half-width at which repeating stops, as a part of the mean (default 0.025) |
// | max_seconds | same | seconds after which nothing is repeated (default 10); a run of twice as long is interrupted |
// | unbound | same | true leaves the thread where it may run, for kernels with several threads (default false) |
//
// 0 units give a point of 0 seconds and 0 repetitions.
//
// Collective: all ranks of the session, with the same settings.
//
// Safety: kernel is null or points to a kernel, whose functions may be called with these params; config is null or a string; point
// is null or points to a struct as long as its first field says.
int isochron_benchmark(isochron_session_t *session,
                       const isochron_kernel_t *kernel,
                       void *params,
                       int64_t units,
                       const char *config,
                       isochron_point_t *point);

// Begins to divide units over the ranks by benchmarks of a kernel of the program. Call isochron_partition_iterate until it
// says that it has ended. Without models (null and 0) the points of each rank make a model by the setting fit. With some, one
// for each rank, these divide. config is null or settings, written as for isochron_open: those of isochron_benchmark, and these.
//
// | setting | ranks | meaning |
// |---|---|---|
// | epsilon | same | imbalance of the times, beyond their noise, at which it ends (default 0.05) |
// | max_iterations | same | most divisions that are measured (default 10) |
// | fit | same | model made of the points: piecewise-speed (the default), piecewise-time, akima, raw-piecewise, cpm |
// | partitioner | same | gpa (the default) or npa |
// | granule | same | units are given in multiples of this, and the rest to one rank (default 1) |
//
// Close the partition by isochron_close_partition.
//
// Collective: all ranks of the session, with the same units, settings and number of models.
//
// Safety: config is null or a string; models is null or has n_models structs, whose functions may be called with their contexts until
// the partition is closed; partition is null or may be written.
int isochron_partition(isochron_session_t *session,
                       int64_t units,
                       const char *config,
                       const isochron_model_t *models,
                       int64_t n_models,
                       isochron_partition_t **partition);

// Measures the kernel with this rank's units of the next division, as isochron_benchmark does; updates the models, and divides
// anew. Writes 1 to ended if that was the last time, otherwise 0. After the end it does nothing. After a failure the next call
// measures the same division again.
//
// Collective: all ranks of the session.
//
// Safety: kernel and params are as for isochron_benchmark; ended is null or may be written.
int isochron_partition_iterate(isochron_partition_t *partition,
                               const isochron_kernel_t *kernel,
                               void *params,
                               int *ended);

// Writes the units of each rank and their seconds; seconds may be null. They are even and 0 before the first iteration, then of
// the division that was measured last, and after the end of the result. A rank without units has 0 seconds. The parts follow each other in the order of the
// ranks, so the first unit of a part is the sum of the numbers before its own.
//
// Safety: units and seconds are null or have n_ranks numbers.
int isochron_partition_units(const isochron_partition_t *partition,
                             int64_t *units,
                             double *seconds,
                             int64_t n_ranks);

// Closes a partition.
//
// Safety: No call of it is under way.
int isochron_close_partition(isochron_partition_t *partition);

// Measures the speed of each rank by a kernel of the program with each of some numbers of units, as isochron_benchmark does, and the
// network between the ranks, which takes at most about a second. The places of the platform are the ranks. It is the same on all of them. config is null or settings, those of
// isochron_benchmark. Close the platform by isochron_close_platform.
//
// Collective: all ranks of the session, with the same units and settings.
//
// Safety: kernel and params are as for isochron_benchmark; units is null or has n_units numbers; config is null or a string;
// platform is null or may be written.
int isochron_recon(isochron_session_t *session,
                   const isochron_kernel_t *kernel,
                   void *params,
                   const int64_t *units,
                   int64_t n_units,
                   const char *config,
                   isochron_platform_t **platform);

// Makes a platform of a platform file with a network, whose places are the nodes of the file. Each device has the model of its name in
// the folder models, or, if models is null, of the points file that the platform file names. A unit is one of the points files. Close it by
// isochron_close_platform.
//
// Not collective: it needs no session.
//
// Safety: path and models are null or strings, and platform is null or may be written.
int isochron_platform_of_file(const char *path,
                              const char *models,
                              isochron_platform_t **platform);

// Plans a multiplication of an m x k by a k x n matrix on the nodes of a platform file with a network, in every way that is compared, and writes
// the candidates by predicted seconds, but within 1 % fewest nodes first, and the plan of the first as JSON: the document of isochron plan --json. models is as for
// isochron_platform_of_file. config is null or settings, written as for isochron_open. Free the text by isochron_free.
//
// | setting | meaning |
// |---|---|
// | element | type of the elements (default f64) |
// | blocks | block sizes that are compared (default 32,64,128,256) |
// | explain | true: also what changes of the cluster would bring |
// | equal_ranks | true: also the best ranks for a program that gives all ranks equal parts |
//
// Not collective: it needs no session.
//
// Safety: path, models and config are null or strings, and json is null or may be written.
int isochron_search_plan(const char *path,
                         const char *models,
                         int64_t m,
                         int64_t n,
                         int64_t k,
                         const char *config,
                         const char **json);

// Predicts the run of an algorithm with its processes on these places, one for each process.
//
// Not collective.
//
// Safety: algorithm is null or points to a struct as long as its first field says, whose functions may be called with its context;
// places is null or has n_places numbers; predicted is null or points to a struct as long as its first field says.
int isochron_timeof(const isochron_platform_t *platform,
                    const isochron_algorithm_t *algorithm,
                    const int64_t *places,
                    int64_t n_places,
                    isochron_predicted_t *predicted);

// Chooses the algorithm of least predicted seconds, and the place of each of its processes: the first predicted->processes of places,
// which has room for n_places. Within 1 %, fewer processes win. An algorithm with more processes than the
// platform has places is left out. Writes the seconds of every algorithm at its best places; seconds may be null.
//
// Not collective, but all ranks choose alike if they give the same algorithms and have a platform of isochron_recon.
//
// Safety: algorithms is null or has n_algorithms structs, whose functions may be called with their contexts; places is null or has room
// for n_places numbers; predicted is null or points to a struct as long as its first field says; seconds is null or has room for
// n_algorithms numbers.
int isochron_choose(const isochron_platform_t *platform,
                    const isochron_algorithm_t *algorithms,
                    int64_t n_algorithms,
                    int64_t *places,
                    int64_t n_places,
                    isochron_predicted_t *predicted,
                    double *seconds);

// Closes a platform.
//
// Safety: No call of it is under way.
int isochron_close_platform(isochron_platform_t *platform);

// Makes a communicator of the ranks that are these places, such as the places of isochron_choose, in their order. comm is the number of their
// communicator in Fortran, as for isochron_open. group gets the number of a communicator, which the program frees; on the other ranks
// the number of MPI_COMM_NULL, and after a failure -1, which is no communicator. isochron_group_comm has an MPI_Comm in place of both.
//
// Collective: all ranks of comm, with the same places.
//
// Safety: The conditions of isochron_open for comm; places is null or has n_places numbers; group is null or may be written.
int isochron_group(int comm,
                   const int64_t *places,
                   int64_t n_places,
                   int *group);

// Lets a process do this percentage of its whole work. For the function scheme of an algorithm, as all isochron_scheme_... are.
int isochron_scheme_compute(isochron_scheme_t *order,
                            int64_t process,
                            double percent);

// Lets a process send this percentage of its bytes for another one, as one message.
int isochron_scheme_transfer(isochron_scheme_t *order, int64_t from, int64_t to, double percent);

// Begins actions that begin together: each is a branch, and so is each section of isochron_scheme_begin_repeat.
int isochron_scheme_begin_parallel(isochron_scheme_t *order);

// Begins actions that follow each other and are repeated, with the same percentages each time. A sequence is repeated once.
int isochron_scheme_begin_repeat(isochron_scheme_t *order,
                                 int64_t times);

// Ends the section that has begun last.
int isochron_scheme_end(isochron_scheme_t *order);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ISOCHRON_H */

#if defined(MPI_VERSION) && !defined(ISOCHRON_OPEN_COMM)
#define ISOCHRON_OPEN_COMM
/* The standard ABI of MPI has its own conversions, and so has the library that is built for it. */
#if defined(MPI_ABI_VERSION) && !defined(OPEN_MPI) && !defined(MPICH_NAME)
#define Isochron_to_int MPI_Comm_toint
#define Isochron_from_int MPI_Comm_fromint
#else
#define Isochron_to_int MPI_Comm_c2f
#define Isochron_from_int MPI_Comm_f2c
#endif

/* Opens a session as isochron_open does, for an MPI_Comm: mpi.h was included before this header. */
static inline int isochron_open_comm(MPI_Comm comm, const char *config, isochron_session_t **session)
{
  int begun = 0, ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  return isochron_open(begun && !ended ? (int)Isochron_to_int(comm) : 0, config, session);
}

/* Makes a group as isochron_group does, as an MPI_Comm: MPI_COMM_NULL on ranks that are free, and after a failure. */
static inline int isochron_group_comm(MPI_Comm comm, const int64_t *places, int64_t n_places, MPI_Comm *group)
{
  int begun = 0, ended = 0, number = 0, status;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  status = isochron_group(begun && !ended ? (int)Isochron_to_int(comm) : 0, places, n_places, group ? &number : 0);
  if (group)
    *group = status == ISOCHRON_OK ? Isochron_from_int(number) : MPI_COMM_NULL;
  return status;
}

#undef Isochron_to_int
#undef Isochron_from_int
#endif
