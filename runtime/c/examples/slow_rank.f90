! The calls of slow_rank.h.
module slow_rank
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    subroutine set_words(sweeps, slow_from, granule, is_made_up) bind(c)
      import :: c_int
      integer(c_int), value :: sweeps, slow_from, granule, is_made_up
    end subroutine
    function count_sweeps() bind(c) result(sweeps)
      import :: c_int
      integer(c_int) :: sweeps
    end function
    function choose_settings(is_even) bind(c) result(settings)
      import :: c_int, c_ptr
      integer(c_int), value :: is_even
      type(c_ptr) :: settings
    end function
    subroutine begin_run(rows) bind(c)
      import :: c_int64_t
      integer(c_int64_t), value :: rows
    end subroutine
    subroutine begin_work() bind(c)
    end subroutine
    function end_work(rows) bind(c) result(seconds)
      import :: c_int64_t, c_double
      integer(c_int64_t), value :: rows
      real(c_double) :: seconds
    end function
    subroutine wait_quietly(n, messages) bind(c, name="wait_quietly_f")
      import :: c_int
      integer(c_int), value :: n
      integer(c_int), intent(inout) :: messages(*)
    end subroutine
    subroutine end_sweep(moved) bind(c)
      import :: c_int
      integer(c_int), value :: moved
    end subroutine
    function end_run(cells, n_cells) bind(c) result(sum)
      import :: c_int64_t, c_double
      real(c_double), intent(in) :: cells(*)
      integer(c_int64_t), value :: n_cells
      integer(c_int64_t) :: sum
    end function
    subroutine compare_runs(even, balanced) bind(c)
      import :: c_int64_t
      integer(c_int64_t), value :: even, balanced
    end subroutine
  end interface
contains
  ! Reads the command line as read_words does in C.
  subroutine read_words()
    integer(c_int) :: sweeps, slow_from, granule, is_made_up
    integer :: i
    character(len=100) :: word, before
    sweeps = 1000
    slow_from = 0
    granule = 1
    is_made_up = 0
    before = ""
    do i = 1, command_argument_count()
      call get_command_argument(i, word)
      if (word == "--made-up") then
        is_made_up = 1
      else if (before == "--slow-from") then
        read (word, *) slow_from
      else if (before == "--granule") then
        read (word, *) granule
      else if (word /= "--slow-from" .and. word /= "--granule") then
        read (word, *) sweeps
      end if
      before = word
    end do
    call set_words(sweeps, slow_from, granule, is_made_up)
  end subroutine
end module
