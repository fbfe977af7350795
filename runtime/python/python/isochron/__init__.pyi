"""Load balancing on unlike nodes, and matrix products that are balanced by it."""

from collections.abc import Callable, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeAlias, overload

from numpy.typing import DTypeLike, NDArray

__version__: str

_Element: TypeAlias = DTypeLike | Literal["f32", "f64", "c32", "c64"]
_Order: TypeAlias = Literal["C", "F"]
_Fit: TypeAlias = Literal["piecewise-speed", "piecewise-time", "akima", "raw-piecewise", "cpm"]
_Point: TypeAlias = tuple[int, float] | tuple[int, float, int, float]
_Matrix: TypeAlias = NDArray[Any] | Sequence[NDArray[Any]] | None
_Dimension: TypeAlias = Literal["auto", "c", "k"]
_Strategy: TypeAlias = Literal["adaptive", "fpm", "multi-cpm", "single-cpm", "homogeneous"]

class _Kernel(Protocol):
    def initialize(self, d: int, /) -> Any: ...
    def execute(self) -> Any: ...
    def finalize(self) -> Any: ...

class _TimeModel(Protocol):
    def time(self, units: float, /) -> float: ...
    def update(self, point: tuple[int, float, int, float], /) -> Any: ...

class IsochronError(Exception): ...
class InputError(IsochronError, ValueError): ...
class RunError(IsochronError): ...

class Device:
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> Literal["cpu", "cuda"]: ...
    @property
    def blas(self) -> str: ...
    @property
    def cores(self) -> list[int]: ...

class Node:
    def __new__(cls, *, grouping: str | None = None, blas: str | None = None) -> Self: ...
    @property
    def devices(self) -> list[Device]: ...
    @property
    def notices(self) -> list[str]: ...
    def measure(
        self,
        rows: int,
        k: int,
        cols: Sequence[int],
        *,
        dtype: _Element | None = None,
        confidence: float = ...,
        precision: float = ...,
        min_reps: int = ...,
        max_reps: int = ...,
        max_seconds: float = ...,
    ) -> list[Model]: ...

class Model:
    def __new__(cls, points: Sequence[_Point], fit: _Fit = "piecewise-speed") -> Self: ...
    @property
    def points(self) -> list[tuple[int, float, int, float]]: ...
    @property
    def fit(self) -> str: ...
    @overload
    def speed(self, sizes: float) -> float: ...
    @overload
    def speed(self, sizes: Sequence[float]) -> list[float]: ...
    @overload
    def time(self, sizes: float) -> float: ...
    @overload
    def time(self, sizes: Sequence[float]) -> list[float]: ...
    def units_within(self, seconds: float) -> float: ...

class Surface:
    def __new__(cls, points: Sequence[tuple[int, int, float]]) -> Self: ...
    def speed(self, height: float, width: float) -> float: ...
    def time(self, height: float, width: float) -> float: ...

class TimeFunction:
    def __new__(cls, points: Sequence[tuple[int, float]], granule: int = 1) -> Self: ...
    @property
    def points(self) -> list[tuple[int, float]]: ...
    @property
    def max_units(self) -> int: ...
    def time(self, units: int) -> float | None: ...

class Limits:
    def __new__(
        cls,
        *,
        cap: int | None = None,
        forbidden: set[int] = ...,
        memory: tuple[int, int, int] | None = None,
    ) -> Self: ...
    @property
    def max_units(self) -> int | None: ...

class Partition:
    @property
    def units(self) -> list[int]: ...
    @property
    def times(self) -> list[float]: ...

def split(
    total: int,
    points: Sequence[Model | Sequence[tuple[int, float]]],
    *,
    fit: _Fit = "piecewise-speed",
    partitioner: Literal["gpa", "npa", "hpopta"] = "gpa",
    granule: int = 1,
    limits: Sequence[Limits] = ...,
) -> Partition: ...

