# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Code that is written for one device (`shard_map`, `pmap`), taken out of its program.

A manual computation becomes a custom call of the program that computes the whole: its operands and
results are whole arrays. What it calls is the region as a program of one device, in which every
collective is a custom call, too. The native side runs that program once for each place along the
axes that are manual, at the same time, on shards it cuts and joins (native/pjrt/manual.cc);
collectives meet there. Devices that differ along other axes only have one place: what they compute
together is computed once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from hloom.api import HloError, Spread
from hloom.plugin.sharded import parsed, walked, written

REGION_TARGET = "hloom_manual_region"
COLLECTIVE_TARGET = "hloom_collective"
KINDS = (
    "all_reduce all_gather reduce_scatter all_to_all collective_permute collective_broadcast"
    " partition_id replica_id"
).split()
"""What a collective is, by the number that its custom call has; native/pjrt/collective.cc."""
REDUCTIONS: tuple[str, ...] = ("add", "maximum", "minimum", "multiply", "and", "or")
"""The same for how values are combined."""
BODY = "hloom_region_{}"
MANUAL = "sdy.manual_computation"


@dataclass(frozen=True)
class Places:
    """The places along the manual axes of a mesh, numbered; a device has one."""

    of_device: dict[int, int]
    elsewhere: dict[int, tuple[int, ...]]
    """Where a device is along the other axes."""
    axes: tuple[dict[str, int], ...]
    """For each place its index along each manual axis."""
    sizes: dict[str, int]

    def group(self, devices: list[int]) -> tuple[int, ...]:
        """The places of a group of devices, which may differ along manual axes only."""
        given = [d for d in devices if d >= 0]
        if len({self.elsewhere[d] for d in given}) > 1:
            raise _refused("a collective over axes that the shard_map does not name")
        return tuple([self.of_device[d] for d in given])


@dataclass(frozen=True)
class Region:
    """The code of one place: a module as bytecode, how many there are, how arrays are cut."""

    code: bytes
    places: int
    arguments: tuple[Spread, ...]
    results: tuple[Spread, ...]


def without_regions(code: bytes, partitions: int) -> tuple[bytes, list[Region]]:
    """The program with calls in place of manual computations, and what they call."""
    from jaxlib.mlir import ir

    with parsed(code) as module:
        meshes = {
            ir.StringAttr(op.attributes["sym_name"]).value: op.attributes["mesh"]
            for op in module.body.operations
            if op.operation.name == "sdy.mesh"
        }
        outlined = []
        while (found := _innermost(module.operation)) is not None:
            outlined.append(_outline(module, found, len(outlined), meshes, partitions))
        if not outlined:
            return code, []
        bodies = [BODY.format(k) for k in range(len(outlined))]
        regions = []
        for name, (chain, arguments, results) in zip(bodies, outlined):
            body = ir.Module.parse(written(module), module.context)
            _keep(body, name)
            for op in list(_collectives(body.operation)):
                _as_call(op, chain)
            regions.append(Region(written(body), len(chain[-1].axes), arguments, results))
        _keep(module, "main", bodies)
        return written(module), regions


def _innermost(root: Any) -> Any:
    """A manual computation without another one inside; None: there is none at all."""
    found = None
    for op in walked(root):
        if op.name == MANUAL and (found is None or _is_inside(op, found)):
            found = op
    return found


def _is_inside(op: Any, other: Any) -> bool:
    return any(parent == other for parent in _around(op))


def _around(op: Any) -> Iterator[Any]:
    """The manual computations around an operation, inner ones first."""
    while (op := op.parent) is not None:
        op = op.operation
        if op.name == MANUAL:
            yield op


def _outline(module: Any, op: Any, number: int, meshes: Any, partitions: int) -> Any:
    """Move a manual computation into a function.

    What comes back: the places around it and its own, outer ones first; how operands and results
    are cut.
    """
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import func

    chain = [_places_of(each, meshes, partitions) for each in [*_around(op)][::-1] + [op]]
    places = chain[-1]
    body = op.regions[0].blocks[0]
    shardings = _shardings(op)
    returned = list(list(body.operations)[-1].operation.operands)
    kinds = [a.type for a in body.arguments], [v.type for v in returned]
    spreads = [
        tuple([_spread(t, s, places) for t, s in zip(types, each)])
        for types, each in zip(kinds, shardings)
    ]
    with ir.InsertionPoint(module.body):
        made = func.FuncOp(BODY.format(number), kinds, visibility="private")
    block = made.add_entry_block()
    with ir.InsertionPoint(block):
        last = func.ReturnOp(returned)
    for inside in list(body.operations)[:-1]:
        inside.operation.move_before(last.operation)
    list(body.operations)[-1].operation.erase()
    for old, new in zip(body.arguments, block.arguments):
        old.replace_all_uses_with(new)
    config = {"region": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)}
    call = _call(op, REGION_TARGET, config, list(op.operands), [r.type for r in op.results])
    for old, new in zip(op.results, call.results):
        old.replace_all_uses_with(new)
    op.erase()
    return chain, *spreads


def _call(before: Any, target: str, config: dict[str, Any], operands: Any, types: Any) -> Any:
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


def _shardings(op: Any) -> list[list[Any]]:
    """Of the operands and of the results of a manual computation."""
    from jaxlib.mlir.dialects import sdy

    return [
        list(map(sdy.TensorShardingAttr, sdy.TensorShardingPerValueAttr(given).shardings))
        for given in (op.attributes["in_shardings"], op.attributes["out_shardings"])
    ]


