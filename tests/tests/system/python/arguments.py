"""Every argument of every call, with values of wrong types and with wrong values."""

import inspect
import pathlib
import tempfile

import numpy

import isochron

HUGE = 2**70
BEYOND_FLOATS = 10**400


class Nothing:
    """A kernel without work, and a model of equal speed."""

    def initialize(self, d):
        pass

    def execute(self):
        pass

    def finalize(self):
        pass

    def time(self, units):
        return units

    def update(self, point):
        pass


class Stages(isochron.Algorithm):
    """Two processes, of which the first hands on to the second."""

    def __init__(self, work=10):
        self.work = work

    def processes(self):
        return 2

    def volume(self, process):
        return self.work if process else 0.5 * self.work + 5

    def bytes(self, source, to):
        return 8 if source < to else 0

    def scheme(self, order):
        with order.seq():
            order.compute(0, 100)
            order.transfer(0, 1, 100)
        with order.repeat(4), order.par():
            order.compute(1, 25)


def write_platform(folder):
    """Writes two nodes of 1 and 2 units a second, and messages of a second and one for each 8 bytes. Returns the path."""
    nodes = ""
    for name, seconds in ("slow", 10), ("fast", 5):
        pathlib.Path(folder, f"{name}.points").write_text(f"# block: 1\n10 {seconds}\n")
        nodes += f'[[node]]\n[[node.device]]\nname = "cpu0"\npoints = "{name}.points"\n'
    path = pathlib.Path(folder, "platform.toml")
    network = "[network]\nlevels = [{ points = [{ bytes = 0, time_s = 1 }, { bytes = 8, time_s = 2 }] }]\n"
    path.write_text("schema = 1\n" + nodes + network)
    return str(path)


