"""Products along axes that nothing suggests: what their operands and results are cut by may leave
devices that all do the same.

Of an assignment that leaves axes idle some more are made, each with one factor cut further along
them. They are tried where the work that this saves a device is worth a collective. Axes along which
the program cuts nothing at all stay idle, and so do products of which nothing is cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from hloom.passes.partition.exchanged_sums import SumExchange
from hloom.passes.partition.factor_axes import Assignment, is_even
from hloom.passes.partition.reshard_plan import STEP_BYTES
from hloom.passes.partition.tiling import Axes

if TYPE_CHECKING:
    from hloom.passes.partition.assignment import Loops
    from hloom.passes.partition.partitioner import Walk


def busier(
    walk: Walk, f: Loops, options: Iterable[Assignment]
) -> Iterator[tuple[Assignment, Axes]]:
    """The same assignments with a factor cut along axes that they leave idle, and those axes."""
    hopeful = walk.of.exchange is SumExchange.HOPEFUL
    cutting = [a for a in walk.mesh.axes if walk.mesh.sizes[a] > 1] if hopeful else walk.of.cutting
    for option in options:
        used = {a for axes in option.values() for a in axes} | walk.region
        idle = tuple([a for a in cutting if a not in used])
        work = f.work / walk.mesh.count(tuple(used - walk.region))
        if not option or not idle or work * f.work_bytes < STEP_BYTES:
            continue
        for axes in dict.fromkeys((idle, *[(a,) for a in idle])):
            for k in range(len(f.sizes)):
                own = (*option.get(k, ()), *axes)
                if is_even(walk, f, k, own):
                    yield {**option, k: own}, axes
