"""The Python package in one process without MPI."""

import __future__
import contextlib
import importlib.metadata
import inspect
import os
import pathlib
import signal
import sys
import tempfile
import threading
import types
import unittest.mock

import arguments
import forked
import numpy

import isochron


def refuses(call, *words, kind=isochron.InputError):
    """Checks that a call raises an error of a class, or of any for None, with these words."""
    try:
        call()
    except (isochron.IsochronError, ImportError, TypeError) as error:
        assert kind in (None, type(error)), repr(error)
        missing = [word for word in words if word not in str(error)]
        assert not missing, f"{missing} in: {error}"
    else:
        raise AssertionError(f"nothing was refused: {words}")


def make_matrix(random, shape, kind, order):
    parts = random.standard_normal((2, *shape))
    whole = parts[0] + 1j * parts[1] if kind.startswith("complex") else parts[0]
    return numpy.array(whole, dtype=kind, order=order)


def check_product(found, a, b, c, alpha, beta, kind):
    wide = "complex128" if kind.startswith("complex") else "float64"
    a, b, c = (x.astype(wide) for x in (a, b, c))
    gauge = abs(alpha) * (abs(a) @ abs(b)) + abs(beta) * abs(c)
    rounding = numpy.finfo(kind).eps / 2 * (4 if kind.startswith("complex") else 1)
    error = abs(found - (alpha * (a @ b) + beta * c))
    assert (error <= 2 * (a.shape[1] + 2) * rounding * gauge).all(), (kind, error.max())


def test_products_of_all_types_and_orders(session):
    random = numpy.random.default_rng(5)
    for kind in "float32", "float64", "complex64", "complex128":
        for orders in "CCC", "FFF", "CFC", "FCF":
            a, b, c = (
                make_matrix(random, shape, kind, order)
                for shape, order in zip([(37, 23), (23, 41), (37, 41)], orders)
            )
            alpha, beta = (2 - 1j, 0.5j) if kind.startswith("complex") else (-0.5, 2)
            found = c.copy(order="K")
            assert session.gemm(a, b, found, alpha=alpha, beta=beta) is found
            check_product(found, a, b, c, alpha, beta, kind)
            made = session.gemm(a, b)
            assert made.dtype == kind and made.flags.c_contiguous
            check_product(made, a, b, c, 1, 0, kind)


def test_operations_slices_and_empty_matrices(session):
    random = numpy.random.default_rng(6)
    a, b = (make_matrix(random, shape, "complex128", "C") for shape in [(23, 37), (41, 23)])
    c = numpy.zeros((37, 41), complex)
    check_product(session.gemm(a, b, ops="TC"), a.T, b.conj().T, c, 1, 0, "complex128")
    wide = numpy.zeros((30, 80))
    inner = wide[:, 10:30]
    left, right = numpy.ones((30, 7)), numpy.ones((7, 40))[:, ::1][:, :20]
    session.gemm(left, right, inner)
    assert (inner == 7).all() and wide.sum() == 7 * inner.size, "what lies between lines stays"
    assert session.gemm(numpy.ones((0, 5)), numpy.ones((5, 3))).shape == (0, 3)
    assert (session.gemm(numpy.ones((2, 0)), numpy.ones((0, 3))) == 0).all()


def test_lines_of_one_array_may_lie_between_each_other(session):
    for order in "C", "F":
        random = numpy.random.default_rng(7)
        whole = numpy.array(random.integers(-9, 9, (9, 9)), float, order=order)
        before = whole.copy()
        # The update of a factorization: all three are parts of one array.
        a, b, c = whole[3:, :3], whole[:3, 3:], whole[3:, 3:]
        assert session.gemm(a, b, c, alpha=-1, beta=1) is c
        before[3:, 3:] -= before[3:, :3] @ before[:3, 3:]
        assert (whole == before).all()
        # The lines of A lie between those of C, or those of B do. Neither is copied.
        run = session.last_run
        assert run.in_place == (True, True, True) and run.seconds == 0 and run.bytes == 0, run
        refuses(lambda: session.gemm(a, b, whole[2:8, 2:8]), "c = in the memory of a")
        # Blocks of C whose lines lie between each other.
        on = isochron.Distribution.of_blocks([0, 4, 9], [0, 5, 9], [0, 0, 0, 0], 1, order=order)
        left = isochron.Distribution.on_one(9, 2, order="F")
        right = isochron.Distribution.on_one(2, 9)
        blocks = [whole[:4, :5], whole[4:, :5], whole[:4, 5:], whole[4:, 5:]]
        session.gemm(numpy.ones((9, 2), order="F"), numpy.ones((2, 9)), blocks, beta=1, on=(left, right, on))
        assert (whole == before + 2).all()
        assert not session.last_run.in_place[2]
        session.gemm(a, b)
        assert session.last_run.in_place == (True, True, True) and session.last_run.seconds == 0
        refuses(lambda: session.gemm(a[:, :2], b[:2], blocks[:3] + [whole[4:, 4:8]], on=(left, right, on)), "")


