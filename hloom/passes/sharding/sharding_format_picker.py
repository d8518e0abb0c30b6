"""Writes all shardings in one way: devices one by one, or as a reshaped and transposed iota.

Both say the same. Lists are what old readers know; an iota is short however many devices there are,
and is found for any list that is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from hloom.ir.module import Module
from hloom.ir.values.sharding import Sharding
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.rewrite.driver import Trace
from hloom.types.mesh import IotaDevices


@register
class ShardingFormatPicker(Pass):
    """Rewrite the shardings of a module in one format; named ones become tiles."""

    name = "sharding-format-picker"

    format: Literal["iota", "list"] = "iota"
    """`iota`: `<=[4,2]T(1,0)` where the devices are one, else a list; `list`: always a list."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        for c in on_threads(module, threads):
            for i in c.instructions:
                i.sharding = self._counted(i.sharding, fired)
        module.spmd_output_sharding = self._counted(module.spmd_output_sharding, fired)
        module.spmd_parameters_shardings = tuple(
            [self._rewritten(s) for s in module.spmd_parameters_shardings]
        )
        return PassResult.of(fired)

    def _counted(self, s: Sharding | None, fired: Counter[str]) -> Sharding | None:
        if s is None:
            return None
        new = self._rewritten(s)
        fired["rewritten"] += new != s
        return new

    def _rewritten(self, s: Sharding) -> Sharding:
        if s.is_tuple:
            return replace(s, elements=tuple([self._rewritten(e) for e in s.elements]))
        s = s.tiled()
        if s.kind != "tiled":
            return s
        devices = tuple(s.tile_assignment().reshape(-1).tolist())
        iota = iota_of(devices) if self.format == "iota" else None
        return replace(s, devices=devices if iota is None else iota)


def iota_of(devices: Sequence[int]) -> IotaDevices | None:
    """The iota that a list of devices is; None where it is none."""
    digits: list[tuple[int, int]] = []
    """Size and stride of each digit that the list counts by, the fastest first."""
    left = tuple(devices)
    while len(left) > 1:
        size = _counting(left)
        if size == 1:
            return None
        digits.append((size, left[1] - left[0]))
        left = left[::size]
    # Sorted by what they count, the digits are those of one number.
    order = sorted(range(len(digits)), key=lambda k: -digits[k][1])
    sizes = tuple([digits[k][0] for k in order]) or (1,)
    permutation = tuple([order.index(k) for k in reversed(range(len(digits)))]) or (0,)
    iota = IotaDevices.of(sizes, permutation)
    return iota if tuple(iota.array().reshape(-1).tolist()) == tuple(devices) else None


def _counting(devices: Sequence[int]) -> int:
    """The largest number of neighbours that everywhere count up by the same; 1: there is none."""
    n, step = len(devices), devices[1] - devices[0]
    if step < 1:
        return 1
    for size in range(n, 1, -1):
        if n % size == 0 and all(
            devices[k] - devices[k - k % size] == (k % size) * step for k in range(n)
        ):
            return size
    return 1
