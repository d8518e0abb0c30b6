# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""`custom_partitioning`, and callbacks that want each device's part, as regions of a program.

Such a custom call becomes what `shard_map` is in HLO: operands are placed as the code for one
device wants them and cut (`SPMDFullToShardShape`), the code runs on each device, and its results
are the whole again (`SPMDShardToFullShape`). Whoever registered the operation (`def_partition`) is
asked for the code, and how it wants them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hloom.api import (
    MANUAL,
    REPLICATED,
    Computation,
    HloError,
    Instruction,
    Literal,
    Module,
    Padding,
    Shape,
    Sharding,
    Slices,
    copy_computation,
    module_of_bytes,
    pass_named,
    sharding_bytes,
    sharding_of_bytes,
)
from hloom.plugin.callbacks import PARTITIONED

TARGET = "CustomSPMDPartitioning"


def with_regions(module: Module) -> None:
    """Put regions in place of such calls, which see how all values stand."""
    if not any(i.opcode == "custom-call" and _is_of_one(i) for i in module.instructions()):
        return
    pass_named("sharding-propagation").run(module)  # Shardy says nothing of elements of a loop
    for c in module.computations_in_order():
        for i in list(c.instructions):
            if i.opcode != "custom-call" or not _is_of_one(i):
                continue
            if i.attrs.custom_call_target == TARGET:
                _put_code(module, c, i)
            else:
                _cut_callback(c, i)


def _is_of_one(i: Instruction) -> bool:
    """Whether a custom call is code for one device. A callback that returns something is of the
    whole: nobody says how to join it."""
    target = i.attrs.custom_call_target
    return target == TARGET or (target == PARTITIONED and not _arrays_of(i.shape))


def _put_code(module: Module, c: Computation, i: Instruction) -> None:
    """The code of one device in place of its call."""
    code, into, out = _partition_of(i)
    body = _copied(module_of_bytes(code), module)
    operands = [_cut(c, x, _sharding(s)) for x, s in zip(i.operands, into, strict=True)]
    call = c.add("call", *operands, shape=body.root.shape, called=(body,))
    call.metadata = i.metadata
    results: Sequence[Instruction] = [call]
    if body.root.shape.is_tuple:
        count = len(body.root.shape.elements)
        results = [c.add("get-tuple-element", call, index=k) for k in range(count)]
    wholes = [
        _joined(c, x, _sharding(s), shape)
        for x, s, shape in zip(results, out, _arrays_of(i.shape), strict=True)
    ]
    whole = c.add("tuple", *wholes) if i.shape.is_tuple else wholes[0]
    c.replace(i, whole)
    c.erase(i)


def _partition_of(i: Instruction) -> tuple[bytes, Sequence[Any], Sequence[Any]]:
    """The code of one device for such a call, and jaxlib's shardings of operands and results."""
    from jax._src import custom_partitioning as registered
    from jaxlib import xla_client as xc

    key = (i.backend_config.raw if i.backend_config is not None else "").encode()
    if key not in registered._sharding_callbacks:
        raise HloError(
            "who registered this custom_partitioning is gone",
            instruction=f"%{i.name} ({i.opcode})",
            rule="custom-partitioning",
            hint="compile in the process that lowered the function",
        )
    operand_shardings = [_hlo_sharding(x.sharding) for x in i.operands]
    shapes = [_shape(x.shape) for x in i.operands]
    results = _arrays_of(i.shape)
    stated = [None] * len(results) if i.sharding is None else i.sharding.elements or [i.sharding]
    result_shardings = [_hlo_sharding(s) for s in stated]
    shape = _shape(results[0])
    sharding = result_shardings[0]
    if i.shape.is_tuple:
        shape = xc.Shape.tuple_shape([_shape(s) for s in results])
        sharding = xc.HloSharding.tuple_sharding(shape, result_shardings)
    code, into, out = registered._custom_partitioning_partition(
        shapes, operand_shardings, shape, sharding, key
    )
    outs = out.tuple_elements() if i.shape.is_tuple else [out]
    return code, into, outs


