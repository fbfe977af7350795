! The columns around those of a rank.
module halo
  use mpi
  use isochron
  use slow_rank, only: wait_quietly
  implicit none
contains
  ! Takes the columns around this rank's from the ranks that have them; one without columns has no neighbours. The plate
  ! is hot before its first column and cold after its last. Returns the status of the call that finds the neighbours.
  function exchange_borders(balancer, cells, count) result(status)
    type(c_ptr), intent(in) :: balancer
    real(c_double), intent(inout), contiguous, asynchronous :: cells(:, 0:)
    integer(c_int64_t), intent(in) :: count
    integer(c_int) :: status, before, after
    integer :: n, messages(4), error
    n = size(cells, 1)
    status = isochron_neighbours(balancer, int(MPI_PROC_NULL, c_int), before, after)
    cells(2:n - 1, 0) = 1.0
    cells(2:n - 1, count + 1) = 0.0
    call MPI_Irecv(cells(:, count + 1), n, MPI_DOUBLE_PRECISION, after, 1, MPI_COMM_WORLD, messages(1), error)
    call MPI_Irecv(cells(:, 0), n, MPI_DOUBLE_PRECISION, before, 2, MPI_COMM_WORLD, messages(2), error)
    call MPI_Isend(cells(:, 1), n, MPI_DOUBLE_PRECISION, before, 1, MPI_COMM_WORLD, messages(3), error)
    call MPI_Isend(cells(:, count), n, MPI_DOUBLE_PRECISION, after, 2, MPI_COMM_WORLD, messages(4), error)
    call wait_quietly(4, messages)
  end function
end module
