# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Operations whose code for one device somebody else writes: `custom_partitioning`.

JAX leaves a custom call for such an operation. Once Shardy has said how its operands and results
stand, the function that was given to `def_partition` is asked for the code of one device, and how
that wants them. The call becomes one of a manual computation (`manual.py`): operands are cut so,
the code runs for all devices at the same time, results are joined. A callback that wants the part
of each device (`debug.callback(..., partitioned=True)`) is such a manual computation, too: itself,
on shards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hloom.api import HloError, Instruction, Module, Patience, ShardSpec, sharding_bytes
from hloom.plugin.callbacks import PARTITIONED
from hloom.plugin.manual import MANUAL_TARGET, ManualComputation

TARGET = "CustomSPMDPartitioning"


def with_partitions(
    module: Module, partitions: int, first: int, patience: Patience
) -> list[ManualComputation]:
    """Manual computations in place of such calls, of which the first has the number `first`."""
    manual_computations: list[ManualComputation] = []
    for c in module.computations_in_order():
        for i in c.instructions:
            make = _MAKERS.get(i.attrs.custom_call_target) if i.opcode == "custom-call" else None
            # A callback that returns something is one of the whole: nobody says how to join it.
            if make is not None and (make is _partitioned or not arrays_of(i.shape)):
                manual_computations.append(make(i, partitions))
                _call_manual(i, first + len(manual_computations) - 1, partitions, patience)
    return manual_computations


def _call_manual(i: Instruction, number: int, partitions: int, patience: Patience) -> None:
    """Make a custom call one of a manual computation, in which each device has a position."""
    i.attrs = replace(
        i.attrs,
        custom_call_target=MANUAL_TARGET,
        custom_call_has_side_effect=True,
        api_version="API_VERSION_TYPED_FFI",
    )
    waits = ", ".join([str(int(1000 * s)) for s in patience])
    places = ", ".join(map(str, range(partitions)))
    raw = f"patience_ms = array<i64: {waits}>, places = array<i64: {places}>"
    i.backend_config = replace(i.backend_config, raw=f"{{{raw}, region = {number} : i64}}")


def _partitioned(i: Instruction, partitions: int) -> ManualComputation:
    """The code of one device for this operation, as whoever registered it writes it."""
    code, into, outs = partition_of(i)
    results = arrays_of(i.shape)
    return ManualComputation(
        code,
        tuple(range(partitions)),
        tuple(
            [_shard_spec(s, x.shape, partitions, i) for s, x in zip(into, i.operands, strict=True)]
        ),
        tuple([_shard_spec(s, x, partitions, i) for s, x in zip(outs, results, strict=True)]),
    )


def partition_of(i: Instruction) -> tuple[bytes, Sequence[Any], Sequence[Any]]:
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
    results = arrays_of(i.shape)
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


def arrays_of(shape: Any) -> list[Any]:
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


def _shard_spec(sharding: Any, shape: Any, partitions: int, i: Instruction) -> ShardSpec:
    """Where the part of each device begins; `HloError` where parts have several sizes."""
    from jax._src.op_shardings import get_num_ways_dim_sharded, op_sharding_to_indices

    if sharding.is_replicated():
        return ShardSpec()
    sizes = tuple(sharding.tile(_shape(shape)).dimensions())
    counts, _ = get_num_ways_dim_sharded(sharding)
    if any(n != count * size for n, count, size in zip(shape.dims, counts, sizes)):
        raise HloError(
            f"{list(shape.dims)} cannot be cut into parts of {list(sizes)}",
            instruction=f"%{i.name} ({i.opcode})",
            rule="custom-partitioning",
            hint="give arrays whose sizes the devices along their axes divide",
        )
    indices = op_sharding_to_indices(sharding, shape.dims, partitions)
    offsets = tuple([tuple([s.start or 0 for s in at]) for at in indices])
    return ShardSpec(sizes, offsets, whole=tuple(shape.dims))


def _callback(i: Instruction, partitions: int) -> ManualComputation:
    """A callback on what each device has of the operands."""
    shard_specs = [
        _shard_spec(_hlo_sharding(x.sharding), x.shape, partitions, i)
        if x.shape.is_array
        else ShardSpec()
        for x in i.operands
    ]
    kinds = [
        _mlir_type(x.shape, s.dims if s.offsets else x.shape.dims)
        for x, s in zip(i.operands, shard_specs)
    ]
    names = [f"%x{k}" for k in range(len(kinds))]
    raw = "" if i.backend_config is None else i.backend_config.raw
    parameters = ", ".join(f"{n}: {kind}" for n, kind in zip(names, kinds))
    text = f"""
        func.func public @main({parameters}) {{
          stablehlo.custom_call @{PARTITIONED}({", ".join(names)}) {{
            has_side_effect = true, backend_config = "", mhlo.backend_config = {raw}
          }} : ({", ".join(kinds)}) -> ()
          return
        }}"""
    return ManualComputation(text.encode(), tuple(range(partitions)), tuple(shard_specs), ())


def _mlir_type(shape: Any, dims: tuple[int, ...]) -> str:
    """A tensor of StableHLO."""
    name = shape.dtype.name
    if name == "pred":
        name = "i1"
    elif name[0] in "su" and name[1:].isdigit():
        name = ("i" if name[0] == "s" else "ui") + name[1:]
    elif name in ("c64", "c128"):
        name = "complex<f32>" if name == "c64" else "complex<f64>"
    return f"tensor<{''.join(f'{n}x' for n in dims)}{name}>"


_MAKERS: dict[str, Callable[[Instruction, int], ManualComputation]] = {
    TARGET: _partitioned,
    PARTITIONED: _callback,
}