def list_calls(session):
    """Returns each call with arguments, by name, with a valid value of each."""
    on = isochron.Distribution.on_one(4, 4)
    node, model = isochron.Node(blas="embedded"), isochron.Model([(1, 1.0)])
    corners = [(10, 10, 1.0), (10, 20, 2.0), (20, 10, 2.0), (20, 20, 4.0)]
    surface, function = isochron.Surface(corners), isochron.TimeFunction([(1, 1.0)])
    balancer = isochron.Rebalancer(4)
    rows = numpy.ones((4, 4))
    planned = {"ops": "NN", "block": 16, "panel": 16, "split": "c", "strategy": "homogeneous", "epsilon": 0.5}
    sizes = {"rows": 4, "cols": 4}
    dealt = {"grid": (1, 1), "ranks": 1, "grid_order": "C", "order": "F"}
    loop = {
        "granule": 1, "sweeps": 9, "trigger": 1.5, "window": 4, "cooldown": 9, "warm_up": 1, "check_every": 5, "max_move": 0.5,
        "growth": 3.0, "retry_after": 70, "move_unit_s": 0.5, "max_local": 90, "weight": 2.0, "function": [(9, 1.0)],
    }  # fmt: skip
    measured = {"confidence": 0.9, "precision": 0.5, "min_reps": 2, "max_reps": 3, "max_seconds": 0.01}
    divided = {"epsilon": 0.5, "max_iterations": 3, "fit": "piecewise-speed", "partitioner": "gpa", "granule": 2}
    kernel, path = Nothing(), write_platform(tempfile.mkdtemp())
    platform = isochron.Platform.of_file(path)
    opened = {
        "comm": None, "platform": None, "grouping": "node", "blas": "embedded", "element": "f32", "store": "none", "models": None,
        "reserved_cores": [], "host_scope": "comm",
    }  # fmt: skip
    return {
        "Node": (isochron.Node, {"grouping": "node", "blas": "embedded"}),
        "Node.measure": (node.measure, {"rows": 8, "k": 8, "cols": [8], "dtype": "f32"} | measured),
        "Model": (isochron.Model, {"points": [(1, 1.0), (2, 2.0, 3, 0.5)], "fit": "cpm"}),
        "Model.speed": (model.speed, {"sizes": 1.0}),
        "Model.time": (model.time, {"sizes": [1.0, 2.0]}),
        "Model.units_within": (model.units_within, {"seconds": 1.0}),
        "Surface": (isochron.Surface, {"points": corners}),
        "Surface.speed": (surface.speed, {"height": 15.0, "width": 15.0}),
        "Surface.time": (surface.time, {"height": 15.0, "width": 15.0}),
        "TimeFunction": (isochron.TimeFunction, {"points": [(2, 1.0)], "granule": 2}),
        "TimeFunction.time": (function.time, {"units": 1}),
        "Limits": (isochron.Limits, {"cap": 5, "forbidden": {1}, "memory": (1, 2, 3)}),
        "split": (
            isochron.split,
            {"total": 4, "points": [[(9, 1.0)]], "fit": "cpm", "partitioner": "gpa", "granule": 1, "limits": [isochron.Limits()]},
        ),
        "Distribution.on_one": (isochron.Distribution.on_one, sizes | {"rank": 0, "ranks": 1, "order": "C"}),
        "Distribution.by_rows": (isochron.Distribution.by_rows, {"counts": [1, 3], "cols": 4, "order": "C"}),
        "Distribution.of_regions": (isochron.Distribution.of_regions, sizes | {"regions": [(0, 0, 4, 4)], "order": "C"}),
        "Distribution.block_cyclic": (
            isochron.Distribution.block_cyclic,
            sizes | dealt | {"block": (2, 2), "sources": (0, 0), "first_block": (1, 1)},
        ),
        "Distribution.of_descriptor": (
            isochron.Distribution.of_descriptor,
            dealt | {"descriptor": [1, 0, 4, 4, 2, 2, 0, 0, 4]},
        ),
        "Distribution.of_blocks": (
            isochron.Distribution.of_blocks,
            {"row_cuts": [0, 4], "col_cuts": [0, 4], "owners": [0], "ranks": 1, "order": "C"},
        ),
        "Distribution.sub": (on.sub, {"rows": (0, 1), "cols": (0, 1)}),
        "Distribution.local_shapes": (on.local_shapes, {"rank": 0}),
        "Distribution.elements": (on.elements, {"rank": 0}),
        "Distribution.fill": (on.fill, {"rank": 0, "arrays": rows.copy(), "element": lambda row, col: row + col}),
        "Session": (isochron.Session, opened),
        "Session.gemm": (
            session.gemm,
            {"a": rows, "b": rows, "c": rows.copy(), "alpha": 1.0, "beta": 0.0, "on": [on] * 3} | planned,
        ),
        "Session.prepare": (session.prepare, {"on": [on] * 3, "dtype": "f64"} | planned),
        "Session.benchmark": (session.benchmark, {"kernel": kernel, "d": 3, "unbound": True} | measured),
        "Session.partition": (
            session.partition,
            {"total": 9, "models": [kernel], "unbound": True} | measured | divided,
        ),
        "DynamicPartition.iterate": (session.partition(9).iterate, {"kernel": kernel}),
        "Session.recon": (session.recon, {"kernel": kernel, "sizes": [3, 5], "unbound": True} | measured),
        "Platform.of_file": (isochron.Platform.of_file, {"path": path, "models": None}),
        "search_plan": (
            isochron.search_plan,
            {"path": path, "m": 64, "n": 64, "k": 64, "models": None, "dtype": "f64", "blocks": [32], "explain": False, "equal_ranks": True},
        ),
        "timeof": (isochron.timeof, {"algorithm": Stages(), "platform": platform, "places": [0, 1]}),
        "choose": (isochron.choose, {"algorithms": [Stages()], "platform": platform}),
        "group": (isochron.group, {"places": [0], "comm": None}),
        "Product.run": (
            session.prepare([on] * 3, float, strategy="homogeneous").run,
            {"a": rows, "b": rows, "c": rows.copy(), "alpha": 1.0, "beta": 0.0},
        ),
        "measure_move_unit_s": (isochron.measure_move_unit_s, {"unit_bytes": 8, "comm": None}),
        "Rebalancer": (isochron.Rebalancer, {"units": 9, "comm": None} | loop),
        "Rebalancer.restore": (isochron.Rebalancer.restore, {"state": balancer.state(), "comm": None}),
        "Rebalancer.record": (balancer.record, {"units": 4, "seconds": 1.0}),
        "Rebalancer.observe": (balancer.observe, {"seconds": 1.0}),
        "Rebalancer.migrate": (balancer.migrate, {"array": rows, "out": rows.copy()}),
        "Rebalancer.migrate_blocks": (balancer.migrate_blocks, {"blocks": [rows] * 4}),
        "Rebalancer.note_move": (balancer.note_move, {"seconds": 1.0}),
    }


