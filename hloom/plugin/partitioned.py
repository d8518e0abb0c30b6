"""Programs of whole arrays, partitioned: each device runs its part of one on its own arrays.

Shardy, which jaxlib brings, says how every value stands on the devices; the partitioner cuts the
program accordingly. Where a sharding does not divide an argument or a result evenly it is whole on
every device, as JAX has no arrays with parts of several sizes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from hloom.api import (
    REPLICATED,
    HloError,
    Module,
    Sharding,
    ShardSpec,
    is_fault,
    partition_in_place,
)
from hloom.plugin.donation import pair_donors
from hloom.plugin.regions import with_regions

LOG = logging.getLogger("hloom")
PARTITION = "partition"
"""The rule of errors that say why a program is not partitioned."""


class NotPartitioned(Exception):
    """Why a program is run on whole arrays."""


def partition(
    module: Module,
    partitions: int,
    arguments: Sequence[ShardSpec],
    results: Sequence[ShardSpec],
    *,
    is_strict: bool,
) -> None:
    """Make the module what one of its devices runs; `NotPartitioned` leaves it in any state.

    A fault of hloom's own is a reason, too, unless faults are to be raised.
    """
    module.num_partitions = partitions
    _fix_ends(module, arguments, results)
    with_regions(module)
    try:
        run = partition_in_place(module)
    except Exception as error:
        if isinstance(error, HloError) and error.rule == PARTITION:
            raise NotPartitioned(str(error)) from None
        if is_strict or not is_fault(error):
            raise
        words = " ".join(str(error).split())
        raise NotPartitioned(
            f"hloom has a fault there, please report it: {type(error).__name__}: {words}"
        ) from error
    for each in run.replicated:
        LOG.debug(
            "%s: %%%s (%s) is computed whole on every device, which receives %d bytes for it: %s",
            *(module.name, each.name, each.opcode, each.bytes, each.reason),
        )
    pair_donors(module)


def _fix_ends(module: Module, arguments: Sequence[ShardSpec], results: Sequence[ShardSpec]) -> None:
    """Arguments and results stand as callers have them, whatever else would be possible."""
    entry = module.entry
    for p, s in zip(entry.parameters, arguments, strict=True):
        if not s.offsets and p.shape.is_array:
            p.sharding = REPLICATED
    root = entry.root
    stated = module.spmd_output_sharding or root.sharding
    leaves = [
        REPLICATED if stated is None or not s.offsets else stated.for_leaf(k)
        for k, s in enumerate(results)
    ]
    output = Sharding.tuple_of(*leaves) if root.shape.is_tuple else leaves[0]
    module.spmd_output_sharding = output
    if root.opcode == "tuple":
        root.sharding = output