class Distribution:
    @staticmethod
    def on_one(rows: int, cols: int, rank: int = 0, ranks: int = 1, *, order: _Order = "C") -> Distribution: ...
    @staticmethod
    def by_rows(counts: Sequence[int], cols: int, *, order: _Order = "C") -> Distribution: ...
    @staticmethod
    def of_regions(
        rows: int, cols: int, regions: Sequence[Sequence[int]], *, order: _Order = "C"
    ) -> Distribution: ...
    @staticmethod
    def block_cyclic(
        rows: int,
        cols: int,
        block: tuple[int, int],
        grid: tuple[int, int],
        *,
        ranks: int | None = None,
        sources: tuple[int, int] = (0, 0),
        first_block: tuple[int, int] | None = None,
        grid_order: _Order = "C",
        order: _Order = "F",
    ) -> Distribution: ...
    @staticmethod
    def of_descriptor(
        descriptor: Sequence[int],
        grid: tuple[int, int],
        *,
        ranks: int | None = None,
        grid_order: _Order = "C",
        order: _Order = "F",
    ) -> Distribution: ...
    @staticmethod
    def of_blocks(
        row_cuts: Sequence[int],
        col_cuts: Sequence[int],
        owners: Sequence[int],
        ranks: int,
        *,
        order: _Order = "C",
    ) -> Distribution: ...
    def sub(self, rows: tuple[int, int], cols: tuple[int, int]) -> Distribution: ...
    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def ranks(self) -> int: ...
    @property
    def order(self) -> _Order: ...
    def local_shapes(self, rank: int) -> list[tuple[int, int]]: ...
    def elements(self, rank: int) -> list[tuple[list[int], list[int]]]: ...
    def fill(
        self,
        rank: int,
        arrays: NDArray[Any] | Sequence[NDArray[Any]],
        element: Callable[[NDArray[Any], NDArray[Any]], Any],
    ) -> None: ...

class Session:
    def __new__(
        cls,
        comm: Any | None = None,
        *,
        platform: str | PathLike[str] | None = None,
        grouping: str | None = None,
        blas: str | None = None,
        element: _Element | None = None,
        store: Literal["none", "read", "read-write"] | None = None,
        models: str | PathLike[str] | None = None,
        reserved_cores: Sequence[int] = ...,
        host_scope: Literal["world", "comm"] | None = None,
    ) -> Self: ...
    @property
    def rank(self) -> int: ...
    @property
    def ranks(self) -> int: ...
    @property
    def host(self) -> str: ...
    @property
    def mpi(self) -> str: ...
    @property
    def devices(self) -> list[Device]: ...
    @property
    def last_run(self) -> LastRun | None: ...
    def gemm(
        self,
        a: _Matrix,
        b: _Matrix,
        c: _Matrix = None,
        *,
        alpha: complex | None = None,
        beta: complex | None = None,
        ops: str = "NN",
        on: Sequence[Distribution] | None = None,
        block: int | None = None,
        panel: int | None = None,
        split: _Dimension | None = None,
        strategy: _Strategy | None = None,
        epsilon: float | None = None,
    ) -> Any: ...
    def prepare(
        self,
        on: Sequence[Distribution],
        dtype: _Element,
        *,
        ops: str = "NN",
        block: int | None = None,
        panel: int | None = None,
        split: _Dimension | None = None,
        strategy: _Strategy | None = None,
        epsilon: float | None = None,
    ) -> Product: ...
    def benchmark(
        self,
        kernel: _Kernel,
        d: int,
        *,
        confidence: float = ...,
        precision: float = ...,
        min_reps: int = ...,
        max_reps: int = ...,
        max_seconds: float = ...,
        unbound: bool = ...,
    ) -> tuple[int, float, int, float]: ...
    def partition(
        self,
        total: int,
        models: Sequence[_TimeModel] | None = None,
        *,
        epsilon: float = ...,
        max_iterations: int = ...,
        fit: _Fit = ...,
        partitioner: Literal["gpa", "npa"] = ...,
        granule: int = ...,
        confidence: float = ...,
        precision: float = ...,
        min_reps: int = ...,
        max_reps: int = ...,
        max_seconds: float = ...,
        unbound: bool = ...,
    ) -> DynamicPartition: ...
    def recon(
        self,
        kernel: _Kernel,
        sizes: Sequence[int],
        *,
        confidence: float = ...,
        precision: float = ...,
        min_reps: int = ...,
        max_reps: int = ...,
        max_seconds: float = ...,
        unbound: bool = ...,
    ) -> Platform: ...
    def report(self) -> dict[str, Any]: ...
    def save_models(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]: ...

