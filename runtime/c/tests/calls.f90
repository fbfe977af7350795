! Calls everything that the Fortran module declares, and checks the answers: mpirun -n 3 calls.
program calls
  use mpi
  use isochron
  implicit none
  integer(c_int64_t), parameter :: units = 60, bytes = 8
  character(*), parameter :: settings = "blas=embedded grouping=node strategy=homogeneous host_scope=comm"//c_null_char
  integer :: rank, error, provided
  type(c_ptr) :: session
  call MPI_Init_thread(MPI_THREAD_FUNNELED, provided, error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call try_texts()
  call check(isochron_open(MPI_COMM_WORLD, settings, session))
  call try_settings()
  call try_products()
  call try_splits()
  call try_loops()
  call try_own_group()
  call try_partitions()
  call try_predictions()
  call check(isochron_save_models(session))
  call check(isochron_close(session))
  if (rank == 0) print '(a)', "all calls are right"
  call MPI_Finalize(error)

contains

  ! Ends the job if a call has failed.
  subroutine check(status)
    integer(c_int), intent(in) :: status
    if (status /= ISOCHRON_OK) print '(a)', isochron_message()
    if (status /= ISOCHRON_OK) call MPI_Abort(MPI_COMM_WORLD, 1, error)
  end subroutine

  ! Ends the job if a property does not hold.
  subroutine expect(what, holds)
    character(*), intent(in) :: what
    logical, intent(in) :: holds
    if (.not. holds) print '(i0, 2a)', rank, ": ", what
    if (.not. holds) call MPI_Abort(MPI_COMM_WORLD, 1, error)
  end subroutine

  subroutine try_texts()
    integer(c_int) :: major, minor
    type(c_ptr) :: alone
    call check(isochron_abi(major, minor))
    call expect("the version", major == ISOCHRON_ABI_MAJOR .and. minor == ISOCHRON_ABI_MINOR)
    call expect("the text of a status", isochron_text(isochron_strerror(ISOCHRON_OK)) == "no error")
    call expect("a text that is null", len(isochron_text(c_null_ptr)) == 0)
    call check(isochron_open_local(settings, alone))
    call check(isochron_close(alone))
    call expect("a closed session", isochron_close(alone) == ISOCHRON_HANDLE)
    call expect("a sentence", isochron_message() == isochron_text(isochron_last_error()))
  end subroutine

  subroutine try_settings()
    type(c_ptr) :: text
    call check(isochron_set(session, "block"//c_null_char, "4"//c_null_char))
    call check(isochron_get(session, "block"//c_null_char, text))
    call expect("a setting", isochron_text(text) == "4")
    call check(isochron_free(text))
    call expect("a wrong name", isochron_get(session, "blok"//c_null_char, text) == ISOCHRON_SETTING)
    call expect("the text of a wrong name", len(isochron_text(text)) == 0)
  end subroutine

  ! A product of matrices of the first rank, planned once and run twice.
  subroutine try_products()
    integer, parameter :: n = 12
    type(isochron_matrix_t) :: a, b, c
    type(isochron_last_run_t) :: run
    type(c_ptr) :: product, plan, report
    complex(c_double), target :: one = (1.0, 0.0), zero = (0.0, 0.0), memory(n, n, 3)
    memory = (0.0, 1.0)
    a = isochron_matrix_t(kind=ISOCHRON_ON_ONE, rows=n, cols=n, ld=n, data=c_loc(memory))
    b = isochron_matrix_t(kind=ISOCHRON_ON_ONE, rows=n, cols=n, ld=n, data=c_loc(memory(1, 1, 2)))
    c = isochron_matrix_t(kind=ISOCHRON_ON_ONE, rows=n, cols=n, ld=n, data=c_loc(memory(1, 1, 3)))
    call expect("the size of a matrix", a%struct_size == c_sizeof(a))
    call expect("the size of a run", run%struct_size == c_sizeof(run))
    call check(isochron_prepare(session, ISOCHRON_C64, 'C', 'N', a, b, c, product))
    call check(isochron_run(product, c_loc(one), a, b, c_loc(zero), c))
    call check(isochron_run(product, c_loc(one), a, b, c_loc(one), c))
    if (rank == 0) call expect("the product", all(abs(memory(:, :, 3) - 2 * n) < 1e-12))
    call check(isochron_gemm(session, ISOCHRON_C64, 'T', 'N', c_loc(one), a, b, c_loc(one), c))
    if (rank == 0) call expect("a product at once", all(abs(memory(:, :, 3) - n) < 1e-12))
    call check(isochron_last_run(session, run))
    call expect("a run in order", run%a_in_place <= 1 .and. run%messages >= 0 .and. run%bytes >= 0 .and. run%seconds >= 0)
    call check(isochron_plan(product, plan))
    call expect("the plan", index(isochron_text(plan), '"schema"') > 0)
    call check(isochron_report(session, report))
    call expect("the report", index(isochron_text(report), '"gflops"') > 0)
    call check(isochron_free(plan))
    call check(isochron_free(report))
    call check(isochron_close_product(product))
    call try_submatrix()
  end subroutine

  ! The rows 3 to 8 of columns 2 to 6 of a matrix in blocks of 2, as ScaLAPACK describes it: each rank has some columns.
  subroutine try_submatrix()
    integer, parameter :: n = 12
    integer(c_int) :: descriptor(9) = [1, 0, n, n, 2, 2, 0, 1, n]
    type(isochron_matrix_t) :: matrix
    integer(c_int), target :: n_elements, total
    real(c_double), target :: local(n, n)
    integer :: ierr
    local = -1
    n_elements = 0
    call check(isochron_from_descriptor(descriptor, 3_c_int64_t, 2_c_int64_t, 6_c_int64_t, 5_c_int64_t, &
                                        1_c_int64_t, 3_c_int64_t, 0_c_int64_t, c_loc(local), matrix))
    call check(isochron_elements(session, ISOCHRON_F64, matrix, c_funloc(count_element), c_loc(n_elements)))
    call MPI_Allreduce(n_elements, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    call expect("the elements of all ranks", total == 30)
    call expect("the elements of this rank", count(local >= 0) == n_elements .and. count(local(3:8, :) >= 0) == n_elements)
  end subroutine

  subroutine count_element(context, row, col, element) bind(c)
    type(c_ptr), value :: context, element
    integer(c_int64_t), value :: row, col
    integer(c_int), pointer :: n_elements
    real(c_double), pointer :: number
    call c_f_pointer(context, n_elements)
    call c_f_pointer(element, number)
    n_elements = n_elements + 1
    number = 10 * row + col
  end subroutine

  ! Units divided by times, and a loop of such times, in which a rank has 20 units or 100.
  subroutine try_splits()
    integer(c_int64_t), target :: sizes(2) = [20, 100]
    real(c_double), target :: slow(2) = [0.2_c_double, 1.0_c_double], fast(2) = [0.1_c_double, 0.5_c_double]
    type(isochron_times_t) :: devices(2)
    integer(c_int64_t) :: parts(2), first, count
    real(c_double) :: seconds(2)
    type(c_ptr) :: balancer
    devices(1) = isochron_times_t(n_points=2, units=c_loc(sizes), seconds=c_loc(slow))
    devices(2) = isochron_times_t(n_points=2, units=c_loc(sizes), seconds=c_loc(fast), max_units=70)
    call expect("the size of times", devices(1)%struct_size == c_sizeof(devices(1)))
    call check(isochron_split(units, devices, 2_c_int64_t, c_null_char, parts, seconds))
    call expect("the parts", all(parts == [20, 40]) .and. all(abs(seconds - 0.2_c_double) < 1e-6))
    call check(isochron_split(2 * units, devices, 2_c_int64_t, c_null_char, parts, seconds))
    call expect("the limit", all(parts == [50, 70]))
    call check(isochron_balancer_by_times(session, units, c_null_char, devices(1), balancer))
    call check(isochron_part(balancer, first, count))
    call expect("a part of times", first == 20 * rank .and. count == 20)
    call check(isochron_close_balancer(balancer))
  end subroutine

  ! Rows and blocks follow the speeds of the ranks, of which the last one is slow.
  subroutine try_loops()
    type(c_ptr) :: balancer, restored, state, report
    integer(c_int64_t), target :: rows(units), new_rows(units), lengths(units), new_lengths(units)
    integer(c_int64_t), target :: blocks(3 * units), new_blocks(3 * units), places(units)
    integer(c_int64_t) :: first, count, before_first, length, parts(2), all_units(3)
    integer(c_int) :: changed, before, after
    integer :: sweep, n_moves
    real(c_double) :: shares(3), move_s
    call check(isochron_measure_move_unit_s(session, bytes, move_s))
    call expect("the time of a move", move_s > 0 .and. move_s < 1)
    call check(isochron_balancer(session, units, "check_every=1 warm_up=0 move_unit_s=0"//c_null_char, balancer))
    call check(isochron_part(balancer, first, count))
    call list_blocks(first, count, rows, lengths, blocks)
    places = 0
    places(first + 1:first + count) = rows(:count)
    n_moves = 0
    do sweep = 1, 40
      call check(isochron_begin(balancer))
      call check(isochron_end(balancer))
      call check(isochron_record(balancer, count, count * merge(4.0_c_double, 1.0_c_double, rank == 2), 0_c_int))
      if (sweep == 7) call check(isochron_record(balancer, count, 1.0_c_double, ISOCHRON_IGNORE))
      call check(isochron_balance(balancer, changed))
      if (changed == 0) cycle
      n_moves = n_moves + 1
      call check(isochron_move(balancer, c_loc(rows), c_loc(new_rows), bytes))
      call check(isochron_move(balancer, c_loc(lengths), c_loc(new_lengths), bytes))
      call check(isochron_move_blocks(balancer, c_loc(blocks), lengths, c_loc(new_blocks), new_lengths))
      call check(isochron_record(balancer, 0_c_int64_t, 0.0_c_double, ISOCHRON_MOVED))
      before_first = first
      call check(isochron_part(balancer, first, count))
      call check(isochron_move(balancer, c_loc(places(before_first + 1)), c_loc(places(first + 1)), bytes))
      call list_blocks(first, count, rows, lengths, blocks)
      call expect("rows in their places", all(places(first + 1:first + count) == rows(:count)))
      length = sum(lengths(:count)) / bytes
      call expect("rows that moved", all(rows(:count) == new_rows(:count)) .and. all(lengths(:count) == new_lengths(:count)))
      call expect("blocks that moved", all(blocks(:length) == new_blocks(:length)))
    end do
    call expect("moves", n_moves > 0)
    call check(isochron_shares(balancer, shares, 3_c_int64_t))
    call expect("the shares", abs(sum(shares) - 1) < 1e-12 .and. abs(units * shares(rank + 1) - count) < 1e-9)
    call check(isochron_units(balancer, all_units, 3_c_int64_t))
    call expect("the units of all ranks", sum(all_units) == units .and. all_units(rank + 1) == count)
    call check(isochron_balancer_report(balancer, report))
    call expect("the report of a loop", index(isochron_text(report), '"why":"saving"') > 0)
    call check(isochron_free(report))
    call check(isochron_neighbours(balancer, int(MPI_PROC_NULL, c_int), before, after))
    call expect("the ranks beside", before == merge(MPI_PROC_NULL, rank - 1, rank == 0) .and. &
                after == merge(MPI_PROC_NULL, rank + 1, rank == 2))
    call check(isochron_state(balancer, state, length))
    call check(isochron_restore(session, state, length, restored))
    call check(isochron_part(restored, parts(1), parts(2)))
    call expect("the restored part", all(parts == [first, count]))
    call check(isochron_free(state))
    call check(isochron_close_balancer(restored))
    call check(isochron_close_balancer(balancer))
  end subroutine

  ! Models divide: the kernel's own times are those of hardly any work.
  subroutine try_partitions()
    type(isochron_kernel_t) :: kernel
    type(isochron_model_t), target :: models(3)
    type(isochron_point_t) :: point
    integer(c_int64_t), target :: limit, shares(3) = [10, 20, 30]
    integer(c_int64_t) :: all_units(3)
    real(c_double) :: seconds(3)
    integer(c_int) :: ended
    type(c_ptr) :: partition
    integer :: i
    call expect("the size of a point", point%struct_size == c_sizeof(point))
    call expect("the size of a model", models(1)%struct_size == c_sizeof(models(1)))
    kernel = isochron_kernel_t(complexity=c_funloc(count_work), initialize=c_funloc(begin_work), &
                               execute=c_funloc(do_work), finalize=c_funloc(end_work))
    do i = 1, 3
      models(i) = isochron_model_t(time=c_funloc(tell_time), update=c_funloc(take_point), context=c_loc(shares(i)))
    end do
    limit = merge(10, 60, rank == 0)
    call check(isochron_benchmark(session, kernel, c_loc(limit), 5_c_int64_t, "min_reps=2 max_reps=2"//c_null_char, point))
    call expect("a point", point%units == 5 .and. point%seconds > 0 .and. point%repetitions > 0 .and. point%half_width_s >= 0)
    ! The even division takes the first rank too long.
    call check(isochron_partition(session, units, "max_seconds=0.2"//c_null_char, c_loc(models), 3_c_int64_t, partition))
    call check(isochron_partition_iterate(partition, kernel, c_loc(limit), ended))
    call expect("it goes on", ended == 0)
    call check(isochron_partition_iterate(partition, kernel, c_loc(limit), ended))
    call expect("the end", ended == 1)
    call check(isochron_partition_units(partition, all_units, seconds, 3_c_int64_t))
    call expect("the units of the models", all(all_units == shares) .and. all(seconds > 0))
    call check(isochron_close_partition(partition))
  end subroutine

  function count_work(d) result(work) bind(c)
    integer(c_int64_t), value :: d
    real(c_double) :: work
    work = real(d, c_double)
  end function

  ! The context has the most units that end by themselves, and gets 1 if there are more.
  function begin_work(d, context) result(code) bind(c)
    integer(c_int64_t), value :: d
    type(c_ptr), intent(inout) :: context
    integer(c_int32_t) :: code
    integer(c_int64_t), pointer :: limit
    call c_f_pointer(context, limit)
    if (d <= limit) context = c_null_ptr
    code = ISOCHRON_KERNEL_OK
  end function

  function do_work(context, interrupted) result(code) bind(c)
    type(c_ptr), value :: context
    integer(c_int32_t), volatile :: interrupted
    integer(c_int32_t) :: code
    real(c_double), volatile :: work
    integer :: i
    do i = 1, 1000
      work = i
    end do
    do while (c_associated(context) .and. interrupted == 0)
      work = interrupted
    end do
    code = merge(ISOCHRON_KERNEL_INTERRUPTED, ISOCHRON_KERNEL_OK, c_associated(context))
  end function

  function end_work(context) result(code) bind(c)
    type(c_ptr), value :: context
    integer(c_int32_t) :: code
    code = merge(ISOCHRON_KERNEL_OK, ISOCHRON_KERNEL_OK, c_associated(context))
  end function

  function tell_time(context, x) result(seconds) bind(c)
    type(c_ptr), value :: context
    real(c_double), value :: x
    real(c_double) :: seconds
    integer(c_int64_t), pointer :: share
    call c_f_pointer(context, share)
    seconds = x / share
  end function

  function take_point(context, point) result(code) bind(c)
    type(c_ptr), value :: context
    type(isochron_point_t), intent(in) :: point
    integer(c_int) :: code
    code = merge(0, 1, c_associated(context) .and. point%units > 0 .and. point%seconds > 0)
  end function

  ! Each of two processes works, the first hands on to the second, and the one from the last rank on is the first of a group.
  subroutine try_predictions()
    type(isochron_kernel_t) :: kernel
    type(isochron_algorithm_t) :: pair(1)
    type(isochron_predicted_t) :: predicted, chosen
    integer(c_int64_t), target :: limit = 60
    integer(c_int64_t) :: places(3) = [2, 0, 1]
    real(c_double) :: seconds(1)
    type(c_ptr) :: platform, nothing
    integer(c_int) :: group
    integer :: group_rank, group_size
    call expect("the size of an algorithm", pair(1)%struct_size == c_sizeof(pair(1)))
    call expect("the size of a prediction", predicted%struct_size == c_sizeof(predicted))
    kernel = isochron_kernel_t(complexity=c_funloc(count_work), initialize=c_funloc(begin_work), &
                               execute=c_funloc(do_work), finalize=c_funloc(end_work))
    pair(1) = isochron_algorithm_t(processes=c_funloc(count_two), volume=c_funloc(tell_volume), size=c_funloc(tell_volume), &
                                   bytes=c_funloc(tell_bytes), scheme=c_funloc(tell_scheme), context=c_loc(limit))
    call check(isochron_recon(session, kernel, c_loc(limit), [5_c_int64_t, 50_c_int64_t], 2_c_int64_t, c_null_char, platform))
    call check(isochron_timeof(platform, pair(1), places, 2_c_int64_t, predicted))
    call expect("a prediction", predicted%seconds > predicted%compute_s .and. predicted%compute_s > 0)
    call check(isochron_choose(platform, pair, 1_c_int64_t, places, 3_c_int64_t, chosen, seconds))
    call expect("a choice", chosen%seconds <= predicted%seconds .and. seconds(1) <= chosen%seconds)
    call expect("two processes", chosen%processes == 2 .and. chosen%is_exact == 1)
    call check(isochron_close_platform(platform))
    call expect("a missing file", isochron_platform_of_file("/no/such.toml"//c_null_char, c_null_char, nothing) == ISOCHRON_INPUT)
    call expect("a missing cluster", isochron_search_plan("/no/such.toml"//c_null_char, c_null_char, 8_c_int64_t, 8_c_int64_t, &
                                                          8_c_int64_t, c_null_char, nothing) == ISOCHRON_INPUT)
    call check(isochron_group(MPI_COMM_WORLD, [2_c_int64_t, 0_c_int64_t], 2_c_int64_t, group))
    call expect("who is free", (group == MPI_COMM_NULL) .eqv. rank == 1)
    if (rank == 1) return
    call MPI_Comm_rank(group, group_rank, error)
    call MPI_Comm_size(group, group_size, error)
    call expect("the order of a group", group_size == 2 .and. group_rank == merge(0, 1, rank == 2))
    call MPI_Comm_free(group, error)
  end subroutine

  subroutine try_own_group()
    type(isochron_group_t) :: ranks
    type(c_ptr) :: balancer
    integer(c_int64_t) :: first, count
    call expect("the size of a group", ranks%struct_size == c_sizeof(ranks))
    ranks = isochron_group_t(rank=int(rank, c_int64_t), size=3_c_int64_t, all_gather=c_funloc(gather_bytes))
    call check(isochron_balancer_of_group(ranks, 30_c_int64_t, "move_unit_s=0"//c_null_char, balancer))
    call check(isochron_part(balancer, first, count))
    call expect("the part of a rank of a group", first == 10 * rank .and. count == 10)
    call check(isochron_close_balancer(balancer))
  end subroutine

  function gather_bytes(context, mine, bytes, all) result(code) bind(c)
    type(c_ptr), value :: context, mine, all
    integer(c_int64_t), value :: bytes
    integer(c_int) :: code
    integer(c_int8_t), pointer :: from(:), to(:)
    call c_f_pointer(mine, from, [bytes])
    call c_f_pointer(all, to, [3 * bytes])
    call MPI_Allgather(from, int(bytes), MPI_BYTE, to, int(bytes), MPI_BYTE, MPI_COMM_WORLD, error)
    code = merge(1, error, c_associated(context))
  end function

  function count_two(context) result(processes) bind(c)
    type(c_ptr), value :: context
    integer(c_int64_t) :: processes
    processes = merge(2, 1, c_associated(context))
  end function

  function tell_volume(context, process) result(work) bind(c)
    type(c_ptr), value :: context
    integer(c_int64_t), value :: process
    real(c_double) :: work
    work = merge(10, 20, c_associated(context) .and. process == 0)
  end function

  function tell_bytes(context, from, to) result(sent) bind(c)
    type(c_ptr), value :: context
    integer(c_int64_t), value :: from, to
    real(c_double) :: sent
    sent = merge(1000, 0, c_associated(context) .and. from < to)
  end function

  subroutine tell_scheme(context, order) bind(c)
    type(c_ptr), value :: context, order
    call expect("the context", c_associated(context))
    call check(isochron_scheme_begin_repeat(order, 2_c_int64_t))
    call check(isochron_scheme_begin_parallel(order))
    call check(isochron_scheme_compute(order, 0_c_int64_t, 50d0))
    call check(isochron_scheme_compute(order, 1_c_int64_t, 50d0))
    call check(isochron_scheme_end(order))
    call check(isochron_scheme_transfer(order, 0_c_int64_t, 1_c_int64_t, 50d0))
    call check(isochron_scheme_end(order))
  end subroutine

  ! Lists the rows of a part by their numbers, and one to three times each as blocks, with the lengths of these in bytes.
  subroutine list_blocks(first, count, rows, lengths, blocks)
    integer(c_int64_t), intent(in) :: first, count
    integer(c_int64_t), intent(inout) :: rows(:), lengths(:), blocks(:)
    integer(c_int64_t) :: row, end, times
    end = 0
    do row = 1, count
      rows(row) = first + row
      times = 1 + mod(first + row, 3_c_int64_t)
      lengths(row) = bytes * times
      blocks(end + 1:end + times) = first + row
      end = end + times
    end do
  end subroutine
end program
