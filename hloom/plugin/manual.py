# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Code that is written for one device (`shard_map`, `pmap`), taken out of its program.

A manual computation becomes a custom call of the program that computes the whole: its operands and
results are whole arrays. What it calls is its body, as it stands, as a program of one device with
collectives among all. The native side runs that program once for each position along the axes that
are manual, at the same time, on shards it cuts and joins (native/pjrt/manual.cc); collectives meet
as those of any program do. Devices that differ along other axes only have one position: what they
compute together is computed once, by the first of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from hloom.api import HloError, Patience, ShardSpec
from hloom.plugin.sharded import parsed, walked, written

MANUAL_TARGET = "hloom_manual_region"
BODY = "hloom_region_{}"
MANUAL = "sdy.manual_computation"


@dataclass(frozen=True)
class MeshPositions:
    """The positions along the manual axes of a mesh, numbered; a device has one."""

    of_device: dict[int, int]
    of_axes: dict[int, dict[str, int]]
    """Where a device is along each axis."""
    axes: tuple[dict[str, int], ...]
    """For each position its index along each manual axis."""
    sizes: dict[str, int]


def custom_call(before: Any, target: str, config: dict[str, Any], operands: Any, types: Any) -> Any:
    """A typed custom call that stands before an operation."""
    from jaxlib.mlir import ir

    attributes = {
        "call_target_name": ir.StringAttr.get(target),
        "has_side_effect": ir.BoolAttr.get(True),
        "backend_config": ir.StringAttr.get(""),
        "mhlo.backend_config": ir.DictAttr.get(config),
    }
    return ir.Operation.create(
        "stablehlo.custom_call",
        results=types,
        operands=operands,
        attributes=attributes,
        loc=before.location,
        ip=ir.InsertionPoint(before),
    )


def refused(what: str) -> HloError:
    return HloError(
        f"{what} cannot be run yet",
        rule="unimplemented",
        hint="jit with shardings, which names no devices, can",
    )


def meshes_of(module: Any) -> dict[str, Any]:
    """Shardy's meshes of a module by name."""
    from jaxlib.mlir import ir

    return {
        ir.StringAttr(op.attributes["sym_name"]).value: op.attributes["mesh"]
        for op in module.body.operations
        if op.operation.name == "sdy.mesh"
    }


@dataclass(frozen=True)
class ManualComputation:
    """The code of one position of the mesh: a module as bytecode, at which position each device is,
    how arrays are cut for each."""

    code: bytes
    of_device: tuple[int, ...]
    arguments: tuple[ShardSpec, ...]
    results: tuple[ShardSpec, ...]

    @property
    def positions(self) -> int:
        return max(self.of_device) + 1


def without_manual_computations(
    code: bytes, partitions: int, patience: Patience
) -> tuple[bytes, list[ManualComputation]]:
    """The program with calls in place of manual computations, and what they call."""
    from jaxlib.mlir import ir

    with parsed(code) as module:
        meshes = meshes_of(module)
        outlined = []
        while (innermost := _innermost(module.operation)) is not None:
            outlined.append(
                _outline(module, innermost, len(outlined), meshes, (partitions, patience))
            )
        if not outlined:
            return code, []
        bodies = [BODY.format(k) for k in range(len(outlined))]
        manual_computations = []
        for name, (positions, arguments, results) in zip(bodies, outlined):
            body = ir.Module.parse(written(module), module.context)
            _keep(body, name)
            of_device = tuple([positions.of_device[d] for d in range(partitions)])
            manual_computations.append(
                ManualComputation(written(body), of_device, arguments, results)
            )
        _keep(module, "main", bodies)
        return written(module), manual_computations


def _innermost(root: Any) -> Any:
    """A manual computation without another one inside; None: there is none at all."""
    innermost = None
    for op in walked(root):
        if op.name == MANUAL and (innermost is None or _is_inside(op, innermost)):
            innermost = op
    return innermost


def _is_inside(op: Any, other: Any) -> bool:
    return any(parent == other for parent in _around(op))


def _around(op: Any) -> Iterator[Any]:
    """The manual computations around an operation, inner ones first."""
    while (op := op.parent) is not None:
        op = op.operation
        if op.name == MANUAL:
            yield op


