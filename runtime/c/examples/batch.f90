! Shares of a batch, whose samples are drawn anew for each step: none has to move. mpirun -n 3 batch.
! The last rank takes four times as long for a sample, by made-up times.
program batch
  use mpi
  use isochron
  implicit none
  integer :: error, provided, rank, ranks, step
  integer(c_int64_t) :: first, count
  integer(c_int) :: changed
  real(c_double) :: seconds
  type(c_ptr) :: session, balancer
  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call check(isochron_open(MPI_COMM_WORLD, c_null_char, session))
  call check(isochron_balancer(session, 900_c_int64_t, "sweeps=20 move_unit_s=0"//c_null_char, balancer))
  call check(isochron_part(balancer, first, count))
  do step = 1, 20
    seconds = merge(4d-3, 1d-3, rank == ranks - 1) * real(count, c_double) ! draw and compute count samples here
    call check(isochron_record(balancer, count, seconds, 0))
    call check(isochron_balance(balancer, changed))
    if (changed /= 0) call check(isochron_part(balancer, first, count))
  end do
  print "(a, i0, a, i0, a)", "rank ", rank, " has ", count, " of 900 samples"
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