def _places_of(op: Any, meshes: Any, partitions: int) -> Places:
    """The places along the manual axes of the mesh that all its shardings name."""
    from jaxlib.mlir.dialects import sdy

    named = sdy.ManualAxesAttr(op.attributes["manual_axes"])
    manual = {named[k] for k in range(len(named))}
    found = {str(s.mesh_or_ref): s.mesh_or_ref for each in _shardings(op) for s in each}
    if not found:
        raise _refused("a shard_map without arguments and results")
    given = [sdy.MeshAttr(meshes.get(k.lstrip("@").strip('"'), m)) for k, m in found.items()]
    # A mesh of one device without axes says where a callback runs.
    mesh = max(given, key=lambda m: len(list(m.axes)))
    sizes = {a.name: a.size for a in map(sdy.MeshAxisAttr, mesh.axes)}
    if prod(sizes.values()) != partitions:
        raise _refused("a shard_map over some of the devices")
    ids = list(mesh.device_ids) or list(range(partitions))
    own = [a for a in sizes if a in manual]
    numbers = {at: k for k, at in enumerate(product(*[range(sizes[a]) for a in own]))}
    of_device: dict[int, int] = {}
    elsewhere: dict[int, tuple[int, ...]] = {}
    for device, at in zip(ids, product(*map(range, sizes.values()))):
        where = dict(zip(sizes, at))
        of_device[device] = numbers[tuple([where[a] for a in own])]
        elsewhere[device] = tuple([where[a] for a in sizes if a not in manual])
    return Places(of_device, elsewhere, tuple([dict(zip(own, at)) for at in numbers]), sizes)


def _spread(kind: Any, sharding: Any, places: Places) -> Spread:
    """Where the shard of each place begins; `kind` is the type of a shard."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy

    if not isinstance(kind, ir.RankedTensorType):
        raise _refused(f"a shard_map of a {kind}")
    cuts = []
    for dim in map(sdy.DimensionShardingAttr, sharding.dimension_shardings):
        axes = [a for a in map(sdy.AxisRefAttr, dim.axes) if a.name in places.axes[0]]
        if any(a.sub_axis_info is not None for a in axes):
            raise _refused("a shard_map over parts of axes")
        cuts.append([a.name for a in axes])
    if not any(cuts):
        return Spread()
    shape = tuple(kind.shape)
    offsets = []
    for at in places.axes:
        index = []
        for axes, n in zip(cuts, shape):
            number = 0
            for a in axes:
                number = number * places.sizes[a] + at[a]
            index.append(number * n)
        offsets.append(tuple(index))
    whole = tuple([max(o[d] for o in offsets) + n for d, n in enumerate(shape)])
    return Spread(shape, tuple(offsets), whole=whole)


def _refused(what: str) -> HloError:
    return HloError(
        f"{what} cannot be run yet",
        rule="unimplemented",
        hint="jit with shardings, which names no devices, can",
    )


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


# -- collectives


def _collectives(root: Any) -> Iterator[Any]:
    names = {f"stablehlo.{kind}" for kind in KINDS}
    return (op for op in walked(root) if op.name in names)


def _devices(chain: list[Places]) -> list[int]:
    """For each place in a place in ... one device, which speaks for all."""
    first: dict[tuple[int, ...], int] = {}
    for device in sorted(chain[-1].of_device):
        first.setdefault(tuple([level.of_device[device] for level in chain]), device)
    return [first[at] for at in product(*[range(len(level.axes)) for level in chain])]


def _as_call(op: Any, chain: list[Places]) -> None:
    """A custom call in place of a collective."""
    from jaxlib.mlir import ir

    places = chain[-1]
    kind = op.name.removeprefix("stablehlo.")
    given = op.attributes

    def number(value: int) -> Any:
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)

    config = {"kind": number(KINDS.index(kind))}
    groups: list[list[int]] = []
    if kind == "partition_id":
        groups = [_devices(chain)]
    elif kind == "collective_permute":
        groups = _table(given["source_target_pairs"])
    elif "replica_groups" in given:
        groups = _table(given["replica_groups"]) or [list(places.of_device)]
    if groups:
        if kind != "partition_id":
            groups = [list(g) for g in dict.fromkeys(map(places.group, groups))]
        config["groups"] = ir.DenseI64ArrayAttr.get([x for g in groups for x in g])
        config["group_size"] = number(len(groups[0]))
    if kind in ("all_reduce", "reduce_scatter"):
        config["reduction"] = number(REDUCTIONS.index(_reduction(op)))
    for name in ("all_gather_dim", "scatter_dimension", "concat_dimension"):
        if name in given:
            config["dimension"] = number(given[name].value)
    if "split_dimension" in given:
        config["split"] = number(given["split_dimension"].value)
    made = _call(op, COLLECTIVE_TARGET, config, list(op.operands), [r.type for r in op.results])
    for old, new in zip(op.results, made.results):
        old.replace_all_uses_with(new)
    op.erase()


def _table(attribute: Any) -> list[list[int]]:
    import numpy as np

    return np.array(attribute).tolist()


def _reduction(op: Any) -> str:
    """How a collective combines two values: its region is one operation."""
    names = [x.operation.name for x in op.regions[0].blocks[0].operations]
    # What Shardy's propagation adds says nothing about one value.
    inside = [n.removeprefix("stablehlo.") for n in names if not n.startswith("sdy.")]
    if len(inside) != 2 or inside[0] not in REDUCTIONS:
        raise _refused(f"a collective that combines values by {', '.join(inside[:-1])}")
    return inside[0]
