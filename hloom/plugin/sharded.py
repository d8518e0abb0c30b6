# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Programs of several devices: each computes nothing alone, the whole is computed once.

All devices of hloom are one machine, so a program whose arrays are spread over them can be run once
on whole arrays: arguments are put together from their shards, results are cut into theirs. That is
always right, whatever the shardings inside the program, which then mean nothing. Code that is
written for one device (`shard_map`, `pmap`) is taken out before (`manual.py`); what is left of it
is refused here.

Where results stand is what Shardy's propagation, which jaxlib brings, says of the program.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

from hloom.api import HloError, Module, ShardSpec, sharding_bytes
from hloom.plugin.inlining import inline_calls, reshape_before
from hloom.plugin.inspection import name_functions

# Operations and custom calls that only code for one device has.
OF_ONE_DEVICE = frozenset(
    """all-gather all-gather-start all-reduce all-reduce-start all-to-all collective-broadcast
    collective-permute collective-permute-start collective-reduce partition-id replica-id
    ragged-all-to-all reduce-scatter""".split()
)
BROADCAST = "stablehlo.broadcast_in_dim"
BOUNDARIES = frozenset(
    """SPMDFullToShardShape SPMDShardToFullShape xla.sdy.GlobalToLocalShape
    xla.sdy.LocalToGlobalShape""".split()
)


@contextmanager
def parsed(code: bytes) -> Iterator[Any]:
    """The module of MLIR in an artifact or bytecode, in its own context."""
    from jax._src.interpreters.mlir import make_ir_context
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    context = make_ir_context()
    with context, ir.Location.unknown(context):
        try:
            module = stablehlo.deserialize_portable_artifact(context, code)
        except (ValueError, RuntimeError, ir.MLIRError):
            module = ir.Module.parse(code, context)
        yield module


def written(module: Any) -> bytes:
    """A module of MLIR as bytecode."""
    into = io.BytesIO()
    module.operation.write_bytecode(into)
    return into.getvalue()


def propagated(code: bytes) -> bytes:
    """The program with a sharding at every value, as bytecode."""
    from jaxlib.mlir.passmanager import PassManager

    with parsed(code) as module:
        for op in [op for op in walked(module.operation) if op.name == "stablehlo.composite"]:
            _without_composite(op)
        inline_calls(module)
        for op in [op for op in walked(module.operation) if op.name == BROADCAST]:
            _as_reshape(op)
        PassManager.parse("builtin.module(sdy-propagation-pipeline)").run(module.operation)
        calls = [op for op in walked(module.operation) if op.name == "stablehlo.custom_call"]
        name_functions(calls)
        return written(module)


def _as_reshape(op: Any) -> None:
    """Put a reshape in place of a broadcast that only adds dimensions of 1, as XLA does.

    Shardy passes shardings on through a reshape before it looks at gathers and dots, and through a
    broadcast after them: `x[i]` would not be cut as the indices are, where weights are cut along
    the same axis.
    """
    from jaxlib.mlir import ir

    (operand,), (result,) = op.operands, op.results
    before, after = ir.RankedTensorType(operand.type), ir.RankedTensorType(result.type)
    dims = list(ir.DenseI64ArrayAttr(op.attributes["broadcast_dimensions"]))
    is_static = before.has_static_shape and after.has_static_shape
    if not is_static or prod(before.shape) != prod(after.shape) or dims != sorted(dims):
        return
    result.replace_all_uses_with(reshape_before(op, operand, result.type))
    op.erase()


def _without_composite(op: Any) -> None:
    """Put what Shardy knows in place of a composite: its own top_k, or a call of the function."""
    from jaxlib.mlir import ir

    fields, attributes = op.attributes, {}
    if ir.StringAttr(fields["name"]).value == "chlo.top_k":
        name = "stablehlo.custom_call"
        attributes["call_target_name"] = ir.StringAttr.get("mhlo.topk")
        attributes["mhlo.attributes"] = ir.DictAttr.get(
            {"largest": ir.BoolAttr.get(True), "k": fields["composite_attributes"]["k"]}
        )
    else:
        name = "func.call"
        attributes["callee"] = fields["decomposition"]
    replacement = ir.Operation.create(
        name,
        results=[r.type for r in op.results],
        operands=list(op.operands),
        attributes=attributes,
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    for old, new in zip(op.results, replacement.results):
        old.replace_all_uses_with(new)
    op.erase()


def walked(op: Any) -> Iterator[Any]:
    """Every operation inside one of MLIR, outer ones first."""
    for region in op.regions:
        for block in region.blocks:
            for inside in block.operations:
                yield inside.operation
                yield from walked(inside.operation)


def shard_specs(
    module: Module, partitions: int
) -> tuple[tuple[ShardSpec, ...], tuple[ShardSpec, ...]]:
    """How parameters and results stand on the devices."""
    entry = module.entry
    arguments = tuple([_shard_spec(p.shape, p.sharding, partitions) for p in entry.parameters])
    shape, sharding = entry.root.shape, module.spmd_output_sharding or entry.root.sharding
    leaves = [leaf for _, leaf in shape.subshapes() if not leaf.is_tuple]
    sharding = (
        [None] * len(leaves)
        if sharding is None
        else sharding.elements
        if sharding.is_tuple
        else [sharding]
    )
    results = tuple([_shard_spec(s, g, partitions) for s, g in zip(leaves, sharding, strict=True)])
    return arguments, results


def refuse_code_of_one_device(module: Module, partitions: int) -> None:
    """`HloError` where a program of whole arrays has code that means something on one device."""
    for i in module.instructions():
        is_boundary = i.opcode == "custom-call" and i.attrs.custom_call_target in BOUNDARIES
        if i.opcode in OF_ONE_DEVICE or is_boundary:
            raise HloError(
                f"{module.name} has code for each of its {partitions} devices "
                "outside of a shard_map, which cannot be run",
                instruction=f"%{i.name} ({i.opcode})",
                rule="unimplemented",
                hint="use jit with shardings, or shard_map",
            )


def _shard_spec(shape: Any, sharding: Any, partitions: int) -> ShardSpec:
    """Where the shards of one array begin; whole arrays where they do not divide evenly."""
    sharding = None if sharding is None else sharding.tiled()
    if sharding is None or sharding.kind != "tiled" or not shape.is_array:
        return ShardSpec()
    sizes = sharding.tile_sizes(shape.dims)
    counts = sharding.tile_dims[: shape.rank]
    if any(size * n != whole for size, n, whole in zip(sizes, counts, shape.dims)):
        return ShardSpec()
    offsets = tuple([sharding.tile_offset(shape, d) for d in range(partitions)])
    return ShardSpec(sizes, offsets, sharding_bytes(sharding))


def as_one(module: Module) -> None:
    """Make it a program of one device, which computes the whole."""
    module.num_partitions = 1
    module.use_spmd_partitioning = False
    module.use_auto_spmd_partitioning = False
    module.spmd_output_sharding = None
    module.spmd_parameters_shardings = ()
    for c in module.computations_in_order():
        for i in c.instructions:
            i.sharding = None
