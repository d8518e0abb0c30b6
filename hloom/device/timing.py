"""How long work takes on a device, by what it computes and what it moves: a roofline.

A kernel takes what its start takes, and then as long as the slower of its operations at the peak
rate of their type and its bytes at the bandwidth of each memory space. Copies go at the rate of the
engine that makes them; collectives around a ring of links. Orders of magnitude matter: no result
depends on these times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hloom.device.device import Device, Engine
from hloom.device.ids import GlobalDeviceId
from hloom.device.topology import Topology

RING_PASSES = {"all-reduce": 2.0, "permute": 0.0, "permute-slices": 0.0}
"""How often the bytes of a collective go around, 0 for one hop; once where nothing is said."""
SINGLE = "f32"
"""Whose rate stands for types that a device says nothing of."""


def operations_per_s(device: Device, dtype: str, matrix: bool = False) -> float:
    """Peak rate; that of vectors where there are no matrix units for a type, that of f32 where
    nothing is known of it, one operation a cycle and unit where nothing is known at all."""
    compute = device.compute
    known = (
        (compute.operations_per_s(dtype, matrix=True) if matrix else None)
        or compute.operations_per_s(dtype)
        or compute.operations_per_s(SINGLE)
    )
    return known or compute.units * compute.clock_hz


def memory_ns(device: Device, moved: Mapping[int, float]) -> float:
    """Reading and writing so many bytes, by memory space; they are all busy at once."""
    times = [0.0]
    for id, size in moved.items():
        space = device.memory_space(id)
        times.append(size / space.bandwidth_bytes_per_s * 1e9 + space.latency_ns)
    return max(times)


def kernel_ns(
    device: Device,
    operations: float,
    moved: Mapping[int, float],
    dtype: str = SINGLE,
    matrix: bool = False,
) -> float:
    """A kernel on all units: `operations` of elements of a type, and bytes by memory space."""
    compute = operations / operations_per_s(device, dtype, matrix) * 1e9
    return device.costs.kernel_ns + max(compute, memory_ns(device, moved))


class Floor(NamedTuple):
    """The least time of some work, and what it is the time of: `start`, `operations`, `functions`,
    `memory` or `cache N`."""

    ns: float
    bound: str


def floor(
    device: Device,
    operations: Mapping[str, float],
    functions: float,
    moved: Mapping[int, float],
    matrix: bool = False,
) -> Floor:
    """What a kernel on all units takes at least, however it is written.

    The longest of: `operations` by element type at peak rates, `functions` (in cheap operations, as
    `Costs.weight` has them; these are not at a peak, but at the rate of ours), and bytes by memory
    space at the rate of the nearest cache that holds them all.
    """
    units = device.compute.units
    compute = [n / operations_per_s(device, of, matrix) for of, n in operations.items()]
    floors = [
        Floor(device.costs.kernel_ns, "start"),
        Floor(sum(compute) * 1e9, "operations"),
        Floor(functions * device.costs.operation_ns / units, "functions"),
    ]
    for id, size in moved.items():
        cache = device.level_of(size) if id == device.memory_spaces[0].id else None
        if cache is None:
            floors.append(Floor(memory_ns(device, {id: size}), "memory"))
        else:
            rate = cache.bandwidth_bytes_per_s * units
            floors.append(Floor(size / rate * 1e9, f"cache {cache.level}"))
    return max(floors)


NEARLY, HARDLY = 0.75, 1.25
"""Arrays that take so much of a cache are all in it, and hardly any more of them is: between, what
has been read last throws out what is read next."""


def moved_ns(
    device: Device, moved: Mapping[int, float], written: float, since: float = 0.0
) -> float:
    """What reading and writing so many bytes by memory space takes, `written` of them written,
    where so many bytes were used `since` they were last (0: these); unlike a floor, with the lines
    that main memory reads before they are written."""
    times = [0.0]
    units, main = device.compute.units, device.memory_spaces[0]
    for id, size in moved.items():
        if id != main.id:
            times.append(memory_ns(device, {id: size}))
            continue
        factor = device.costs.written_factor - 1.0
        far = (size + factor * min(written, size)) / main.bandwidth_bytes_per_s * 1e9
        for cache in reversed(device.caches):
            copies = -(-units // cache.units)
            if not cache.bandwidth_bytes_per_s:
                continue
            share = (max(size, since) / (cache.size_bytes * copies) - NEARLY) / (HARDLY - NEARLY)
            near = size / (cache.bandwidth_bytes_per_s * units) * 1e9
            far = near + (far - near) * min(1.0, max(0.0, share)) if far > near else far
        times.append(far + main.latency_ns)
    return max(times)


def routine_ns(device: Device, work_ns: float, moved: Mapping[int, float]) -> float:
    """A routine of the runtime, which one unit runs in so much time, were it not for memory."""
    return device.costs.kernel_ns + max(work_ns, memory_ns(device, moved))


def copy_engine(device: Device, source: int, target: int) -> Engine | None:
    """The fastest engine that copies from one memory space to another; None if kernels do."""
    able = [e for e in device.engines if e.kind == "copy" and (source, target) in e.copies]
    return max(able, key=lambda e: e.bandwidth_bytes_per_s, default=None)


def copy_ns(device: Device, size_bytes: float, source: int, target: int) -> float:
    """A copy between memory spaces, by an engine where there is one, else by a kernel."""
    engine = copy_engine(device, source, target)
    if engine is None:
        both: dict[int, float] = {source: size_bytes}
        both[target] = both.get(target, 0.0) + size_bytes
        return kernel_ns(device, 0, both)
    rate = engine.bandwidth_bytes_per_s or device.memory_space(source).bandwidth_bytes_per_s
    return engine.latency_ns + size_bytes / rate * 1e9


def collective_ns(
    topology: Topology, members: Sequence[GlobalDeviceId], size_bytes: float, kind: str
) -> float:
    """A collective over a ring of devices; `size_bytes` is what one of them has or gets."""
    n = len(members)
    if n < 2:
        return 0.0
    rates, latencies = [], []
    for one, other in zip(members, (*members[1:], members[0])):
        link = topology.link(one, other)
        engine = _communication(topology.member(one).device)
        rates.append(link.bandwidth_bytes_per_s if link else engine.bandwidth_bytes_per_s)
        latencies.append(link.latency_ns if link else engine.latency_ns)
    passes = RING_PASSES.get(kind, 1.0)
    share = passes * (n - 1) / n if passes else 1.0
    hops = max(1.0, passes * (n - 1))
    slowest = min(rates)
    return hops * max(latencies) + (size_bytes * share / slowest * 1e9 if slowest else 0.0)


def _communication(device: Device) -> Engine:
    """What a device sends over where no link is described; main memory if nothing is said."""
    for engine in device.engines:
        if engine.kind == "communication":
            return engine
    rate = device.memory_spaces[0].bandwidth_bytes_per_s
    return Engine(name="memory", kind="communication", bandwidth_bytes_per_s=rate)