class DynamicPartition:
    def iterate(self, kernel: _Kernel) -> bool: ...
    @property
    def ended(self) -> bool: ...
    @property
    def units(self) -> list[int]: ...
    @property
    def times(self) -> list[float]: ...

class Algorithm:
    def processes(self) -> int: ...
    def volume(self, process: int) -> float: ...
    def size(self, process: int) -> float: ...
    def bytes(self, source: int, to: int) -> float: ...
    def scheme(self, order: Scheme) -> None: ...

class Scheme:
    def compute(self, process: int, percent: float) -> None: ...
    def transfer(self, source: int, to: int, percent: float) -> None: ...
    def par(self) -> Self: ...
    def seq(self) -> Self: ...
    def repeat(self, times: int) -> Self: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]: ...

class Platform:
    @staticmethod
    def of_file(path: str | PathLike[str], models: str | PathLike[str] | None = None) -> Platform: ...
    def __len__(self) -> int: ...

class PredictedRun:
    @property
    def seconds(self) -> float: ...
    @property
    def compute_s(self) -> float: ...
    @property
    def slowest(self) -> int: ...
    @property
    def bounds_s(self) -> tuple[float, float]: ...
    @property
    def binds(self) -> tuple[str, int]: ...

class Choice:
    @property
    def chosen(self) -> int: ...
    @property
    def places(self) -> list[int]: ...
    @property
    def run(self) -> PredictedRun: ...
    @property
    def is_exact(self) -> bool: ...
    @property
    def seconds(self) -> list[float]: ...

def search_plan(
    path: str | PathLike[str],
    m: int,
    n: int,
    k: int,
    *,
    models: str | PathLike[str] | None = None,
    dtype: _Element | None = None,
    blocks: Sequence[int] | None = None,
    explain: bool = False,
    equal_ranks: bool = False,
) -> dict[str, Any]: ...
def timeof(algorithm: Algorithm, platform: Platform, places: Sequence[int]) -> PredictedRun: ...
def choose(algorithms: Sequence[Algorithm], platform: Platform) -> Choice: ...
def group(places: Sequence[int], comm: Any | None = None) -> Any | None: ...

class LastRun:
    @property
    def in_place(self) -> tuple[bool, bool, bool]: ...
    @property
    def messages(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def seconds(self) -> float: ...

class Product:
    def run(
        self,
        a: _Matrix,
        b: _Matrix,
        c: _Matrix = None,
        *,
        alpha: complex | None = None,
        beta: complex | None = None,
    ) -> Any: ...
    def plan(self) -> dict[str, Any]: ...

def measure_move_unit_s(unit_bytes: int, comm: Any | None = None) -> float: ...

class Rebalancer:
    def __new__(
        cls,
        units: int,
        comm: Any | None = None,
        *,
        granule: int = ...,
        sweeps: int | None = ...,
        trigger: float = ...,
        window: int = ...,
        cooldown: int = ...,
        warm_up: int = ...,
        check_every: int = ...,
        max_move: float = ...,
        growth: float = ...,
        retry_after: int = ...,
        move_unit_s: float | None = ...,
        max_local: int | None = ...,
        weight: float = ...,
        function: Sequence[tuple[int, float]] | None = ...,
    ) -> Self: ...
    @staticmethod
    def restore(state: bytes, comm: Any | None = None) -> Rebalancer: ...
    @property
    def units(self) -> list[int]: ...
    @property
    def part(self) -> range: ...
    @property
    def neighbours(self) -> tuple[int | None, int | None]: ...
    @property
    def moves(self) -> int: ...
    def shares(self) -> list[float]: ...
    def step(self) -> Step: ...
    def begin(self) -> None: ...
    def end(self) -> None: ...
    def record(self, units: int, seconds: float) -> None: ...
    def ignore_sweep(self) -> None: ...
    def balance(self) -> bool: ...
    def observe(self, seconds: float) -> bool: ...
    def migrate(self, array: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]: ...
    def migrate_blocks(self, blocks: Sequence[NDArray[Any]]) -> list[NDArray[Any]]: ...
    def note_move(self, seconds: float) -> None: ...
    def report(self) -> dict[str, Any]: ...
    def state(self) -> bytes: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]: ...

class Step:
    @property
    def moved(self) -> bool: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> Literal[False]: ...
