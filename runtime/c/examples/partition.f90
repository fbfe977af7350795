! Divides the columns of a matrix by benchmarks of its own kernel, from nothing, and adds them up: mpirun -n 3 partition.
module columns
  use isochron
  implicit none
  integer(c_int64_t), parameter :: n_rows = 1000
  real(c_double), allocatable :: numbers(:, :), sums(:)
contains
  function count_operations(d) result(operations) bind(c)
    integer(c_int64_t), value :: d
    real(c_double) :: operations
    operations = real(n_rows * d, c_double)
  end function

  ! Makes columns. They lie in the module: the context stays as it is, null.
  function make_columns(d, context) result(code) bind(c)
    integer(c_int64_t), value :: d
    type(c_ptr), intent(inout) :: context
    integer(c_int32_t) :: code
    integer :: error
    if (allocated(numbers)) deallocate (numbers)
    if (allocated(sums)) deallocate (sums)
    allocate (numbers(n_rows, d), sums(d), stat=error)
    code = merge(ISOCHRON_KERNEL_OK, ISOCHRON_KERNEL_NO_MEMORY, error == 0 .and. .not. c_associated(context))
    if (code == ISOCHRON_KERNEL_OK) numbers = 1
  end function

  function add_up(context, interrupted) result(code) bind(c)
    type(c_ptr), value :: context
    integer(c_int32_t), volatile :: interrupted
    integer(c_int32_t) :: code, col
    do col = 1, size(sums)
      if (interrupted /= 0 .or. c_associated(context)) exit
      sums(col) = sum(numbers(:, col))
    end do
    code = merge(ISOCHRON_KERNEL_OK, ISOCHRON_KERNEL_INTERRUPTED, col > size(sums))
  end function

  function free_columns(context) result(code) bind(c)
    type(c_ptr), value :: context
    integer(c_int32_t) :: code
    code = merge(1_c_int32_t, ISOCHRON_KERNEL_OK, c_associated(context))
    deallocate (numbers, sums)
  end function
end module

program partition
  use mpi
  use isochron
  use columns
  implicit none
  integer(c_int64_t), parameter :: n_cols = 3000
  integer :: rank, ranks, error, provided
  integer(c_int) :: ended
  integer(c_int32_t) :: code, never = 0
  integer(c_int64_t), allocatable :: units(:)
  real(c_double), allocatable :: seconds(:)
  type(c_ptr) :: session, parts, context
  type(isochron_kernel_t) :: kernel
  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  kernel = isochron_kernel_t(complexity=c_funloc(count_operations), initialize=c_funloc(make_columns), &
                             execute=c_funloc(add_up), finalize=c_funloc(free_columns))
  call check(isochron_open(MPI_COMM_WORLD, c_null_char, session))
  call check(isochron_partition(session, n_cols, "epsilon=0.1"//c_null_char, c_null_ptr, 0_c_int64_t, parts))
  ended = 0
  do while (ended == 0)
    call check(isochron_partition_iterate(parts, kernel, c_null_ptr, ended))
  end do
  allocate (units(ranks), seconds(ranks))
  call check(isochron_partition_units(parts, units, seconds, int(ranks, c_int64_t)))
  context = c_null_ptr
  code = make_columns(units(rank + 1), context)
  if (code == ISOCHRON_KERNEL_OK) code = add_up(context, never)
  if (code /= ISOCHRON_KERNEL_OK) call MPI_Abort(MPI_COMM_WORLD, 1, error)
  print '(3(a, i0))', "rank ", rank, " has ", size(sums), " columns, and their sum is ", int(sum(sums))
  call check(isochron_close_partition(parts))
  call check(isochron_close(session))
  call MPI_Finalize(error)
contains
  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status /= ISOCHRON_OK) print *, isochron_message()
    if (status /= ISOCHRON_OK) call MPI_Abort(MPI_COMM_WORLD, 1, error)
  end subroutine
end program
