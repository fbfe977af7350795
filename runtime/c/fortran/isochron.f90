! The C interface of Isochron for Fortran. Compile this file with your program: isochron.h describes the calls, and says which
! settings all ranks give alike.
!
! End texts that you pass with c_null_char. Calls return a status; isochron_message() explains that of the last one.
module isochron
  use, intrinsic :: iso_c_binding
  implicit none

  integer(c_int), parameter :: ISOCHRON_ABI_MAJOR = 0
  integer(c_int), parameter :: ISOCHRON_ABI_MINOR = 9

  integer(c_int), parameter :: ISOCHRON_OK = 0
  integer(c_int), parameter :: ISOCHRON_ARGUMENT = 1
  integer(c_int), parameter :: ISOCHRON_HANDLE = 2
  integer(c_int), parameter :: ISOCHRON_SETTING = 3
  integer(c_int), parameter :: ISOCHRON_INPUT = 4
  integer(c_int), parameter :: ISOCHRON_FAILED = 5
  integer(c_int), parameter :: ISOCHRON_INTERNAL = 6

  integer(c_int64_t), parameter :: ISOCHRON_ON_ONE = 0
  integer(c_int64_t), parameter :: ISOCHRON_BLOCK_CYCLIC = 1
  integer(c_int64_t), parameter :: ISOCHRON_RECTANGLES = 2
  integer(c_int64_t), parameter :: ISOCHRON_BLOCKS = 3
  integer(c_int64_t), parameter :: ISOCHRON_WORK = 0
  integer(c_int64_t), parameter :: ISOCHRON_SENDS = 1
  integer(c_int64_t), parameter :: ISOCHRON_RECEIVES = 2
  integer(c_int64_t), parameter :: ISOCHRON_UPLINK = 3

  integer(c_int), parameter :: ISOCHRON_F32 = 0
  integer(c_int), parameter :: ISOCHRON_F64 = 1
  integer(c_int), parameter :: ISOCHRON_C32 = 2
  integer(c_int), parameter :: ISOCHRON_C64 = 3

  integer(c_int), parameter :: ISOCHRON_IGNORE = 1
  integer(c_int), parameter :: ISOCHRON_MOVED = 2

  ! A matrix distributed over ranks, and this rank's memory for it.
  type, bind(c) :: isochron_matrix_t
    integer(c_int64_t) :: struct_size = 248
    integer(c_int64_t) :: kind = ISOCHRON_ON_ONE
    integer(c_int64_t) :: row_major = 0
    integer(c_int64_t) :: rows = 0
    integer(c_int64_t) :: cols = 0
    integer(c_int64_t) :: rank = 0
    integer(c_int64_t) :: row_block = 0
    integer(c_int64_t) :: col_block = 0
    integer(c_int64_t) :: row_source = 0
    integer(c_int64_t) :: col_source = 0
    integer(c_int64_t) :: grid_rows = 0
    integer(c_int64_t) :: grid_cols = 0
    integer(c_int64_t) :: grid_by_columns = 0
    type(c_ptr) :: rectangles = c_null_ptr
    integer(c_int64_t) :: block_rows = 0
    integer(c_int64_t) :: block_cols = 0
    type(c_ptr) :: row_cuts = c_null_ptr
    type(c_ptr) :: col_cuts = c_null_ptr
    type(c_ptr) :: owners = c_null_ptr
    type(c_ptr) :: data = c_null_ptr
    integer(c_int64_t) :: ld = 0
    integer(c_int64_t) :: n_blocks = 0
    type(c_ptr) :: blocks = c_null_ptr
    type(c_ptr) :: block_lds = c_null_ptr
    integer(c_int64_t) :: first_row_block = 0
    integer(c_int64_t) :: first_col_block = 0
    integer(c_int64_t) :: is_sub = 0
    integer(c_int64_t) :: sub_row = 0
    integer(c_int64_t) :: sub_col = 0
    integer(c_int64_t) :: sub_rows = 0
    integer(c_int64_t) :: sub_cols = 0
  end type

  ! Reports which matrices a product used in place, and the cost of moving the others on this rank.
  type, bind(c) :: isochron_last_run_t
    integer(c_int64_t) :: struct_size = 56
    integer(c_int64_t) :: a_in_place = 0
    integer(c_int64_t) :: b_in_place = 0
    integer(c_int64_t) :: c_in_place = 0
    integer(c_int64_t) :: messages = 0
    integer(c_int64_t) :: bytes = 0
    real(c_double) :: seconds = 0
  end type

  ! The measured times of a device, or of a rank's work in a loop.
  type, bind(c) :: isochron_times_t
    integer(c_int64_t) :: struct_size = 40
    integer(c_int64_t) :: n_points = 0
    type(c_ptr) :: units = c_null_ptr
    type(c_ptr) :: seconds = c_null_ptr
    integer(c_int64_t) :: max_units = 0
  end type

  integer(c_int32_t), parameter :: ISOCHRON_KERNEL_ABI = 1
  integer(c_int32_t), parameter :: ISOCHRON_KERNEL_OK = 0
  integer(c_int32_t), parameter :: ISOCHRON_KERNEL_INTERRUPTED = -1
  integer(c_int32_t), parameter :: ISOCHRON_KERNEL_NO_MEMORY = -2

  ! A kernel of the program, as isochron_kernel.h describes it. name: c_loc of a target that ends with c_null_char, or null.
  ! The others are c_funloc of functions with bind(c):
  !   complexity(d): integer(c_int64_t), value; the result is real(c_double)
  !   initialize(d, context): integer(c_int64_t), value, and type(c_ptr), intent(inout)
  !   execute(context, interrupted): type(c_ptr), value, and integer(c_int32_t), volatile
  !   finalize(context): type(c_ptr), value
  ! The results of these three are integer(c_int32_t): ISOCHRON_KERNEL_OK, or a failure.
  type, bind(c) :: isochron_kernel_t
    integer(c_int32_t) :: abi = ISOCHRON_KERNEL_ABI
    type(c_ptr) :: name = c_null_ptr
    type(c_funptr) :: complexity = c_null_funptr
    type(c_funptr) :: initialize = c_null_funptr
    type(c_funptr) :: execute = c_null_funptr
    type(c_funptr) :: finalize = c_null_funptr
  end type

  ! The measured time of a kernel.
  type, bind(c) :: isochron_point_t
    integer(c_int64_t) :: struct_size = 40
    integer(c_int64_t) :: units = 0
    real(c_double) :: seconds = 0
    integer(c_int64_t) :: repetitions = 0
    real(c_double) :: half_width_s = 0
  end type

  ! A model of a rank's time, of the program's own: c_funloc of functions with bind(c):
  !   time(context, units): type(c_ptr), value, and real(c_double), value; the result is real(c_double)
  !   update(context, point): type(c_ptr), value, and type(isochron_point_t), intent(in); the result is integer(c_int), 0 for success
  type, bind(c) :: isochron_model_t
    integer(c_int64_t) :: struct_size = 32
    type(c_funptr) :: time = c_null_funptr
    type(c_funptr) :: update = c_null_funptr
    type(c_ptr) :: context = c_null_ptr
  end type

  ! An algorithm of the program's own: c_funloc of functions with bind(c), whose numbers of processes are integer(c_int64_t), value, and
  ! count from 0:
  !   processes(context): type(c_ptr), value; the result is integer(c_int64_t)
  !   volume(context, process), size(context, process), bytes(context, from, to): the result is real(c_double)
  !   scheme(context, order): a subroutine; order is type(c_ptr), value, for the calls isochron_scheme_...
  ! size is c_null_funptr if it is the volume.
  type, bind(c) :: isochron_algorithm_t
    integer(c_int64_t) :: struct_size = 56
    type(c_funptr) :: processes = c_null_funptr
    type(c_funptr) :: volume = c_null_funptr
    type(c_funptr) :: size = c_null_funptr
    type(c_funptr) :: bytes = c_null_funptr
    type(c_funptr) :: scheme = c_null_funptr
    type(c_ptr) :: context = c_null_ptr
  end type

  ! Ranks that the program has without MPI.
  type, bind(c) :: isochron_group_t
    integer(c_int64_t) :: struct_size = 40
    integer(c_int64_t) :: rank = 0
    integer(c_int64_t) :: size = 1
    type(c_funptr) :: all_gather = c_null_funptr
    type(c_ptr) :: context = c_null_ptr
  end type

  ! A predicted run.
  type, bind(c) :: isochron_predicted_t
    integer(c_int64_t) :: struct_size = 88
    real(c_double) :: seconds = 0
    real(c_double) :: low_s = 0
    real(c_double) :: high_s = 0
    real(c_double) :: compute_s = 0
    integer(c_int64_t) :: slowest = 0
    integer(c_int64_t) :: binds = 0
    integer(c_int64_t) :: bound = 0
    integer(c_int64_t) :: processes = 0
    integer(c_int64_t) :: chosen = 0
    integer(c_int64_t) :: is_exact = 0
  end type

  interface
    function isochron_abi(major, minor) bind(c, name="isochron_abi") result(status)
      import :: c_int
      integer(c_int), intent(out) :: major, minor
      integer(c_int) :: status
    end function

    function isochron_strerror(status) bind(c, name="isochron_strerror") result(text)
      import :: c_int, c_ptr
      integer(c_int), value :: status
      type(c_ptr) :: text
    end function

    function isochron_last_error() bind(c, name="isochron_last_error") result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function

    function isochron_free(memory) bind(c, name="isochron_free") result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: memory
      integer(c_int) :: status
    end function

    ! comm: the communicator itself; with the module mpi_f08, comm%mpi_val.
    function isochron_open(comm, config, session) bind(c, name="isochron_open") result(status)
      import :: c_int, c_char, c_ptr
      integer(c_int), value :: comm
      character(kind=c_char), intent(in) :: config(*)
      type(c_ptr), intent(out) :: session
      integer(c_int) :: status
    end function

    function isochron_open_local(config, session) bind(c, name="isochron_open_local") result(status)
      import :: c_int, c_char, c_ptr
      character(kind=c_char), intent(in) :: config(*)
      type(c_ptr), intent(out) :: session
      integer(c_int) :: status
    end function

    function isochron_set(session, name, value) bind(c, name="isochron_set") result(status)
      import :: c_int, c_char, c_ptr
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: name(*), value(*)
      integer(c_int) :: status
    end function

    function isochron_get(session, name, text) bind(c, name="isochron_get") result(status)
      import :: c_int, c_char, c_ptr
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), intent(out) :: text
      integer(c_int) :: status
    end function

    function isochron_report(session, json) bind(c, name="isochron_report") result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: session
      type(c_ptr), intent(out) :: json
      integer(c_int) :: status
    end function

    function isochron_save_models(session) bind(c, name="isochron_save_models") result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: session
      integer(c_int) :: status
    end function

    function isochron_close(session) bind(c, name="isochron_close") result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: session
      integer(c_int) :: status
    end function

    ! alpha and beta: c_loc of a target of the elements' type.
    function isochron_gemm(session, kind, trans_a, trans_b, alpha, a, b, beta, c) &
        bind(c, name="isochron_gemm") result(status)
      import :: c_int, c_char, c_ptr, isochron_matrix_t
      type(c_ptr), value :: session
      integer(c_int), value :: kind
      character(kind=c_char), value :: trans_a, trans_b
      type(c_ptr), value :: alpha, beta
      type(isochron_matrix_t), intent(in) :: a, b, c
      integer(c_int) :: status
    end function

    function isochron_prepare(session, kind, trans_a, trans_b, a, b, c, product) &
        bind(c, name="isochron_prepare") result(status)
      import :: c_int, c_char, c_ptr, isochron_matrix_t
      type(c_ptr), value :: session
      integer(c_int), value :: kind
      character(kind=c_char), value :: trans_a, trans_b
      type(isochron_matrix_t), intent(in) :: a, b, c
      type(c_ptr), intent(out) :: product
      integer(c_int) :: status
    end function

    function isochron_run(product, alpha, a, b, beta, c) bind(c, name="isochron_run") result(status)
      import :: c_int, c_ptr, isochron_matrix_t
      type(c_ptr), value :: product, alpha, beta
      type(isochron_matrix_t), intent(in) :: a, b, c
      integer(c_int) :: status
    end function

    function isochron_last_run(session, run) bind(c, name="isochron_last_run") result(status)
      import :: c_int, c_ptr, isochron_last_run_t
      type(c_ptr), value :: session
      type(isochron_last_run_t), intent(inout) :: run
      integer(c_int) :: status
    end function

    function isochron_plan(product, json) bind(c, name="isochron_plan") result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: product
      type(c_ptr), intent(out) :: json
      integer(c_int) :: status
    end function

    function isochron_close_product(product) bind(c, name="isochron_close_product") result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: product
      integer(c_int) :: status
    end function

    ! The arguments by which ScaLAPACK takes a matrix. data: c_loc of the local array.
    function isochron_from_descriptor(descriptor, ia, ja, m, n, grid_rows, grid_cols, grid_by_columns, data, matrix) &
        bind(c, name="isochron_from_descriptor") result(status)
      import :: c_int, c_int64_t, c_ptr, isochron_matrix_t
      integer(c_int), intent(in) :: descriptor(9)
      integer(c_int64_t), value :: ia, ja, m, n, grid_rows, grid_cols, grid_by_columns
      type(c_ptr), value :: data
      type(isochron_matrix_t), intent(inout) :: matrix
      integer(c_int) :: status
    end function

    ! visit: c_funloc of a subroutine with bind(c) and the arguments context (type(c_ptr), value), row and col
    ! (integer(c_int64_t), value, counted from 0) and element (type(c_ptr), value).
    function isochron_elements(session, kind, matrix, visit, context) bind(c, name="isochron_elements") result(status)
      import :: c_int, c_ptr, c_funptr, isochron_matrix_t
      type(c_ptr), value :: session
      integer(c_int), value :: kind
      type(isochron_matrix_t), intent(in) :: matrix
      type(c_funptr), value :: visit
      type(c_ptr), value :: context
      integer(c_int) :: status
    end function

    ! times_s has room for n_devices numbers.
    function isochron_split(total, devices, n_devices, config, units, times_s) &
        bind(c, name="isochron_split") result(status)
      import :: c_int, c_int64_t, c_double, c_char, isochron_times_t
      integer(c_int64_t), value :: total, n_devices
      type(isochron_times_t), intent(in) :: devices(*)
      character(kind=c_char), intent(in) :: config(*)
      integer(c_int64_t), intent(out) :: units(*)
      real(c_double), intent(out) :: times_s(*)
      integer(c_int) :: status
    end function

    function isochron_balancer_by_times(session, units, config, mine, balancer) &
        bind(c, name="isochron_balancer_by_times") result(status)
      import :: c_int, c_int64_t, c_char, c_ptr, isochron_times_t
      type(c_ptr), value :: session
      integer(c_int64_t), value :: units
      character(kind=c_char), intent(in) :: config(*)
      type(isochron_times_t), intent(in) :: mine
      type(c_ptr), intent(out) :: balancer
      integer(c_int) :: status
    end function

    function isochron_balancer(session, units, config, balancer) bind(c, name="isochron_balancer") result(status)
      import :: c_int, c_int64_t, c_char, c_ptr
      type(c_ptr), value :: session
      integer(c_int64_t), value :: units
      character(kind=c_char), intent(in) :: config(*)
      type(c_ptr), intent(out) :: balancer
      integer(c_int) :: status
    end function

    function isochron_balancer_of_group(group, units, config, balancer) &
        bind(c, name="isochron_balancer_of_group") result(status)
      import :: c_int, c_int64_t, c_char, c_ptr, isochron_group_t
      type(isochron_group_t), intent(in) :: group
      integer(c_int64_t), value :: units
      character(kind=c_char), intent(in) :: config(*)
      type(c_ptr), intent(out) :: balancer
      integer(c_int) :: status
    end function

    function isochron_measure_move_unit_s(session, bytes_per_unit, seconds) &
        bind(c, name="isochron_measure_move_unit_s") result(status)
      import :: c_int, c_int64_t, c_double, c_ptr
      type(c_ptr), value :: session
      integer(c_int64_t), value :: bytes_per_unit
      real(c_double), intent(out) :: seconds
      integer(c_int) :: status
    end function

    ! first counts from 0.
    function isochron_part(balancer, first, count) bind(c, name="isochron_part") result(status)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: balancer
      integer(c_int64_t), intent(out) :: first, count
      integer(c_int) :: status
    end function

    function isochron_neighbours(balancer, none, before, after) bind(c, name="isochron_neighbours") result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: balancer
      integer(c_int), value :: none
      integer(c_int), intent(out) :: before, after
      integer(c_int) :: status
    end function

    function isochron_begin(balancer) bind(c, name="isochron_begin") result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: balancer
      integer(c_int) :: status
    end function

    function isochron_end(balancer) bind(c, name="isochron_end") result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: balancer
      integer(c_int) :: status
    end function

    function isochron_record(balancer, units, seconds, flags) bind(c, name="isochron_record") result(status)
      import :: c_int, c_int64_t, c_double, c_ptr
      type(c_ptr), value :: balancer
      integer(c_int64_t), value :: units
      real(c_double), value :: seconds
      integer(c_int), value :: flags
      integer(c_int) :: status
    end function

    function isochron_balance(balancer, changed) bind(c, name="isochron_balance") result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: balancer
      integer(c_int), intent(out) :: changed
      integer(c_int) :: status
    end function

    function isochron_shares(balancer, shares, n_shares) bind(c, name="isochron_shares") result(status)
      import :: c_int, c_int64_t, c_double, c_ptr
      type(c_ptr), value :: balancer
      real(c_double), intent(out) :: shares(*)
      integer(c_int64_t), value :: n_shares
      integer(c_int) :: status
    end function

    ! units has room for n_units numbers, one for each rank.
    function isochron_units(balancer, units, n_units) bind(c, name="isochron_units") result(status)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: balancer
      integer(c_int64_t), intent(out) :: units(*)
      integer(c_int64_t), value :: n_units
      integer(c_int) :: status
    end function

    ! from and to: c_loc of the first element of contiguous arrays.
    function isochron_move(balancer, from, to, bytes_per_unit) bind(c, name="isochron_move") result(status)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: balancer, from, to
      integer(c_int64_t), value :: bytes_per_unit
      integer(c_int) :: status
    end function

    function isochron_move_blocks(balancer, from, from_bytes, to, to_bytes) &
        bind(c, name="isochron_move_blocks") result(status)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: balancer, from, to
      integer(c_int64_t), intent(in) :: from_bytes(*), to_bytes(*)
      integer(c_int) :: status
    end function

    function isochron_balancer_report(balancer, json) bind(c, name="isochron_balancer_report") result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: balancer
      type(c_ptr), intent(out) :: json
      integer(c_int) :: status
    end function

    function isochron_state(balancer, state, length) bind(c, name="isochron_state") result(status)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: balancer
      type(c_ptr), intent(out) :: state
      integer(c_int64_t), intent(out) :: length
      integer(c_int) :: status
    end function

    function isochron_restore(session, state, length, balancer) bind(c, name="isochron_restore") result(status)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: session, state
      integer(c_int64_t), value :: length
      type(c_ptr), intent(out) :: balancer
      integer(c_int) :: status
    end function

    function isochron_close_balancer(balancer) bind(c, name="isochron_close_balancer") result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: balancer
      integer(c_int) :: status
    end function

    ! initialize finds params in its context.
    function isochron_benchmark(session, kernel, params, units, config, point) &
        bind(c, name="isochron_benchmark") result(status)
      import :: c_int, c_int64_t, c_char, c_ptr, isochron_kernel_t, isochron_point_t
      type(c_ptr), value :: session, params
      type(isochron_kernel_t), intent(in) :: kernel
      integer(c_int64_t), value :: units
      character(kind=c_char), intent(in) :: config(*)
      type(isochron_point_t), intent(inout) :: point
      integer(c_int) :: status
    end function

    ! models: c_loc of an array of isochron_model_t, one for each rank, or c_null_ptr with n_models 0.
    function isochron_partition(session, units, config, models, n_models, partition) &
        bind(c, name="isochron_partition") result(status)
      import :: c_int, c_int64_t, c_char, c_ptr
      type(c_ptr), value :: session, models
      integer(c_int64_t), value :: units, n_models
      character(kind=c_char), intent(in) :: config(*)
      type(c_ptr), intent(out) :: partition
      integer(c_int) :: status
    end function

    function isochron_partition_iterate(partition, kernel, params, ended) &
        bind(c, name="isochron_partition_iterate") result(status)
      import :: c_int, c_ptr, isochron_kernel_t
      type(c_ptr), value :: partition, params
      type(isochron_kernel_t), intent(in) :: kernel
      integer(c_int), intent(out) :: ended
      integer(c_int) :: status
    end function

    ! units and seconds have room for n_ranks numbers, one for each rank.
    function isochron_partition_units(partition, units, seconds, n_ranks) &
        bind(c, name="isochron_partition_units") result(status)
      import :: c_int, c_int64_t, c_double, c_ptr
      type(c_ptr), value :: partition
      integer(c_int64_t), intent(out) :: units(*)
      real(c_double), intent(out) :: seconds(*)
      integer(c_int64_t), value :: n_ranks
      integer(c_int) :: status
    end function

    function isochron_close_partition(partition) bind(c, name="isochron_close_partition") result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: partition
      integer(c_int) :: status
    end function

    function isochron_recon(session, kernel, params, units, n_units, config, platform) &
        bind(c, name="isochron_recon") result(status)
      import :: c_int, c_int64_t, c_char, c_ptr, isochron_kernel_t
      type(c_ptr), value :: session, params
      type(isochron_kernel_t), intent(in) :: kernel
      integer(c_int64_t), intent(in) :: units(*)
      integer(c_int64_t), value :: n_units
      character(kind=c_char), intent(in) :: config(*)
      type(c_ptr), intent(out) :: platform
      integer(c_int) :: status
    end function

    ! models is c_null_char if the platform file names the points.
    function isochron_platform_of_file(path, models, platform) bind(c, name="isochron_platform_of_file") result(status)
      import :: c_int, c_char, c_ptr
      character(kind=c_char), intent(in) :: path(*), models(*)
      type(c_ptr), intent(out) :: platform
      integer(c_int) :: status
    end function

    function isochron_search_plan(path, models, m, n, k, config, json) bind(c, name="isochron_search_plan") result(status)
      import :: c_int, c_int64_t, c_char, c_ptr
      character(kind=c_char), intent(in) :: path(*), models(*), config(*)
      integer(c_int64_t), value :: m, n, k
      type(c_ptr), intent(out) :: json
      integer(c_int) :: status
    end function

    function isochron_timeof(platform, algorithm, places, n_places, predicted) &
        bind(c, name="isochron_timeof") result(status)
      import :: c_int, c_int64_t, c_ptr, isochron_algorithm_t, isochron_predicted_t
      type(c_ptr), value :: platform
      type(isochron_algorithm_t), intent(in) :: algorithm
      integer(c_int64_t), intent(in) :: places(*)
      integer(c_int64_t), value :: n_places
      type(isochron_predicted_t), intent(inout) :: predicted
      integer(c_int) :: status
    end function

    ! places has room for n_places numbers, and seconds for n_algorithms.
    function isochron_choose(platform, algorithms, n_algorithms, places, n_places, predicted, seconds) &
        bind(c, name="isochron_choose") result(status)
      import :: c_int, c_int64_t, c_double, c_ptr, isochron_algorithm_t, isochron_predicted_t
      type(c_ptr), value :: platform
      type(isochron_algorithm_t), intent(in) :: algorithms(*)
      integer(c_int64_t), value :: n_algorithms, n_places
      integer(c_int64_t), intent(inout) :: places(*)
      type(isochron_predicted_t), intent(inout) :: predicted
      real(c_double), intent(out) :: seconds(*)
      integer(c_int) :: status
    end function

    function isochron_close_platform(platform) bind(c, name="isochron_close_platform") result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: platform
      integer(c_int) :: status
    end function

    ! comm and group: communicators themselves; with the module mpi_f08, their mpi_val.
    function isochron_group(comm, places, n_places, group) bind(c, name="isochron_group") result(status)
      import :: c_int, c_int64_t
      integer(c_int), value :: comm
      integer(c_int64_t), intent(in) :: places(*)
      integer(c_int64_t), value :: n_places
      integer(c_int), intent(out) :: group
      integer(c_int) :: status
    end function

    function isochron_scheme_compute(order, process, percent) bind(c, name="isochron_scheme_compute") result(status)
      import :: c_int, c_int64_t, c_double, c_ptr
      type(c_ptr), value :: order
      integer(c_int64_t), value :: process
      real(c_double), value :: percent
      integer(c_int) :: status
    end function

    function isochron_scheme_transfer(order, from, to, percent) bind(c, name="isochron_scheme_transfer") result(status)
      import :: c_int, c_int64_t, c_double, c_ptr
      type(c_ptr), value :: order
      integer(c_int64_t), value :: from, to
      real(c_double), value :: percent
      integer(c_int) :: status
    end function

    function isochron_scheme_begin_parallel(order) bind(c, name="isochron_scheme_begin_parallel") result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: order
      integer(c_int) :: status
    end function

    function isochron_scheme_begin_repeat(order, times) bind(c, name="isochron_scheme_begin_repeat") result(status)
      import :: c_int, c_int64_t, c_ptr
      type(c_ptr), value :: order
      integer(c_int64_t), value :: times
      integer(c_int) :: status
    end function

    function isochron_scheme_end(order) bind(c, name="isochron_scheme_end") result(status)
      import :: c_int, c_ptr
      type(c_ptr), value :: order
      integer(c_int) :: status
    end function

    function find_text_length(text) bind(c, name="strlen") result(length)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
      integer(c_size_t) :: length
    end function
  end interface

  private :: find_text_length

contains

  ! Returns a text that a call has written; an empty one for a null pointer.
  function isochron_text(text) result(copy)
    type(c_ptr), intent(in) :: text
    character(kind=c_char, len=:), allocatable :: copy
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    if (.not. c_associated(text)) then
      copy = ""
      return
    end if
    call c_f_pointer(text, letters, [find_text_length(text)])
    allocate (character(kind=c_char, len=size(letters)) :: copy)
    do i = 1, size(letters)
      copy(i:i) = letters(i)
    end do
  end function

  ! Returns the sentence of the last call on this thread.
  function isochron_message() result(sentence)
    character(kind=c_char, len=:), allocatable :: sentence
    sentence = isochron_text(isochron_last_error())
  end function
end module