def _arrays_of(shape: Any) -> list[Any]:
    return [s for _, s in shape.subshapes() if not s.is_tuple]


def _shape(shape: Any) -> Any:
    """One of hloom as one of jaxlib."""
    from jaxlib import xla_client as xc

    return xc.Shape.array_shape(shape.dtype.numpy, shape.dims)


def _hlo_sharding(sharding: Any) -> Any:
    """The same; whole on every device where there is none."""
    from jaxlib import xla_client as xc

    if sharding is None or sharding.tiled().kind not in ("tiled", "replicated", "maximal"):
        return xc.HloSharding.replicate()
    message = xc.OpSharding()
    message.ParseFromString(sharding_bytes(sharding.tiled()))
    return xc.HloSharding.from_proto(message)


def _cut_callback(c: Computation, i: Instruction) -> None:
    """Hand the callback what each device has of its operands."""
    for x in dict.fromkeys(i.operands):
        if x.shape.is_array:
            i.replace_operand(x, _cut(c, x, x.sharding or REPLICATED))
    i.sharding = Sharding.tuple_of(MANUAL)
    layouts = i.attrs.operand_layout_constraints
    if layouts is not None:
        own = [s.with_dims(x.shape.dims) for s, x in zip(layouts, i.operands, strict=True)]
        i.attrs = replace(i.attrs, operand_layout_constraints=tuple(own))


def _cut(c: Computation, x: Instruction, sharding: Sharding) -> Instruction:
    """What one device has of a value that is placed so; zeros behind the end of uneven parts."""
    dims = sharding.tile_sizes(x.shape.dims)
    whole = _even(sharding, x.shape.dims)
    if whole != x.shape.dims:
        more = [(0, n - old, 0) for n, old in zip(whole, x.shape.dims, strict=True)]
        zero = c.add("constant", literal=Literal.of(0, x.shape.dtype))
        shape = x.shape.with_dims(whole)
        x = c.add("pad", x, zero, padding=Padding.of(*more), shape=shape)
    placed = _annotated(c, x, "Sharding", x.shape, sharding)
    return _annotated(c, placed, "SPMDFullToShardShape", x.shape.with_dims(dims), MANUAL)


def _joined(c: Computation, x: Instruction, sharding: Sharding, shape: Shape) -> Instruction:
    """The whole of what each device has, without what lies behind the end of uneven parts."""
    own = _annotated(c, x, "Sharding", x.shape, MANUAL)
    whole = shape.with_dims(_even(sharding, shape.dims))
    joined = _annotated(c, own, "SPMDShardToFullShape", whole, sharding)
    if whole.dims == shape.dims:
        return joined
    ranges = Slices.of(*[(0, n, 1) for n in shape.dims])
    kept = c.add("slice", joined, slice=ranges, shape=shape)
    kept.sharding, kept.metadata = sharding, x.metadata
    return kept


def _even(sharding: Sharding, dims: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes of an array that is cut into whole parts of these sizes."""
    tiled = sharding.tiled()
    if tiled.kind != "tiled":
        return dims
    sizes = sharding.tile_sizes(dims)
    return tuple([size * n for size, n in zip(sizes, tiled.tile_dims)])


def _annotated(
    c: Computation, x: Instruction, target: str, shape: Shape, sharding: Sharding
) -> Instruction:
    annotated = c.add("custom-call", x, shape=shape, custom_call_target=target)
    annotated.sharding, annotated.metadata = sharding, x.metadata
    return annotated


def _sharding(said: Any) -> Sharding:
    """A sharding of jaxlib's as one of hloom's."""
    return sharding_of_bytes(said.to_proto().SerializeToString())


def _copied(body: Module, into: Module) -> Computation:
    """The entry of a module and what it calls, in another one."""
    copies: dict[Computation, Computation] = {}
    for c in body.computations_in_order():
        copies[c], _ = copy_computation(c, into, c.name, copies)
        for i in copies[c].instructions:
            i.sharding = None
            if i.metadata is not None:
                i.metadata = replace(i.metadata, stack_frame_id=0)
    return copies[body.entry]