def test_a_product_is_planned_once_and_run_again(session):
    on = isochron.Distribution.on_one(20, 20)
    product = session.prepare((on, on, on), "float32")
    a, c = numpy.eye(20, dtype="float32") * 3, numpy.zeros((20, 20), "float32")
    for _ in range(3):
        assert product.run(a, a, c, beta=1) is c
    assert (c == numpy.eye(20) * 27).all()
    assert product.plan()["problem"]["m"] == 20 and session.report()["m"] == 20


def test_a_session_begins_with_what_earlier_ones_have_saved():
    device = '[[node.device]]\nname = "{0}"\ncores = 1\npoints = "{0}.points"\n'
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for device_name, seconds in ("fast", 0.001), ("slow", 0.003):
            (folder / f"{device_name}.points").write_text(f"# block: 8\n1 {seconds}\n64 {64 * seconds}\n")
        platform = folder / "platform.toml"
        platform.write_text("schema = 1\n[[node]]\n" + device.format("fast") + device.format("slow"))
        settings = {"platform": platform, "blas": "embedded", "store": "read-write", "host_scope": "comm"}
        with unittest.mock.patch.dict(os.environ, ISOCHRON_STORE=str(folder / "store")):
            for expected, ends_well in ("fresh", False), ("fresh", True), ("store", True):
                with contextlib.suppress(ZeroDivisionError), isochron.Session(**settings) as session:
                    session.gemm(numpy.ones((32, 16)), numpy.ones((16, 32)), block=8, panel=8)
                    devices = session.report()["nodes"][0]["devices"]
                    assert [device["known"] for device in devices] == [expected] * 2, devices
                    if not ends_well:
                        raise ZeroDivisionError("the store gets nothing")
            with isochron.Session(**settings) as session:
                session.close()


class Metres(numpy.ndarray):
    """An array with a unit."""


def test_wrong_arrays_are_refused_with_a_sentence(session):
    a, b, c = numpy.ones((4, 3)), numpy.ones((3, 5)), numpy.zeros((4, 5))
    frozen = c.copy()
    frozen.flags.writeable = False
    shifted = numpy.zeros(4 * 5 * 8 + 1, "u1")[1:].view("float64").reshape(4, 5)
    refuses(lambda: session.gemm(a, b, frozen), "c = ", "read-only")
    refuses(lambda: session.gemm(a, b, shifted), "c = ", "aligned")
    refuses(lambda: session.gemm(a.astype(int), b), "a = ", "int64", "float32")
    refuses(lambda: session.gemm(a.astype(">f8"), b), "a = ", "byte order")
    refuses(lambda: session.gemm(a.astype("f2"), b), "a = ", "float16")
    refuses(lambda: session.gemm(a.astype(object), b), "a = ", "object")
    refuses(lambda: session.gemm(a, b.astype("f4")), "b = ", "float32", "float64")
    refuses(lambda: session.gemm(a, b[:2]), "shapes")
    refuses(lambda: session.gemm(a, b, c[:3]), "shapes")
    refuses(lambda: session.gemm(a[0], b), "a = ", "two dimensions")
    refuses(lambda: session.gemm(a[:, ::-1], b), "a = ", "contiguous")
    refuses(lambda: session.gemm(a[::-1], b), "a = ", "ascending")
    refuses(lambda: session.gemm(numpy.ones((4, 6))[::2, ::2], b), "a = ", "contiguous")
    refuses(lambda: session.gemm(numpy.broadcast_to(a[:1], a.shape), b), "a = ", "0 and 8 bytes", "overlap")
    refuses(lambda: session.gemm(a, a, a), "shapes")
    masked = numpy.ma.masked_array(a, mask=a > 2)
    refuses(lambda: session.gemm(masked, b), "a = a MaskedArray", "mask would be lost", "filled")
    refuses(lambda: session.gemm(a, b, numpy.ma.array(c)), "c = a MaskedArray", "mask would be lost")
    refuses(lambda: session.gemm(a, b.view(Metres)), "b = a Metres", "would be lost", "numpy.asarray")
    assert (session.gemm(a, numpy.asmatrix(b)) == 3).all()
    square = numpy.ones((4, 4))
    refuses(lambda: session.gemm(square, square, square), "memory of a")
    refuses(lambda: session.gemm(a, b, [[0.0] * 5] * 4), "c = ", "arrays")
    refuses(lambda: session.gemm("ab", b), "a = str", kind=TypeError)
    refuses(lambda: session.gemm(None, b), "a = ", "0 arrays")
    refuses(lambda: session.gemm(a, b, beta=1), "c = None")
    refuses(lambda: session.gemm(a, b, alpha=1j), "alpha", "real")
    refuses(lambda: session.gemm(a, b, alpha="x"), "alpha", "number", kind=TypeError)
    refuses(lambda: session.gemm(a, b, ops="NX"), "ops", "X")
    refuses(lambda: session.gemm(a, b, ops="N"), "ops", "two letters")
    refuses(lambda: session.gemm(a, b, block=0), "block")
    refuses(lambda: session.gemm(a, b, split="x"), "split", "auto")
    refuses(lambda: session.gemm(a, b, strategy="x"), "strategy", "adaptive")
    on = [isochron.Distribution.on_one(*shape, order="F") for shape in [(4, 3), (3, 5), (4, 5)]]
    refuses(lambda: session.gemm(a, b, on=on), "a = ", "columns have to be contiguous")
    refuses(lambda: session.prepare(on, "int8"), "dtype", "int8")
    spread = (isochron.Distribution.by_rows([2, 2], 3),) + tuple(on[1:])
    refuses(lambda: session.gemm(a, b, on=spread), "on = ", "of a over 2 ranks", "has 1")
    refuses(lambda: session.prepare(spread, float), "on = ", "of a over 2 ranks", "has 1")
    assert (session.gemm(a, b) == 3).all(), "a refused product leaves the session as it was"


