"""Programs of whole arrays, partitioned: each device runs its part of one on its own arrays.

Shardy, which jaxlib brings, says how every value stands on the devices; the partitioner cuts the
program accordingly. Where a sharding does not divide an argument or a result evenly it is whole on
every device, as JAX has no arrays with parts of several sizes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from hloom.api import (
    REPLICATED,
    Fault,
    Module,
    Sharding,
    ShardSpec,
    copy_module,
    partitioned_anyway,
    pass_named,
    sharding_bytes,
)
from hloom.plugin.donation import pair_donors
from hloom.plugin.regions import with_regions

LOG = logging.getLogger("hloom")


def partition(
    module: Module, partitions: int, *, is_strict: bool
) -> tuple[Module, tuple[ShardSpec, ...], tuple[ShardSpec, ...]]:
    """What one device runs, and how arguments and results stand.

    Where hloom has a fault every device computes the whole, with a warning, unless faults are to be
    raised.
    """
    arguments, results = _shard_specs(module)
    module.num_partitions = partitions
    _fix_ends(module, arguments, results)
    with_regions(module)
    faults: list[Fault] = []
    local, replicated = partitioned_anyway(module, None if is_strict else faults)
    for fault in faults:
        LOG.warning("%s: hloom has a fault there, please report it: %s", module.name, fault)
    for each in replicated:
        LOG.debug(
            "%s: %%%s (%s) is computed whole on every device, which receives %d bytes for it: %s",
            *(module.name, each.name, each.opcode, each.bytes, each.reason),
        )
    pair_donors(local)
    return local, arguments, results


def with_parameter_shardings(module: Module) -> Module:
    """The module for those who read it, whose parameters say of which whole arrays they are parts.
    The program itself does not: what a device runs would be partitioned again."""
    shardings = module.spmd_parameters_shardings
    if not shardings or len(shardings) != len(module.entry.parameters):
        return module
    marked = copy_module(module)
    for p, sharding in zip(marked.entry.parameters, shardings, strict=True):
        p.sharding = sharding
    pass_named("sharding-format-picker").run(marked)  # as XLA writes them
    return marked


def _shard_specs(module: Module) -> tuple[tuple[ShardSpec, ...], tuple[ShardSpec, ...]]:
    """How parameters and results stand on the devices."""
    entry = module.entry
    arguments = tuple([_shard_spec(p.shape, p.sharding) for p in entry.parameters])
    shape, stated = entry.root.shape, module.spmd_output_sharding or entry.root.sharding
    leaves = [leaf for _, leaf in shape.subshapes() if not leaf.is_tuple]
    return arguments, tuple(
        [_shard_spec(s, stated and stated.for_leaf(k)) for k, s in enumerate(leaves)]
    )


def _shard_spec(shape: Any, sharding: Sharding | None) -> ShardSpec:
    """How one array stands; whole where it is not cut evenly."""
    sharding = None if sharding is None else sharding.tiled()
    if sharding is None or sharding.kind != "tiled" or not shape.is_array:
        return ShardSpec()
    sizes, counts = sharding.tile_sizes(shape.dims), sharding.tile_dims[: shape.rank]
    is_even = all(size * n == whole for size, n, whole in zip(sizes, counts, shape.dims))
    return ShardSpec(sharding_bytes(sharding)) if is_even else ShardSpec()


def _fix_ends(module: Module, arguments: Sequence[ShardSpec], results: Sequence[ShardSpec]) -> None:
    """Arguments and results stand as callers have them, whatever else would be possible."""
    entry = module.entry
    for p, s in zip(entry.parameters, arguments, strict=True):
        if not s.sharding and p.shape.is_array:
            p.sharding = REPLICATED
    root = entry.root
    stated = module.spmd_output_sharding or root.sharding
    leaves = [
        REPLICATED if stated is None or not s.sharding else stated.for_leaf(k)
        for k, s in enumerate(results)
    ]
    output = Sharding.tuple_of(*leaves) if root.shape.is_tuple else leaves[0]
    module.spmd_output_sharding = output
    if root.opcode == "tuple":
        root.sharding = output
