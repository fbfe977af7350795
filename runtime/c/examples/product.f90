! Multiplies two matrices of the first rank: mpirun -n 2 product.
program product
  use mpi
  use isochron
  implicit none
  integer, parameter :: n = 100
  integer :: rank, error, provided
  type(c_ptr) :: session
  type(isochron_matrix_t) :: a, b, c
  real(c_double), target :: one = 1.0, zero = 0.0
  real(c_double), target, allocatable :: memory(:, :, :)
  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  allocate (memory(n, n, 3), source=1.0_c_double)
  a%kind = ISOCHRON_ON_ONE
  a%rows = n
  a%cols = n
  a%ld = n
  b = a
  c = a
  a%data = c_loc(memory(:, :, 1))
  b%data = c_loc(memory(:, :, 2))
  c%data = c_loc(memory(:, :, 3))
  call check(isochron_open(MPI_COMM_WORLD, c_null_char, session))
  call check(isochron_gemm(session, ISOCHRON_F64, 'N', 'N', c_loc(one), a, b, c_loc(zero), c))
  if (rank == 0) print '(a, f0.0)', "each element of C is ", memory(1, 1, 3)
  call check(isochron_close(session))
  call MPI_Finalize(error)
contains
  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status /= ISOCHRON_OK) print *, isochron_message()
    if (status /= ISOCHRON_OK) call MPI_Abort(MPI_COMM_WORLD, 1, error)
  end subroutine
end program