# One size is a number, and several are a list.
WRONG_TYPES = {"sizes": ["1", {}, object]}
WRONG_VALUES = {
    "platform": ["/no/such/file.toml"], "models": ["/no/such/folder"], "state": [b"nothing"], "on": [[]], "unbound": [], "explain": [], "equal_ranks": [],
    "Session.partition(models=...)": [[Nothing(), Nothing()]], "path": ["/no/such/file.toml"],
    "timeof(platform=...)": [], "choose(platform=...)": [],
}  # fmt: skip


def list_wrong_types(value):
    """Returns values of other types than this one's."""
    if isinstance(value, int):
        return ["1", 1.5, [1]]
    if isinstance(value, float):
        return ["1", {}, object]
    if isinstance(value, str):
        return [5, ["x"], 1.5]
    if isinstance(value, numpy.ndarray):
        return [5, "x", 1.5]
    if callable(value):
        return [5, "x"]
    if isinstance(value, list | tuple) and value and not isinstance(value[0], isochron.Distribution | isochron.Limits):
        if isinstance(value[0], list | tuple):
            return [5, [5], [object()]]
        return [5, [object()] * len(value), ["x"] * len(value)]
    return [5]


def list_wrong_values(value):
    """Returns values of this one's type that are wrong."""
    if isinstance(value, int):
        return [-1, HUGE]
    if isinstance(value, float):
        return [BEYOND_FLOATS]
    if isinstance(value, str):
        return ["no such"]
    if isinstance(value, set):
        return [{-1}, {HUGE}]
    if isinstance(value, tuple) and all(isinstance(each, int) for each in value):
        return [(-1,) * len(value), (HUGE,) * len(value), value[1:]]
    if isinstance(value, list) and value and all(isinstance(each, int) for each in value):
        return [[HUGE] * len(value)]
    if isinstance(value, list) and value and isinstance(value[0], tuple) and isinstance(value[0][-1], float):
        return [[(-1, *value[0][1:])], [(*value[0][:-1], BEYOND_FLOATS)], [(1, 2, 3, 4, 5)]]
    return []


def expect(kind, name, call, arguments):
    try:
        call(**arguments)
    except kind:
        return
    except Exception as error:
        raise AssertionError(f"{name}: {error!r}, which is no {kind.__name__}") from error
    raise AssertionError(f"{name} is no {kind.__name__}")


def check_arguments(session, stub):
    """Tries each argument of each call that the stub has."""
    calls = list_calls(session)
    wanted = {}
    for name, kind in stub.items():
        # What is written in Python, and schemes, which are there only while they are asked for.
        if name in ("Algorithm", "Scheme", "SharedBatches") or name.endswith("Group"):
            continue
        members = {name: kind}
        if isinstance(kind, type):
            members = {} if "__new__" not in vars(kind) else {name: kind}
            members |= {f"{name}.{member}": getattr(kind, member) for member in vars(kind) if not member.startswith("_")}
        for member, value in members.items():
            if callable(value) and not issubclass(kind if isinstance(kind, type) else object, Exception):
                names = [each for each in inspect.signature(value).parameters if each != "self"]
                if names:
                    wanted[member] = set(names)
    assert wanted == {name: set(arguments) for name, (_, arguments) in calls.items()}
    n_tried = 0
    for name, (call, arguments) in calls.items():
        call(**arguments)
        for argument, value in arguments.items():
            named = f"{name}({argument}=...)"
            for wrong in [object(), *WRONG_TYPES.get(argument, list_wrong_types(value))]:
                expect(TypeError, f"{named} with {wrong!r:.60}", call, arguments | {argument: wrong})
                n_tried += 1
            for wrong in WRONG_VALUES.get(named, WRONG_VALUES.get(argument, list_wrong_values(value))):
                expect(ValueError, f"{named} with {wrong!r:.60}", call, arguments | {argument: wrong})
                n_tried += 1
        expect(TypeError, f"{name} with an unknown argument", call, arguments | {"no_such_argument": 1})
    assert n_tried > 400, n_tried
