! A stencil whose columns follow the speeds of the ranks: mpirun -n 3 stencil [SWEEPS].
! slow_rank.c makes the last rank four times slower, and prints the times; halo.f90 exchanges columns.
program stencil
  use mpi
  use isochron
  use slow_rank
  use halo
  implicit none
  integer(c_int64_t), parameter :: n_rows = 4000, n_cols = 1200, col_bytes = 8 * n_rows
  integer :: error, provided
  integer(c_int64_t) :: even
  type(c_ptr) :: session
  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, error)
  call read_words()
  call check(isochron_open(MPI_COMM_WORLD, c_null_char, session))
  even = run_sweeps(1)
  call compare_runs(even, run_sweeps(0))
  call check(isochron_close(session))
  call MPI_Finalize(error)
contains
  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status /= ISOCHRON_OK) print *, isochron_message()
    if (status /= ISOCHRON_OK) call MPI_Abort(MPI_COMM_WORLD, 1, error)
  end subroutine

  ! Runs all sweeps. Returns the sum of the cells' bits.
  function run_sweeps(is_even) result(bits)
    integer(c_int), intent(in) :: is_even
    integer(c_int64_t) :: bits, first, count, col
    integer(c_int) :: moved, sweep
    type(c_ptr) :: balancer, old
    real(c_double), pointer, contiguous :: cells(:, :), next(:, :), swap(:, :)
    allocate (cells(n_rows, 0:n_cols + 1), next(n_rows, 0:n_cols + 1), source=0.5_c_double)
    call check(isochron_balancer(session, n_cols, isochron_text(choose_settings(is_even))//c_null_char, balancer))
    call check(isochron_part(balancer, first, count))
    call begin_run(n_cols)
    do sweep = 1, count_sweeps()
      call check(exchange_borders(balancer, cells(:, first:first + count + 1), count))
      call begin_work()
      do col = first + 1, first + count
        next(2:n_rows - 1, col) = 0.25 * (cells(2:n_rows - 1, col - 1) + cells(2:n_rows - 1, col + 1) &
          + (cells(1:n_rows - 2, col) + cells(3:n_rows, col)))
      end do
      call check(isochron_record(balancer, count, end_work(count), 0))
      call check(isochron_balance(balancer, moved))
      swap => cells; cells => next; next => swap
      if (moved /= 0) then
        old = c_loc(cells(1, first + 1)) ! every column has its place
        call check(isochron_part(balancer, first, count))
        call check(isochron_move(balancer, old, c_loc(cells(1, first + 1)), col_bytes))
      end if
      call end_sweep(moved)
    end do
    bits = end_run(cells(:, first + 1:first + count), count * n_rows)
    call check(isochron_close_balancer(balancer))
    deallocate (cells, next)
  end function
end program
