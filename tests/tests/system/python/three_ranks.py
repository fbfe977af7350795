"""The Python package over mpi4py, on three ranks."""

import sys
import time

import forked
import numpy
from mpi4py import MPI

import isochron

WORLD = MPI.COMM_WORLD
COUNTS = [5, 0, 7]


def refused(call):
    """Returns the error that every rank gets."""
    try:
        call()
    except (isochron.IsochronError, TypeError) as error:
        return error
    raise AssertionError("nothing was refused")


def test_own_blocks_of_every_kind():
    """C = A·B + C, with rows of A, blocks of B and a block-cyclic C, in the order of C and of Fortran."""
    m, n, k = sum(COUNTS), 9, 6
    on_a = isochron.Distribution.by_rows(COUNTS, k)
    on_b = isochron.Distribution.of_blocks([0, 2, 6], [0, 4, 9], [0, 1, 1, 2], 3)
    on_c = isochron.Distribution.block_cyclic(m, n, (2, 3), (1, 3), sources=(0, 2))
    a_all = numpy.arange(m * k, dtype=float).reshape(m, k)
    b_all = numpy.arange(k * n, dtype=float).reshape(k, n)
    first = sum(COUNTS[: WORLD.rank])
    a = a_all[first : first + COUNTS[WORLD.rank]].copy()
    blocks = {0: [b_all[:2, :4]], 1: [b_all[2:, :4], b_all[:2, 4:]], 2: [b_all[2:, 4:]]}
    b = [block.copy() for block in blocks[WORLD.rank]]
    owned = [col for col in range(n) if (col // 3 + 2) % 3 == WORLD.rank]
    assert on_c.local_shapes(WORLD.rank) == [(m, len(owned))]
    with isochron.Session(WORLD, blas="embedded") as session:
        assert (session.rank, session.ranks) == (WORLD.rank, 3)
        for kind in "float32", "float64", "complex64", "complex128":
            c = numpy.ones((m, len(owned)), kind, order="F")
            given = a.astype(kind), [block.astype(kind) for block in b]
            session.gemm(*given, c, beta=1, on=(on_a, on_b, on_c))
            assert (c == (a_all @ b_all)[:, owned] + 1).all()
            made = session.gemm(given[0] if COUNTS[WORLD.rank] else None, given[1], on=(on_a, on_b, on_c))
            assert (made == (a_all @ b_all)[:, owned]).all() and made.flags.f_contiguous
        assert session.report()["k"] == k


def test_a_group_over_mpi4py_balances_as_its_communicator():
    found = []
    for comm in WORLD, isochron.MpiGroup(WORLD):
        with isochron.Rebalancer(60, comm, move_unit_s=0) as balancer:
            for _ in range(30):
                balancer.observe(1e-3 * len(balancer.part) * (1 + WORLD.rank))
            found.append(balancer.units)
    assert found[0] == found[1] and found[0][0] > 2 * found[0][2], found


def test_agreeing_blocks_are_used_in_place_and_others_are_moved():
    """Blocks of 8 on one grid row; then with rows of A on the ranks."""
    n = 48
    in_columns = isochron.Distribution.block_cyclic(n, n, (8, 8), (1, 3))
    in_rows = isochron.Distribution.block_cyclic(n, n, (8, 8), (3, 1))
    mine = [index for index in range(n) if index // 8 % 3 == WORLD.rank]
    a_all = numpy.arange(n * n, dtype=float).reshape(n, n) % 7
    b_all = numpy.arange(n * n, dtype=float).reshape(n, n) % 5
    b = numpy.asfortranarray(b_all[:, mine])
    settings = {"block": 8, "split": "c", "strategy": "homogeneous"}
    with isochron.Session(WORLD, blas="embedded", grouping="node") as session:
        assert session.last_run is None
        for a_on, a in (in_columns, a_all[:, mine]), (in_rows, a_all[mine]):
            product = session.prepare((a_on, in_columns, in_columns), float, **settings)
            assert (product.run(numpy.asfortranarray(a), b) == (a_all @ b_all)[:, mine]).all()
            run = session.last_run
            is_moved = a_on is in_rows
            assert run.in_place == (not is_moved, True, True), run
            moves = run.messages > 0, run.bytes > 0, run.seconds > 0
            assert moves == (is_moved,) * 3, run


def test_a_wrong_array_of_one_rank_is_an_error_on_all():
    ranks = WORLD.size
    on = isochron.Distribution.by_rows([4] * ranks, 4 * ranks)
    good = numpy.ones((4, 4 * ranks))
    frozen = good.copy()
    frozen.flags.writeable = False
    with isochron.Session(WORLD, blas="embedded") as session:
        for wrong, words in [
            (good.astype(int), "a = an array of int64"),
            (good[:3], "a = an array of 3"),
            ("ab", "a = str"),
            (good.astype("f4"), "dtype is float64 on rank 0, float32 on rank 1"),
        ]:
            a = wrong if WORLD.rank == 1 else good
            error = refused(lambda: session.gemm(a, good, numpy.zeros_like(good), on=(on, on, on)))
            kind = TypeError if "str" in words else isochron.InputError
            assert isinstance(error, kind) and words in str(error), error
        c = frozen if WORLD.rank == 2 else good.copy()
        assert "rank 2" in str(refused(lambda: session.gemm(good, good, c, on=(on, on, on))))
        assert "on = None" in str(refused(lambda: session.gemm(good, good)))
        c = session.gemm(good, good, on=(on, on, on))
        assert (c == 4 * ranks).all()


def test_rows_of_any_type_move():
    with isochron.Rebalancer(60, WORLD, check_every=1, warm_up=0, move_unit_s=0.0) as balancer:
        rows = numpy.array([(i, f"row {i}") for i in balancer.part], dtype=[("number", int), ("name", "U8")])
        ids = numpy.array(balancer.part)[:, None, None] * numpy.ones((1, 2, 3))
        lists = [numpy.full((unit % 4, 2), unit, f"i{4 + 4 * (unit % 2)}") for unit in balancer.part]
        table = numpy.zeros((60, 5))
        own = table[balancer.part.start:balancer.part.stop]
        own[:] = numpy.array(balancer.part)[:, None]
        for _ in range(40):
            if balancer.observe(len(rows) * (4.0 if WORLD.rank == 2 else 1.0)):
                wrong = ids.astype("f4") if WORLD.rank == 1 else ids
                assert "format of the array" in str(refused(lambda: balancer.migrate(wrong)))
                wrong = ids[1:] if WORLD.rank == 0 else ids
                assert "rank 0" in str(refused(lambda: balancer.migrate(wrong)))
                wrong = lists[1:] if WORLD.rank == 0 else lists
                assert "rank 0" in str(refused(lambda: balancer.migrate_blocks(wrong)))
                kept = set(map(id, lists))
                rows, ids, lists = balancer.migrate(rows), balancer.migrate(ids), balancer.migrate_blocks(lists)
                assert kept & set(map(id, lists)), "arrays that stay are the same"
                there = table[balancer.part.start:balancer.part.stop]
                shifted = table[1:1 + len(balancer.part)] if WORLD.rank == 0 else there
                assert "rank 0" in str(refused(lambda: balancer.migrate(own, out=shifted)))
                own = balancer.migrate(own, out=there)
                assert own is there
            assert list(rows["number"]) == list(balancer.part) and rows["name"].tolist() == [f"row {i}" for i in balancer.part]
            assert (ids[:, 1, 2] == balancer.part).all()
            assert (own == numpy.array(balancer.part)[:, None]).all()
            for unit, each in zip(balancer.part, lists, strict=True):
                assert each.shape == (unit % 4, 2) and each.itemsize == 4 + 4 * (unit % 2) and (each == unit).all()
        assert balancer.moves > 0 and balancer.units[2] < 10
        assert abs(sum(balancer.shares()) - 1) < 1e-12
        again = isochron.Rebalancer.restore(balancer.state(), WORLD)
        assert again.units == balancer.units
    error = str(refused(lambda: isochron.Rebalancer(60, WORLD, granule=1 + WORLD.rank)))
    assert "granule is 1 on rank 0, 2 on rank 1, 3 on rank 2" in error, error
    assert isochron.measure_move_unit_s(8, WORLD) > 0
    assert isochron.measure_move_unit_s(1 << 60, WORLD) > 0
    settings = {"weight": -1.0} if WORLD.rank == 1 else {}
    assert "rank 1" in str(refused(lambda: isochron.Rebalancer(60, WORLD, **settings)))


def test_settings_that_differ_are_told_in_words():
    """On the last rank they are others. Those of which no value may differ are errors, which name both values."""
    values = {
        "element": ("f32", "c64"), "store": ("none", "read"), "models": ("/no/a", "/no/b"), "host_scope": ("world", "comm"),
        "ops": ("NN", "TN"), "block": (16, 32), "panel": (16, 32), "split": ("c", "k"), "strategy": ("homogeneous", "fpm"),
        "epsilon": (0.25, 0.5), "granule": (1, 2), "sweeps": (50, 60), "trigger": (1.25, 1.5), "window": (4, 5),
        "cooldown": (9, 10), "warm_up": (2, 3), "check_every": (5, 6), "max_move": (0.25, 0.5), "growth": (3.5, 4.5),
        "retry_after": (70, 80), "move_unit_s": (0.25, 0.5),
    }  # fmt: skip
    on = (isochron.Distribution.on_one(8, 8, ranks=WORLD.size),) * 3
    may_differ = {"grouping": ("node", "package"), "blas": ("embedded", "auto")}
    with isochron.Session(WORLD, blas="embedded") as session:
        for name, pair in (values | may_differ).items():
            settings = {name: pair[WORLD.rank == 2]}
            if name in ("element", "store", "models", "host_scope", "grouping", "blas"):
                call = lambda: isochron.Session(WORLD, **settings).close()
            elif name in ("ops", "block", "panel", "split", "strategy", "epsilon"):
                call = lambda: session.prepare(on, float, **settings)
            else:
                call = lambda: isochron.Rebalancer(60, WORLD, **settings)
            if name in may_differ:
                call()
                continue
            error = refused(call)
            assert isinstance(error, isochron.InputError), repr(error)
            text = str(error)
            shown = [f'"{value}"' if isinstance(value, str) else str(value) for value in pair]
            assert f"{name} is {shown[0]} on ranks 0-1, {shown[1]} on rank 2" in text, text
            assert not any(mark in text for mark in ("{", "::", "Some(")), text
    for name in "max_local", "weight":
        isochron.Rebalancer(60, WORLD, **{name: 30 + WORLD.rank})


class Limited:
    """A kernel that takes long for more units than its limit, and raises at a number of them."""

    def __init__(self, limit=60, raises_at=None):
        self.limit, self.raises_at, self.sizes = limit, raises_at, []

    def initialize(self, d):
        if d == self.raises_at:
            raise ZeroDivisionError(f"no tape for {d}")
        self.sizes.append(d)

    def execute(self):
        time.sleep(0.1 if self.sizes[-1] > self.limit else 0)

    def finalize(self):
        pass


class Share:
    """A model by which a rank gets its share."""

    def __init__(self, share, wrong=None):
        self.share, self.wrong, self.points = share, wrong, []

    def time(self, units):
        if self.wrong == "raises":
            raise KeyError("no such size")
        return {"falls": 1e3 - units, "nan": numpy.nan}.get(self.wrong, units / self.share)

    def update(self, point):
        if self.wrong == "refuses":
            raise KeyError("no such point")
        self.points.append(point)


def test_units_are_divided_by_benchmarks():
    with isochron.Session(WORLD, blas="embedded") as session:
        kernel = Limited()
        units, seconds, reps, half_width = session.benchmark(kernel, WORLD.rank, max_reps=4)
        assert units == WORLD.rank and half_width >= 0 and (reps > 0) == (seconds > 0) == (units > 0)
        assert kernel.sizes == [units] * (units > 0)
        partition = session.partition(61, granule=4, max_iterations=3, max_reps=3)
        assert (partition.units, partition.times, partition.ended) == ([21, 20, 20], [0] * 3, False)
        while not partition.iterate(kernel):
            assert WORLD.allgather(partition.units) == [partition.units] * 3
        assert sum(partition.units) == 61 and sum(units % 4 > 0 for units in partition.units) == 1
        assert partition.ended and WORLD.allgather(partition.times) == [partition.times] * 3


def test_models_of_the_program_divide():
    """The even division takes the first rank long, and the models have a better one."""
    kernel, models = Limited(10 if WORLD.rank == 0 else 60), [Share(10), Share(20), Share(30)]
    with isochron.Session(WORLD, blas="embedded") as session:
        partition = session.partition(60, models, max_reps=3)
        assert not partition.iterate(kernel) and partition.units == [20] * 3
        assert partition.iterate(kernel) and partition.units == [10, 20, 30] and min(partition.times) > 0
        assert partition.iterate(kernel) and kernel.sizes == [20, 10 * WORLD.rank + 10]
        assert [point[0] for model in models for point in model.points] == [20, 10, 20, 20, 20, 30]


def caught_on(rank, kind, words, call):
    """The rank raises its own exception, and the others one with its words."""
    try:
        call()
    except (isochron.RunError, kind) as error:
        expected = kind if WORLD.rank == rank else isochron.RunError
        assert isinstance(error, expected) and words in str(error), repr(error)
        assert WORLD.rank == rank or f"rank {rank}" in str(error), repr(error)
    else:
        raise AssertionError("nothing was raised")


def test_exceptions_of_kernels_and_models_reach_all_ranks():
    with isochron.Session(WORLD, blas="embedded") as session:
        kernel = Limited(raises_at=20 if WORLD.rank == 1 else None)
        caught_on(1, ZeroDivisionError, "no tape for 20", lambda: session.benchmark(kernel, 20))
        partition = session.partition(60, max_reps=3)
        caught_on(1, ZeroDivisionError, "no tape for 20", lambda: partition.iterate(kernel))
        kernel.raises_at = None
        partition.iterate(kernel)
        for rank, wrong, words in (2, "refuses", "no such point"), (0, "raises", "no such size"):
            models = [Share(10), Share(20, wrong if WORLD.rank == rank else None), Share(30)]
            partition = session.partition(60, models, max_reps=3)
            caught_on(rank, KeyError, words, lambda: partition.iterate(kernel))
        for wrong, words in ("falls", "its times fall"), ("nan", "it gives NaN s"):
            partition = session.partition(60, [Share(10), Share(20), Share(30, wrong)], max_reps=3)
            error = refused(lambda: partition.iterate(kernel))
            assert isinstance(error, isochron.RunError) and f"the model of rank 2: {words}" in str(error), repr(error)
        error = refused(lambda: session.partition(60 + (WORLD.rank == 2)))
        assert "units is 60 on ranks 0-1, 61 on rank 2" in str(error), error
        error = refused(lambda: session.benchmark(None if WORLD.rank == 1 else kernel, 3))
        assert isinstance(error, TypeError) and "rank 1" in str(error) and "initialize" in str(error), repr(error)
        error = refused(lambda: session.benchmark(kernel, 3, min_reps=2 + WORLD.rank))
        assert "min_reps is 2 on rank 0, 3 on rank 1, 4 on rank 2" in str(error), error
        partition = session.partition(60)
    error = refused(lambda: session.partition(60))
    assert "closed" in str(error), error


class Chain(isochron.Algorithm):
    """Each process works, and hands on to the next."""

    def __init__(self, count):
        self.count = count

    def processes(self):
        return self.count

    def volume(self, process):
        return 10 * (process + 1)

    def bytes(self, source, to):
        return 8 if to == source + 1 else 0

    def scheme(self, order):
        for process in range(self.count):
            order.compute(process, 100)
            if process + 1 < self.count:
                order.transfer(process, process + 1, 100)


def test_an_algorithm_runs_on_the_ranks_that_were_chosen():
    with isochron.Session(WORLD, blas="embedded") as session:
        platform = session.recon(Limited(), [2, 20], max_reps=3)
        assert len(platform) == 3
        run = isochron.timeof(Chain(3), platform, [2, 0, 1])
        choice = isochron.choose([Chain(2), Chain(3), Chain(4)], platform)
        assert choice.chosen == 0 and choice.is_exact and choice.seconds[2] == numpy.inf and choice.run.seconds == choice.seconds[0]
        assert WORLD.allgather((run.seconds, choice.places)) == [(run.seconds, choice.places)] * 3
    group = isochron.group(choice.places, WORLD)
    assert (group is None) == (WORLD.rank not in choice.places)
    if group is not None:
        assert group.allgather(WORLD.rank) == choice.places
        group.Free()
    assert isochron.group([2, 1, 0], WORLD).rank == 2 - WORLD.rank


def test_wrong_platforms_and_groups_are_told_on_all_ranks():
    with isochron.Session(WORLD, blas="embedded") as session:
        kernel = Limited(raises_at=20 if WORLD.rank == 1 else None)
        caught_on(1, ZeroDivisionError, "no tape for 20", lambda: session.recon(kernel, [2, 20]))
        for sizes, words in ([], "above 0"), ([2, 3 + WORLD.rank], "sizes is [2,3] on rank 0"):
            error = refused(lambda: session.recon(kernel, sizes))
            assert isinstance(error, isochron.InputError) and words in str(error), repr(error)
    for places, words in ([1, 1], "different ranks"), ([3], "each below 3"), ([WORLD.rank], "places is [0] on rank 0"):
        error = refused(lambda: isochron.group(places, WORLD))
        assert isinstance(error, isochron.InputError) and words in str(error), repr(error)


def leave_on_one_rank():
    if WORLD.rank == 1:
        raise ZeroDivisionError("no rows left")


def leave_a_loop():
    with isochron.Rebalancer(60, WORLD, check_every=1) as balancer:
        for sweep in range(10):
            with balancer.step():
                if sweep == 3:
                    leave_on_one_rank()


def leave_a_session_that_saves():
    with isochron.Session(WORLD, blas="embedded", store="read-write"):
        leave_on_one_rank()


def test_a_rank_that_leaves_is_an_error_on_the_others():
    for leave in leave_a_loop, leave_a_session_that_saves:
        caught = None
        try:
            leave()
        except (isochron.RunError, ZeroDivisionError) as error:
            caught = error
        if WORLD.rank == 1:
            assert isinstance(caught, ZeroDivisionError), repr(caught)
        else:
            words = "rank 1", "ZeroDivisionError", "no rows left"
            assert isinstance(caught, isochron.RunError) and all(word in str(caught) for word in words), repr(caught)


def test_forked_children_are_refused_each_call():
    forked.check_forked(WORLD, WORLD.size)


def test_communicators_of_some_ranks_and_null_ones():
    some = WORLD.Split(0 if WORLD.rank < 2 else MPI.UNDEFINED)
    error = None
    try:
        with isochron.Session(some, blas="embedded") as session:
            assert session.ranks == 2
    except isochron.InputError as caught:
        error = caught
    assert (error is None) == (WORLD.rank < 2) and "MPI_COMM_NULL" in str(error or "MPI_COMM_NULL")
    with isochron.Session(blas="embedded") as alone:
        assert alone.ranks == 1, "a session without a communicator is local, under mpirun too"


for name, test in list(globals().items()):
    if name.startswith("test_"):
        test()
        WORLD.Barrier()
        if WORLD.rank == 0:
            print(name, flush=True)
kept = isochron.Session(WORLD, blas="embedded")
MPI.Finalize()
assert "finalised" in str(refused(lambda: isochron.Session(WORLD)))
sys.stdout.flush()
