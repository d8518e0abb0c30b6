"""The machine at hand, described as any other: what the system says of its cores and caches.

Nothing is measured here: rates follow from the vectors that the caller says there are, bandwidths
from the costs. A number that the system does not tell is that of the measurements of `Costs`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hloom.device.costs import Costs
from hloom.device.device import Cache, Compute, Device, Engine, MemorySpace

DEFAULT_CLOCK_HZ = 2.6e9
TILE_COLUMNS = 16
DEFAULT_MEMORY_BYTES = 8 << 30
DEFAULT_CACHES = (
    Cache(level=1, size_bytes=32 << 10),
    Cache(level=2, size_bytes=1 << 20),
    Cache(level=3, size_bytes=32 << 20, units=8),
)
CACHE_BYTES_PER_CYCLE = {1: 64.0, 2: 32.0, 3: 20.0}
"""By level, what one core reads and writes of a cache; measured by adding vectors on a Zen 4."""


def probed_cpu(
    units: int,
    vector_bytes: int,
    vector_registers: int,
    *,
    name: str = "host",
    operations_per_lane: float = 4.0,
    dot_products: tuple[tuple[str, str, int], ...] = (),
    matrix_tiles: tuple[tuple[str, str, int], ...] = (),
    root: Path = Path("/"),
) -> Device:
    """This machine, of which `units` cores may be used. `root` holds proc/ and sys/.

    `operations_per_lane`: of floats in a cycle; 4 are two pipes of multiply-adds.
    `dot_products`: as `Compute` has them; they run at the rate of multiply-adds.
    `matrix_tiles`: as `Compute` has them; one takes as many cycles as it has rows.
    """
    costs, clock_hz = Costs(), _clock_hz(root) or DEFAULT_CLOCK_HZ
    lanes = vector_bytes // 4
    rate = lanes * operations_per_lane
    rates = {"f32": rate, "f64": rate / 2}
    for *types, group in dot_products:  # of either operand: the other is turned into its like
        rates |= dict.fromkeys(map(str, types), rate * group)
    tiled = {a: 2.0 * TILE_COLUMNS * depth for a, _, depth in matrix_tiles}
    compute = Compute(
        units=units,
        clock_hz=clock_hz,
        vector_bytes=vector_bytes,
        vector_registers=vector_registers,
        operations_per_cycle=tuple(sorted(rates.items())),
        matrix_operations_per_cycle=tuple(sorted(tiled.items())),
        dot_products=dot_products,
        matrix_tiles=matrix_tiles,
    )
    memory = MemorySpace(
        id=0,
        name="device",
        size_bytes=_memory_bytes(root) or DEFAULT_MEMORY_BYTES,
        bandwidth_bytes_per_s=units * 1e9 / costs.byte_ns,
    )
    return Device(
        name=name,
        kind="cpu",
        compute=compute,
        caches=with_bandwidths(probed_caches(root, units) or DEFAULT_CACHES, clock_hz),
        memory_spaces=(memory, *host_spaces(memory)),
        engines=(Engine(name="compute", kind="compute"),),
        costs=costs,
        sources=("what the system says", "hloom/device/costs.py"),
    )


def with_bandwidths(caches: Iterable[Cache], clock_hz: float) -> tuple[Cache, ...]:
    """Caches with the bandwidths that such caches have at this clock."""
    rates = {level: each * clock_hz for level, each in CACHE_BYTES_PER_CYCLE.items()}
    return tuple([replace(c, bandwidth_bytes_per_s=rates.get(c.level, 0.0)) for c in caches])


def host_spaces(main: MemorySpace) -> tuple[MemorySpace, ...]:
    """The host's memory of a processor, which is its main memory: what a program puts there is
    apart from the rest, and as near."""
    names = {5: "pinned_host", 6: "unpinned_host"}
    return tuple([replace(main, id=id, name=name) for id, name in names.items()])


def probed_caches(root: Path, units: int) -> tuple[Cache, ...]:
    """The data caches of the first core, nearest first; empty where the system does not tell.

    Virtual machines have been seen to tell of caches of no size: those are left out.
    """
    caches: dict[int, Cache] = {}
    folder = root / "sys/devices/system/cpu/cpu0/cache"
    for index in sorted(folder.glob("index*")):
        level, kind, size, shared, line = [
            _text(index / name)
            for name in ("level", "type", "size", "shared_cpu_list", "coherency_line_size")
        ]
        if kind == "Instruction" or not level.isdigit() or not (size_bytes := _bytes(size)):
            continue
        caches[int(level)] = Cache(
            level=int(level),
            size_bytes=size_bytes,
            line_bytes=int(line) if line.isdigit() and int(line) else 64,
            units=max(1, min(units, _count(shared))),
        )
    return tuple([caches[level] for level in sorted(caches)])


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""


def _bytes(text: str) -> int:
    """`1024K` or `32M`, in bytes; 0 for anything else."""
    unit = {"K": 10, "M": 20, "G": 30}.get(text[-1:])
    digits = text if unit is None else text[:-1]
    return int(digits) << (unit or 0) if digits.isdigit() else 0


def _count(text: str) -> int:
    """How many numbers a list such as `0-3,8` has; 1 where it is none."""
    total = 0
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            return 1
        total += int(last or first) - int(first) + 1
    return total


def _clock_hz(root: Path) -> float | None:
    """The highest clock of the first core, where the system tells."""
    text = _text(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    return float(text) * 1e3 if text.isdigit() and int(text) else None


def _memory_bytes(root: Path) -> int | None:
    for words in _words(_text(root / "proc/meminfo").splitlines()):
        if words[0] == "MemTotal:" and words[1:2] and words[1].isdigit():
            return int(words[1]) << 10
    if root == Path("/") and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _words(lines: Iterable[str]) -> list[list[str]]:
    return [line.split() for line in lines if line.strip()]
