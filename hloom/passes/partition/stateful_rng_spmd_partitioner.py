"""The pass `stateful-rng-spmd-partitioner`: random numbers are drawn where they are needed.

`spmd-partitioner` gives every device what the first one has drawn, whole, and lets it take its
part. Here each device draws its part, from the state of the first device and a key for each tile:
devices that have the same tile have the same numbers, others independent ones. Which numbers these
are HLO leaves open; nothing of the array's size is drawn twice or sent.
"""

from __future__ import annotations

from typing import ClassVar

from hloom.passes.partition.spmd_partitioner import SpmdPartitioner
from hloom.passes.pass_ import register


@register
class StatefulRngSpmdPartitioner(SpmdPartitioner):
    """Cut a program as `spmd-partitioner` does; each device draws its own part of rng."""

    name = "stateful-rng-spmd-partitioner"
    draws_tiles: ClassVar[bool] = True