def test_wrong_settings_are_refused_with_a_sentence():
    refuses(lambda: isochron.Session(blas="x"), "x")
    refuses(lambda: isochron.Session(store="x"), "store")
    refuses(lambda: isochron.Session(element="int8"), "element = int8", "complex64 (c32)")
    refuses(lambda: isochron.Session(element="x"), "element = x", "not understood")
    refuses(lambda: isochron.Session(platform="/nowhere.toml"), "/nowhere.toml")
    refuses(lambda: isochron.Session(models=__file__), __file__, "not a folder")
    refuses(lambda: isochron.Session(host_scope="x"), "host_scope", "world or comm")
    refuses(lambda: isochron.Session(reserved_cores=[4_000_000]), "4000000")
    refuses(lambda: isochron.Session("world"), "comm", "mpi4py", kind=TypeError)
    refuses(lambda: isochron.Rebalancer(10, triger=1.0), "triger", "trigger", kind=TypeError)
    refuses(lambda: isochron.Rebalancer(10, trigger="x"), "trigger=", "use a number", kind=TypeError)
    refuses(lambda: isochron.Rebalancer(10, trigger=float("nan")), "trigger=nan", "finite number")
    refuses(lambda: isochron.Rebalancer(10, sweeps=1.5), "sweeps=1.5", "whole number", kind=TypeError)
    refuses(lambda: isochron.Rebalancer(10, window=object()), "window=<object", kind=TypeError)
    assert isochron.Rebalancer(10, granule=numpy.int64(2), weight=numpy.float32(2)).units == [10]
    refuses(lambda: isochron.Rebalancer(10, granule=0), "granule")
    refuses(lambda: isochron.Rebalancer(10, weight=-1.0), "weight")
    refuses(lambda: isochron.Rebalancer.restore(b"nothing"), "state")
    refuses(lambda: isochron.Distribution.on_one(3, 3, order="K"), "order", "C or F")
    refuses(lambda: isochron.Distribution.on_one(3, 3, 2, 2), "rank 2")
    refuses(lambda: isochron.Distribution.block_cyclic(9, 9, (0, 2), (1, 1)), "block = (0, 2)")
    refuses(lambda: isochron.Distribution.on_one(3, 3).local_shapes(1), "rank = 1")
    refuses(lambda: isochron.Distribution.of_regions(3, 3, [(0, 0, 2, 3)]), "tile")
    refuses(lambda: isochron.Distribution.on_one(3, 3).sub((2, 1), (0, 3)), "rows 2..1")


