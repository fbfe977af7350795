! The calls of slow_rank.h.
module slow_rank
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    subroutine begin_work() bind(c)
    end subroutine
    function end_work(rows) bind(c) result(seconds)
      import :: c_int64_t, c_double
      integer(c_int64_t), value :: rows
      real(c_double) :: seconds
    end function
    subroutine end_sweep(moved) bind(c)
      import :: c_int
      integer(c_int), value :: moved
    end subroutine
    subroutine print_run(cells, n_cells) bind(c)
      import :: c_int64_t, c_double
      real(c_double), intent(in) :: cells(*)
      integer(c_int64_t), value :: n_cells
    end subroutine
  end interface
end module