def _outline(
    module: Any, op: Any, number: int, meshes: Any, among: tuple[int, Patience]
) -> tuple[MeshPositions, tuple[ShardSpec, ...], tuple[ShardSpec, ...]]:
    """Move a manual computation into a function, `among` so many devices.

    What comes back: its positions; how operands and results are cut.
    """
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import func, stablehlo

    partitions, patience = among
    positions = _positions_of(op, meshes, partitions)
    body = op.regions[0].blocks[0]
    ends = [o.operation for o in body.operations][-1]
    into, out = _shardings(op)
    inputs = [(a, s) for a, s in zip(body.arguments, into) if not _is_token(a)]
    returned = [(v, s) for v, s in zip(ends.operands, out) if not _is_token(v)]
    shard_specs = [
        tuple([_shard_spec(v.type, s, positions) for v, s in values])
        for values in (inputs, returned)
    ]
    kinds = [v.type for v, _ in inputs], [v.type for v, _ in returned]
    with ir.InsertionPoint(module.body):
        function = func.FuncOp(BODY.format(number), kinds, visibility="private")
    block = function.add_entry_block()
    with ir.InsertionPoint(block):
        # Tokens order what surrounds the call; each position begins with its own.
        tokens = [stablehlo.AfterAllOp([]).result for a in body.arguments if _is_token(a)]
        last = func.ReturnOp([v for v, _ in returned])
    for inside in list(body.operations)[:-1]:
        inside.operation.move_before(last.operation)
    ends.erase()
    for old, new in zip(_arrays_first(body.arguments), [*block.arguments, *tokens]):
        old.replace_all_uses_with(new)
    config = {
        "patience_ms": ir.DenseI64ArrayAttr.get([int(1000 * s) for s in patience]),
        "places": ir.DenseI64ArrayAttr.get([positions.of_device[d] for d in range(partitions)]),
        "region": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number),
    }
    results = _arrays_first(op.results)
    call = custom_call(
        op, MANUAL_TARGET, config, _arrays_first(op.operands), [r.type for r in results]
    )
    for old, new in zip(results, call.results):
        old.replace_all_uses_with(new)
    op.erase()
    return positions, shard_specs[0], shard_specs[1]


def _is_token(value: Any) -> bool:
    from jaxlib.mlir.dialects import stablehlo

    return stablehlo.TokenType.isinstance(value.type)


def _arrays_first(values: Any) -> list[Any]:
    """The same with tokens last: the native side counts arrays from the first on."""
    return sorted(values, key=_is_token)


def _shardings(op: Any) -> list[list[Any]]:
    """Of the operands and of the results of a manual computation."""
    from jaxlib.mlir.dialects import sdy

    return [
        list(map(sdy.TensorShardingAttr, sdy.TensorShardingPerValueAttr(per_value).shardings))
        for per_value in (op.attributes["in_shardings"], op.attributes["out_shardings"])
    ]


def _positions_of(op: Any, meshes: Any, partitions: int) -> MeshPositions:
    """The positions along the manual axes of the mesh that all its shardings name."""
    from jaxlib.mlir.dialects import sdy

    named = sdy.ManualAxesAttr(op.attributes["manual_axes"])
    manual = {named[k] for k in range(len(named))}
    mesh_refs = {str(s.mesh_or_ref): s.mesh_or_ref for each in _shardings(op) for s in each}
    if not mesh_refs:
        raise refused("a shard_map without arguments and results")
    meshes_used = [
        sdy.MeshAttr(meshes.get(k.lstrip("@").strip('"'), m)) for k, m in mesh_refs.items()
    ]
    # A mesh of one device without axes says where a callback runs.
    mesh = max(meshes_used, key=lambda m: len(list(m.axes)))
    sizes = {a.name: a.size for a in map(sdy.MeshAxisAttr, mesh.axes)}
    if prod(sizes.values()) != partitions:
        raise refused("a shard_map over some of the devices")
    ids = list(mesh.device_ids) or list(range(partitions))
    own = [a for a in sizes if a in manual]
    numbers = {at: k for k, at in enumerate(product(*[range(sizes[a]) for a in own]))}
    of_device: dict[int, int] = {}
    of_axes: dict[int, dict[str, int]] = {}
    for device, at in zip(ids, product(*map(range, sizes.values()))):
        where = dict(zip(sizes, at))
        of_device[device] = numbers[tuple([where[a] for a in own])]
        of_axes[device] = where
    return MeshPositions(of_device, of_axes, tuple([dict(zip(own, at)) for at in numbers]), sizes)


def _shard_spec(kind: Any, sharding: Any, positions: MeshPositions) -> ShardSpec:
    """Where the shard of each position begins; `kind` is the type of a shard."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    if not isinstance(kind, ir.RankedTensorType):
        raise refused(f"a shard_map of a {kind}")
    cuts = []
    for dim in map(sdy.DimensionShardingAttr, sharding.dimension_shardings):
        axes = [a for a in map(sdy.AxisRefAttr, dim.axes) if a.name in positions.axes[0]]
        if any(a.sub_axis_info is not None for a in axes):
            raise refused("a shard_map over parts of axes")
        cuts.append([a.name for a in axes])
    if not any(cuts):
        return ShardSpec()
    shape = tuple(kind.shape)
    offsets = []
    for at in positions.axes:
        index = []
        for axes, n in zip(cuts, shape):
            number = 0
            for a in axes:
                number = number * positions.sizes[a] + at[a]
            index.append(number * n)
        offsets.append(tuple(index))
    whole = tuple([max(o[d] for o in offsets) + n for d, n in enumerate(shape)])
    return ShardSpec(shape, tuple(offsets), whole=whole)


def _keep(module: Any, name: str, without: list[str] | None = None) -> None:
    """Make a function the program, and leave out what it does not call."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.passmanager import PassManager

    for op in list(module.body.operations):
        if op.operation.name != "func.func":
            continue
        own = op.attributes["sym_name"].value
        if own == name:
            op.attributes["sym_name"] = ir.StringAttr.get("main")
            op.attributes["sym_visibility"] = ir.StringAttr.get("public")
        elif own == "main" or (without and own in without):
            op.operation.erase()
    PassManager.parse("builtin.module(symbol-dce)").run(module.operation)
