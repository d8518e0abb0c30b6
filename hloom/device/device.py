"""A device: what computes, where it keeps values, what moves them, and what that costs.

A device is a value: compared, printed, read from a file (`text.py`), given to whatever decides by
sizes or rates. Nothing of a machine stands anywhere else in the compiler.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hloom.base.diagnostics import UsageError
from hloom.device.costs import Costs, Rates

KINDS = ("cpu", "gpu")
ENGINE_KINDS = ("compute", "copy", "communication")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """One level of caches, between the registers and a memory space."""

    level: int
    size_bytes: int
    """Of one cache of the level."""
    line_bytes: int = 64
    units: int = 1
    """How many units share one."""
    bandwidth_bytes_per_s: float = 0.0
    """Of one unit, reading and writing; 0 where nothing is known of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """The units that compute (cores of a CPU, multiprocessors of a GPU); all are alike."""

    units: int
    clock_hz: float
    vector_bytes: int
    """Of the widest registers that floats are computed in; of a warp's, on a GPU."""
    vector_registers: int
    operations_per_cycle: Rates = ()
    """By element type, of one unit's vectors; a multiply-add is two operations."""
    matrix_operations_per_cycle: Rates = ()
    """By element type, of one unit's matrix engine, where it has one. Dense."""
    dot_products: tuple[tuple[str, str, int], ...] = ()
    """Instructions of the vectors that multiply narrow elements and add up neighbours: the types of
    both operands, and how many products go to each sum (`["bf16", "bf16", 2]`)."""
    matrix_tiles: tuple[tuple[str, str, int], ...] = ()
    """Types of operands of which one instruction multiplies tiles of 16 rows by 16 columns, and
    elements of K at a time (AMX: `["bf16", "bf16", 32]`)."""
    scratchpad_bytes: int = 0
    """Memory that the code itself manages, for each unit (a GPU's shared memory)."""

    @property
    def vector_floats(self) -> int:
        """Lanes of f32 in a vector."""
        return max(self.vector_bytes // 4, 1)

    def operations_each_cycle(self, dtype: str) -> float:
        """On floats, by the vectors of one unit at their peak rate; of f32 where nothing is known
        of the type."""
        rates = dict(self.operations_per_cycle)
        return rates.get(dtype) or rates.get("f32") or self.vector_bytes / 4

    @property
    def cycle_ns(self) -> float:
        """One tick of the clock."""
        return 1e9 / self.clock_hz

    def flop_ns(self, dtype: str) -> float:
        """One operation at that rate."""
        return 1e9 / (self.operations_each_cycle(dtype) * self.clock_hz)

    def operations_per_s(self, dtype: str, matrix: bool = False) -> float | None:
        """Peak rate of all units; None where nothing is known of the type."""
        table = self.matrix_operations_per_cycle if matrix else self.operations_per_cycle
        rate = dict(table).get(dtype)
        return None if rate is None else rate * self.units * self.clock_hz


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySpace:
    """Memory of one kind: the values whose layouts say `S(id)` live there."""

    id: int
    name: str
    size_bytes: int
    bandwidth_bytes_per_s: float
    """All units together, reading."""
    alignment_bytes: int = 64
    """At which allocations begin."""
    latency_ns: float = 0.0

    def read_ns(self, size_bytes: float) -> float:
        """Reading so many bytes, by all units together."""
        return size_bytes / self.bandwidth_bytes_per_s * 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What works by itself beside the others: a stream of kernels, or what copies."""

    name: str
    kind: str
    copies: tuple[tuple[int, int], ...] = ()
    """Pairs of memory spaces, from and to, between which it copies."""
    bandwidth_bytes_per_s: float = 0.0
    latency_ns: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device. `UsageError` for a description that says what cannot be."""

    name: str
    kind: str
    compute: Compute
    caches: tuple[Cache, ...] = ()
    """From the nearest one on."""
    memory_spaces: tuple[MemorySpace, ...] = ()
    """The first is the default one, `S(0)`."""
    engines: tuple[Engine, ...] = ()
    costs: Costs = field(default_factory=Costs)
    sources: tuple[str, ...] = ()
    """Where the numbers are from."""

    def __post_init__(self) -> None:
        self._check(self.kind in KINDS, f"kind {self.kind!r}", f"one of {', '.join(KINDS)}")
        self._check(self.compute.units >= 1, f"{self.compute.units} units", "at least one computes")
        self._check(self.compute.clock_hz > 0, f"a clock of {self.compute.clock_hz} Hz", "above 0")
        ids = [space.id for space in self.memory_spaces]
        self._check(len(set(ids)) == len(ids), "two memory spaces of one id", "ids are unique")
        self._check(bool(ids) and ids[0] == 0, f"memory spaces {ids}", "the first one has id 0")
        for space in self.memory_spaces:
            n = space.alignment_bytes
            what = f"an alignment of {n} bytes in memory space {space.id}"
            self._check(n > 0 and n & (n - 1) == 0, what, "a power of two")
        levels = [cache.level for cache in self.caches]
        self._check(levels == sorted(set(levels)), f"caches of levels {levels}", "in order, once")
        for engine in self.engines:
            what = f"engine {engine.name!r} of kind {engine.kind!r}"
            self._check(engine.kind in ENGINE_KINDS, what, f"one of {', '.join(ENGINE_KINDS)}")
            for pair in engine.copies:
                what = f"engine {engine.name!r} copying between memory spaces {list(pair)}"
                self._check(set(pair) <= set(ids), what, f"there are {ids}")

    def _check(self, holds: bool, what: str, hint: str) -> None:
        if not holds:
            raise UsageError(f"device {self.name!r} has {what}", rule="device", hint=hint)

    def cache(self, level: int) -> Cache | None:
        """The cache of a level, if there is one."""
        return next((c for c in self.caches if c.level == level), None)

    def level_of(self, size_bytes: float) -> Cache | None:
        """The nearest cache whose copies hold so much together; None: main memory. Caches of which
        no bandwidth is known are passed over."""
        for cache in self.caches:
            copies = -(-self.compute.units // cache.units)
            if cache.bandwidth_bytes_per_s and size_bytes <= cache.size_bytes * copies:
                return cache
        return None

    def byte_ns(self, size_bytes: float) -> float:
        """Moving a byte to or from the nearest memory that holds so many, by one unit."""
        cache = self.level_of(size_bytes)
        return 1e9 / cache.bandwidth_bytes_per_s if cache else self.costs.byte_ns

    @property
    def near_bytes(self) -> int:
        """A unit's part of the second-level cache, or of the nearest one if there is no other."""
        cache = self.cache(2) or (self.caches[0] if self.caches else None)
        return cache.size_bytes // cache.units if cache else 1 << 20

    @property
    def nearest_bytes(self) -> int:
        """A unit's part of the nearest cache."""
        cache = self.caches[0] if self.caches else None
        return cache.size_bytes // cache.units if cache else 1 << 15

    @property
    def line_bytes(self) -> int:
        """What the nearest cache moves at once."""
        return self.caches[0].line_bytes if self.caches else 64

    @property
    def last_bytes(self) -> int:
        """One cache of the last level; of main memory's rate where there is none."""
        return self.caches[-1].size_bytes if self.caches else 1 << 25

    def memory_space(self, id: int) -> MemorySpace:
        """The memory space that layouts call `S(id)`; `UsageError` if it has none of that id."""
        for space in self.memory_spaces:
            if space.id == id:
                return space
        spaces = ", ".join(f"S({s.id}) {s.name}" for s in self.memory_spaces)
        raise UsageError(
            f"{self.name} has no memory space S({id})", rule="memory-space", hint=f"it has {spaces}"
        )