def test_types_of_elements_have_two_names(session):
    on = [isochron.Distribution.on_one(4, 4)] * 3
    for names in ("f32", "float32", numpy.float32), ("f64", "d", float), ("c32", "complex64"), ("c64", numpy.dtype("c16")):
        plans = [session.prepare(on, name).plan()["problem"] for name in names]
        assert all(plan == plans[0] for plan in plans), names
        with isochron.Session(blas="embedded", element=names[0], host_scope="comm"):
            pass
        with isochron.Session(blas="embedded", element=names[-1], host_scope="comm"):
            pass
    refuses(lambda: session.prepare(on, "c16x"), "dtype = c16x")


def test_sizes_beyond_all_memory_are_refused(session):
    huge = 1 << 48
    on = [isochron.Distribution.on_one(huge, huge)] * 3
    refuses(lambda: session.prepare(on, float), "than any machine can hold")
    refuses(lambda: isochron.Distribution.block_cyclic(huge, huge, (1, 1), (1, 1)), "larger ones")
    refuses(lambda: isochron.Distribution.on_one(3, 3, 0, huge), "at most 16777216")
    refuses(lambda: isochron.Distribution.block_cyclic(3, 3, (1, 1), (huge, 1)), "at most 16777216")
    refuses(lambda: isochron.Distribution.of_blocks([0, 3], [0, 3], [0], huge), "at most 16777216")
    one = numpy.ones((1, 1))
    refuses(lambda: session.gemm(one, one, on=on), "than any machine can hold")
    refuses(lambda: isochron.Node(blas="embedded").measure(huge, huge, [1]), "", kind=None)
    assert isochron.TimeFunction([(huge, 0.5)], granule=1).max_units == huge
    assert isochron.split(huge, [[(100, 1.0)], [(300, 1.0)]]).units == [huge // 4, 3 * huge // 4]
    with isochron.Rebalancer(huge) as balancer:
        refuses(lambda: balancer.migrate(numpy.ones((huge // 2**40, 2))), "array", "281474976710656 units")


def test_threads_and_closed_sessions_are_refused(session):
    caught = []

    def use():
        try:
            session.gemm(numpy.ones((2, 2)), numpy.ones((2, 2)))
        except isochron.InputError as error:
            caught.append(str(error))

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert "thread" in caught[0], caught
    with isochron.Session(blas="embedded") as other:
        assert other.ranks == 1 and other.rank == 0 and other.devices
    refuses(lambda: other.devices, "closed")
    with isochron.Session(blas="embedded", host_scope="comm") as first:
        with isochron.Session(blas="embedded", host_scope="comm") as second:
            cores = [[device.cores for device in each.devices] for each in (first, second)]
            assert cores[0] == cores[1], "sessions that take turns have the same cores"
    other.close()


def test_forked_children_are_refused_each_call():
    forked.check_forked(None, 1)


def test_a_signal_leaves_no_product_in_part(session):
    a = numpy.ones((600, 600))
    c = numpy.zeros((600, 600))
    timer = threading.Timer(0.01, lambda: os.kill(os.getpid(), signal.SIGINT))
    # A shell's background jobs begin with the signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        for _ in range(10**6):
            session.gemm(a, a, c)
    except KeyboardInterrupt:
        pass
    assert len(numpy.unique(c)) == 1 and c[0, 0] in (0, 600)
    assert (session.gemm(a, a) == 600).all()


def test_models_and_splits():
    points = [(100, 1.0), (200, 1.5), (400, 4.0)]
    for fit in "piecewise-speed", "piecewise-time", "akima", "raw-piecewise", "cpm":
        model = isochron.Model(points, fit)
        assert model.fit == fit and model.points[0] == (100, 1.0, 1, 0.0)
        assert model.speed(150) > 0 and model.time([100, 400])[1] > model.time(100)
        assert model.units_within(1.0) > 0
    assert isochron.Model(points, "raw-piecewise").time([100, 200, 400]) == [1.0, 1.5, 4.0]
    surface = isochron.Surface([(10, 10, 1.0), (10, 20, 2.0), (20, 10, 2.0), (20, 20, 4.0)])
    assert surface.speed(15, 15) == 100 and surface.time(20, 20) == 4
    function = isochron.TimeFunction([(64, 0.5), (32, 0.75)], granule=32)
    assert (function.time(32), function.time(96), function.max_units) == (0.75, None, 64)
    slow, fast = [(100, 1.0), (1000, 10.0)], [(300, 1.0), (600, 2.0), (900, 9.0)]
    assert isochron.split(400, [slow, fast]).units == [100, 300]
    assert isochron.split(400, [isochron.Model(slow), fast]).units == [100, 300]
    capped = isochron.split(1000, [slow, fast], limits=[isochron.Limits(cap=200), isochron.Limits()])
    assert capped.units == [200, 800] and len(capped.times) == 2
    assert isochron.Limits(memory=(8, 1000, 6000)).max_units == 625
    refuses(lambda: isochron.Model([]), "point")
    refuses(lambda: isochron.Model([(0, 1.0)]), "0")
    refuses(lambda: isochron.Model(points, "x"), "x", "akima")
    refuses(lambda: isochron.split(10, [[]]), "device 0")
    refuses(lambda: isochron.split(10, [slow, (1, 1.0)]), "points = (1, 1.0) for device 1", "Model", kind=TypeError)
    refuses(lambda: isochron.split(10, [numpy.ones((2, 2))]), "points = ", "list of pairs", kind=TypeError)
    refuses(lambda: isochron.Model([(1, 1.0), (2, 1.0, 3)]), "points = (2, 1.0, 3)", "seconds")
    refuses(lambda: isochron.split(10, [slow], partitioner="x"), "gpa")
    refuses(lambda: isochron.split(10, [slow], granule=0), "granule")


def test_devices_are_measured():
    node = isochron.Node(blas="embedded")
    assert all(isinstance(notice, str) for notice in node.notices)
    models = node.measure(64, 32, [16, 64], dtype="float32", max_seconds=0.05)
    assert len(models) == len(node.devices)
    assert all([point[0] for point in model.points] == [16, 64] for model in models)
    refuses(lambda: node.measure(0, 32, [16]), "rows")
    refuses(lambda: node.measure(64, 32, [16], max_seconds=-1.0), "seconds")
    refuses(lambda: node.measure(64, 32, [16], max_sec=1.0), "max_sec", kind=TypeError)
    refuses(lambda: node.measure(64, 32, [16], dtype="int32"), "dtype")
    refuses(lambda: isochron.Node(grouping="x"), "grouping")


def test_a_loop_of_one_rank_keeps_its_rows():
    with isochron.Rebalancer(10, check_every=1) as balancer:
        rows = numpy.arange(30.0).reshape(10, 3)
        with balancer.step() as step:
            assert list(balancer.part) == list(range(10))
        assert not step.moved and balancer.shares() == [1.0] and balancer.units == [10]
        try:
            with balancer.step():
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            pass
        assert balancer.report()["sweeps"] == 1, "a step that raised is none"
        assert not balancer.observe(0.1)
        assert (balancer.migrate(rows) == rows).all()
        words = numpy.array(["a", "bc"] * 5)
        assert (balancer.migrate(words) == words).all()
        other = numpy.zeros_like(rows)
        assert balancer.migrate(rows, out=other) is other and (other == rows).all()
        assert balancer.migrate(rows, out=rows) is rows and (other == rows).all()
        refuses(lambda: balancer.migrate(rows, out=other[:9]), "out", "10 units")
        refuses(lambda: balancer.migrate(rows, out=other.astype("f4")), "out", "array has rows of shape")
        refuses(lambda: balancer.migrate(rows, 3), "out = int", kind=TypeError)
        other.flags.writeable = False
        refuses(lambda: balancer.migrate(rows, out=other), "out", "read-only")
        refuses(lambda: balancer.migrate(rows[:9]), "array", "10 units")
        refuses(lambda: balancer.migrate(rows[:, ::2]), "array", "contiguous")
        refuses(lambda: balancer.migrate(rows.astype(object)), "objects")
        refuses(lambda: balancer.migrate(3), "array = int", kind=TypeError)
        blocks = [numpy.full((2, unit), unit, "c8") for unit in range(9)] + [numpy.array("word")]
        moved = balancer.migrate_blocks(blocks)
        assert all((a == b).all() and (a.shape, a.dtype) == (b.shape, b.dtype) for a, b in zip(moved, blocks, strict=True))
        refuses(lambda: balancer.migrate_blocks(blocks[:9]), "blocks = 9 arrays", "10 units")
        refuses(lambda: balancer.migrate_blocks(3), "blocks", "list of arrays", kind=TypeError)
        refuses(lambda: balancer.migrate_blocks([3] * 10), "blocks = int", kind=TypeError)
        refuses(lambda: balancer.migrate_blocks([b"bytes"] * 10), "blocks", "no array of NumPy", kind=TypeError)
        refuses(lambda: balancer.migrate_blocks([rows[:, ::2]] * 10), "blocks", "contiguous")
        refuses(lambda: balancer.migrate_blocks([rows.astype(object)] * 10), "blocks", "objects")
        refuses(lambda: balancer.observe(-1.0), "seconds = -1")
        balancer.note_move(float("nan"))
        refuses(balancer.balance, "seconds = NaN")
        state = balancer.state()
        assert isochron.Rebalancer.restore(state).units == [10]
    assert balancer.units == [10] and balancer.moves == 0, "a closed balancer can be read"
    refuses(lambda: balancer.part, "closed")
    refuses(balancer.balance, "closed")


def test_the_package_has_its_licences():
    files = [file.name for file in importlib.metadata.files("isochron")]
    assert {"LICENSE-APACHE", "LICENSE-MIT"} <= set(files), files
    assert importlib.metadata.metadata("isochron")["License-Expression"] == "MIT OR Apache-2.0"


def load_stub(path):
    """Returns what a stub defines, by name. Of overloads it is the last one."""
    code = compile(path.read_text(), str(path), "exec", flags=__future__.annotations.compiler_flag)
    names = {"__name__": "stub"}
    with unittest.mock.patch("typing.overload", lambda function: function):
        exec(code, names)
    defined = {name: value for name, value in names.items() if getattr(value, "__module__", None) == "stub"}
    # The others describe objects of the program.
    return {name: value for name, value in defined.items() if not name.startswith("_")}


def list_members(kind):
    """Returns the public members of a class and of its bases, by name."""
    return {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}


def list_parameters(function):
    """Returns the name of each parameter but the first of methods, its kind, and whether it has a default."""
    parameters = inspect.signature(function).parameters.values()
    return [(each.name, each.kind.name, each.default is not each.empty) for each in parameters if each.name != "self"]


def check_parameters(name, stub, real):
    """Compares parameters. Where the module takes any keyword, the stub has those that there are."""
    stub, real = list_parameters(stub), list_parameters(real)
    if real and real[-1][1] == "VAR_KEYWORD":
        real.pop()
        stub = [each for each in stub if each in real or each[1] != "KEYWORD_ONLY"]
    assert stub == real, (name, stub, real)


def test_stubs_have_the_names_of_the_module():
    folder = pathlib.Path(isochron.__file__).parent
    assert (folder / "py.typed").exists()
    stub = load_stub(folder / "__init__.pyi")
    names = {name for name in isochron.__all__ if not name.startswith("_")}
    assert stub.keys() == names, stub.keys() ^ names
    n_signatures = 0
    for name, kind in stub.items():
        real = getattr(isochron, name)
        if not isinstance(kind, type):
            check_parameters(name, kind, real)
            continue
        if "__new__" in vars(kind):
            check_parameters(name, kind, real)
        if issubclass(kind, Exception):
            continue
        members, real_members = list_members(kind), list_members(real)
        assert members.keys() == real_members.keys(), (name, members.keys() ^ real_members.keys())
        for member, value in members.items():
            is_property = inspect.isdatadescriptor(value)
            assert inspect.isdatadescriptor(real_members[member]) == is_property, (name, member)
            if not is_property:
                check_parameters(f"{name}.{member}", value, real_members[member])
                n_signatures += 1
        if "__exit__" in vars(kind):
            assert kind.__exit__.__annotations__["return"] == "Literal[False]", f"{name} hides no exception"
    assert n_signatures > 30


def run_threads(size, body):
    """Runs a body with each member of a group of threads, and returns what they return or raise, by rank."""
    results = [None] * size

    def run(group):
        try:
            results[group.rank()] = body(group)
        except Exception as error:
            results[group.rank()] = error

    threads = [threading.Thread(target=run, args=[group]) for group in isochron.ThreadGroup.make(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def test_threads_balance_a_loop_without_mpi():
    def balance(group):
        with isochron.Rebalancer(90, group, move_unit_s=0) as balancer:
            for _ in range(40):
                balancer.observe(1e-3 * len(balancer.part) * (1 + group.rank()))
            return balancer.units

    units = run_threads(2, balance)
    assert units[0] == units[1] and units[0][0] in range(58, 63), units


def test_uneven_batches_have_the_gradient_of_even_ones():
    """A linear model on three ranks, the last of them without samples, and with a smaller last batch."""
    random = numpy.random.default_rng(3)
    inputs, targets = random.standard_normal((50, 3)), random.standard_normal(50)

    def find_gradient(chosen, weights):
        return inputs[chosen].T @ (inputs[chosen] @ weights - targets[chosen]) * 2

    def train(speeds):
        def run(group):
            balancer = isochron.Rebalancer(16, group, move_unit_s=0, weight=speeds[group.rank()])
            batches = isochron.SharedBatches(balancer, len(targets), seed=1)
            assert len(batches) == 4
            weights, shares = numpy.zeros(3), []
            for epoch in range(2):
                batches.set_epoch(epoch)
                for step, chosen in enumerate(batches):
                    mine = batches.scale(step) * find_gradient(chosen, weights)
                    gathered = [numpy.frombuffer(part) for part in group.all_gather(mine.tobytes())]
                    weights = weights - 0.05 * sum(gathered) / len(gathered)
                    shares.append(len(chosen))
            return weights, shares

        return run_threads(3, run)

    even, uneven = train([1, 1, 1]), train([1, 3, 1e-3])
    assert [shares[0] for _, shares in uneven] == [4, 12, 0] and sum(shares[3] for _, shares in uneven) == 2
    for weights, _ in uneven:
        assert abs(weights - even[0][0]).max() < 1e-12, (weights, even)


def test_each_sample_of_a_step_is_given_once_however_the_division_changes():
    for length, drop_last, steps in (23, False, [8, 8, 7]), (23, True, [8, 8]), (5, False, [5]), (5, True, []):
        balancers = [types.SimpleNamespace(units=[4, 3, 1], part=part) for part in (range(4), range(4, 7), range(7, 8))]
        batches = [isochron.SharedBatches(each, length, shuffle=False, drop_last=drop_last) for each in balancers]
        assert {len(each) for each in batches} == {len(steps)}
        given = []
        for step, parts in enumerate(zip(*batches)):
            assert [len(part) for part in parts] == [len(each.part) for each in balancers] or step == 2 or length < 8
            given += [index for part in parts for index in part]
            assert batches[0].count(step) == steps[step] == sum(map(len, parts))
            for each, part in zip(balancers, (range(0), range(2), range(2, 8))):
                each.part = part
        assert given == list(range(sum(steps))), given


def test_a_group_that_fails_is_told():
    def tell(gathered):
        return lambda: isochron.Rebalancer(4, types.SimpleNamespace(rank=lambda: 0, size=lambda: 2, all_gather=gathered))

    refuses(tell(lambda data: [data]), "1 values for 2 ranks", kind=isochron.RunError)
    refuses(tell(lambda data: "nothing"), "all_gather", kind=isochron.RunError)
    refuses(tell(lambda data: 1 / 0), "ZeroDivisionError", kind=isochron.RunError)

    for raised in (OSError("lost"), KeyboardInterrupt()):
        try:
            tell(unittest.mock.Mock(side_effect=raised))()
        except BaseException as error:
            # An exception is the cause, with its lines, and Ctrl-C is Ctrl-C.
            assert raised in (error, error.__cause__) and isinstance(error, (isochron.RunError, KeyboardInterrupt)), error
        else:
            raise AssertionError(raised)

    def leave(group):
        with isochron.Rebalancer(4, group) as balancer:
            while group.rank() == 1:
                balancer.observe(1.0)
            raise KeyError("left")

    first, second = run_threads(2, leave)
    assert isinstance(first, KeyError), first
    assert isinstance(second, isochron.RunError) and "the thread of rank 0 has ended" in str(second), second
    with unittest.mock.patch.dict(sys.modules, {"torch": None}):
        refuses(isochron.TorchGroup, "torch", kind=ModuleNotFoundError)


def test_each_wrong_argument_is_an_exception_of_one_kind(session):
    folder = pathlib.Path(isochron.__file__).parent
    arguments.check_arguments(session, load_stub(folder / "__init__.pyi"))
    assert isinstance(isochron.InputError("x"), ValueError)


def test_a_stage_after_the_other_takes_the_sum_of_their_times():
    """Two nodes of 1 and 2 units a second, and messages of a second and one for each 8 bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.write_platform(folder)
        platform = isochron.Platform.of_file(path)
        refuses(lambda: isochron.Platform.of_file(path, models=folder), "no model of device cpu0")
        found = isochron.search_plan(path, 8, 8, 8, blocks=[1], explain=True, equal_ranks=True)
        refuses(lambda: isochron.search_plan(path, 8, 8, 8, blocks=[]), "give one block size")
    fastest, *others = found["candidates"]
    assert others and fastest["wall_s"] > 0 and found["plan"]["problem"]["m"] == 8
    assert sum(host["ranks"] for host in found["equal_ranks"]["hosts"]) == found["equal_ranks"]["rows"] * found["equal_ranks"]["cols"]
    assert len(found["explained"]) == 3
    assert len(platform) == 2
    run = isochron.timeof(arguments.Stages(), platform, [0, 1])
    assert (run.seconds, run.compute_s, run.slowest) == (10 + 2 + 5, 10, 0)
    choice = isochron.choose([arguments.Stages(30), arguments.Stages(10)], platform)
    assert (choice.chosen, choice.places, choice.is_exact) == (1, [0, 1], True)
    assert choice.seconds == [20 + 2 + 15, 17] and choice.run.seconds == 17
    assert isochron.group([0]) is None
    refuses(lambda: isochron.group([1]), "places = [1]")


def test_what_is_wrong_with_an_algorithm_is_told():
    with tempfile.TemporaryDirectory() as folder:
        platform = isochron.Platform.of_file(arguments.write_platform(folder))

    def tell(**methods):
        """Makes an algorithm of which some methods are others."""
        stages = arguments.Stages()
        vars(stages).update(methods)
        return lambda: isochron.timeof(stages, platform, [0, 1])

    def leave_open(order):
        order.repeat(2)

    def end_twice(order):
        with order.par():
            with order:
                pass

    kept = []
    refuses(tell(volume=lambda process: -1), "-1 units of work of process 0")
    refuses(tell(bytes=lambda source, to: numpy.nan), "NaN bytes from process 0 to 1")
    refuses(tell(scheme=lambda order: order.compute(0, 50)), "50 % of the work of process 0, not 100 %")
    refuses(tell(scheme=leave_open), "a section without an end")
    refuses(tell(scheme=end_twice), "no section is open")
    refuses(tell(scheme=kept.append), "0 % of the work of process 0")
    refuses(lambda: kept[0].compute(0, 100), "closed")
    refuses(tell(processes=lambda: 3), "3 processes need as many of the 2 places")
    refuses(tell(processes=lambda: -1), kind=None)
    refuses(tell(volume=lambda process: "much"), kind=TypeError)
    refuses(lambda: isochron.timeof(object(), platform, [0]), "no method processes", kind=TypeError)
    for method in "processes", "volume", "size", "bytes", "scheme":
        call = tell(**{method: lambda *_: 1 / 0})
        try:
            call()
        except ZeroDivisionError:
            continue
        raise AssertionError(f"the exception of {method} was lost")
    try:
        isochron.timeof(isochron.Algorithm(), platform, [0])
    except NotImplementedError as error:
        assert str(error) == "processes"


def test_elements_are_listed_and_filled(session):
    whole = numpy.arange(12 * 10.0).reshape(12, 10)
    cyclic = isochron.Distribution.block_cyclic(12, 10, (3, 4), (2, 2), first_block=(2, 1), sources=(1, 0), grid_order="F")
    blocks = isochron.Distribution.of_blocks([0, 5, 12], [0, 3, 10], [0, 1, 1, 3], 4, order="C")
    described = isochron.Distribution.of_descriptor([1, 0, 20, 30, 3, 4, 0, 1, 20], (2, 2)).sub((4, 16), (7, 17))
    for on in cyclic, blocks, described:
        n_elements = 0
        for rank in range(4):
            arrays = [numpy.zeros(shape, order=on.order) for shape in on.local_shapes(rank)]
            on.fill(rank, arrays, lambda row, col: 10 * row + col)
            for array, (rows, cols) in zip(arrays, on.elements(rank), strict=True):
                n_elements += len(rows) * len(cols)
                part = whole[numpy.ix_(rows, cols)]
                assert on is described or (array == part).all()
                assert array.sum() == part.sum()
        assert n_elements == 120
    refuses(lambda: cyclic.fill(4, numpy.zeros((1, 1)), numpy.add), "rank = 4")
    refuses(lambda: cyclic.fill(0, numpy.zeros((1, 1)), numpy.add), "arrays = an array of shape")


def main():
    tests = {name: test for name, test in globals().items() if name.startswith("test_")}
    with isochron.Session(blas="embedded") as session:
        for name, test in tests.items():
            print(name, flush=True)
            test(*([session] if test.__code__.co_argcount else []))


main()
