! A stencil whose columns follow the speeds of the ranks: mpirun -n 3 stencil [SETTINGS [SWEEPS]].
program stencil
  use mpi
  use isochron
  use slow_rank
  implicit none
  integer(c_int64_t), parameter :: n_rows = 1000, n_cols = 1200, col_bytes = 8 * n_rows
  integer :: rank, ranks, error, provided, sweep, sweeps = 1000, up, down
  integer(c_int64_t) :: first, count, col
  integer(c_int) :: changed
  type(c_ptr) :: session, balancer
  real(c_double), pointer, contiguous :: cells(:, :), next(:, :), swap(:, :)
  character(len=200) :: settings, words
  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  up = merge(rank - 1, MPI_PROC_NULL, rank > 0)
  down = merge(rank + 1, MPI_PROC_NULL, rank + 1 < ranks)
  call get_command_argument(1, settings)
  call get_command_argument(2, words)
  if (words /= "") read (words, *) sweeps
  allocate (cells(n_rows, 0:n_cols + 1), next(n_rows, 0:n_cols + 1), source=0.0_c_double)
  if (rank == 0) cells(:, 0) = 1.0 ! the plate is hot before its first column
  if (rank == 0) next(:, 0) = 1.0
  call check(isochron_open(MPI_COMM_WORLD, c_null_char, session))
  call check(isochron_balancer(session, n_cols, trim(settings)//c_null_char, balancer))
  call check(isochron_part(balancer, first, count))
  do sweep = 1, sweeps
    cells(:, count + 1) = 0.0 ! and cold after its last one
    call MPI_Sendrecv(cells(:, 1), int(n_rows), MPI_DOUBLE_PRECISION, up, 1, cells(:, count + 1), int(n_rows), &
      MPI_DOUBLE_PRECISION, down, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    call MPI_Sendrecv(cells(:, count), int(n_rows), MPI_DOUBLE_PRECISION, down, 2, cells(:, 0), int(n_rows), &
      MPI_DOUBLE_PRECISION, up, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, error)
    call begin_work()
    do col = 1, count
      next(2:n_rows - 1, col) = 0.25 * (cells(2:n_rows - 1, col - 1) + cells(2:n_rows - 1, col + 1) &
        + cells(1:n_rows - 2, col) + cells(3:n_rows, col))
    end do
    call check(isochron_record(balancer, count, end_work(count), 0))
    call check(isochron_balance(balancer, changed))
    if (changed /= 0) then
      call check(isochron_part(balancer, first, count))
      call check(isochron_move(balancer, c_loc(next(1, 1)), c_loc(cells(1, 1)), col_bytes))
    else
      swap => cells; cells => next; next => swap
    end if
    call end_sweep(changed)
  end do
  call print_run(cells(:, 1:count), count * n_rows)
  call check(isochron_close_balancer(balancer))
  call check(isochron_close(session))
  call MPI_Finalize(error)
contains
  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status /= ISOCHRON_OK) print *, isochron_message()
    if (status /= ISOCHRON_OK) call MPI_Abort(MPI_COMM_WORLD, 1, error)
  end subroutine
end program
