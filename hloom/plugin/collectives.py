# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Collectives in the code of one device: each becomes a custom call that meets the other places.

Devices are numbered as the program numbers them; who meets are places along the manual axes of the
regions around a collective (`manual.py`), numbered from the outermost of those that it crosses.
Elements that are narrower than a byte, or floats of one, are combined as wider ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from hloom.api import HloError
from hloom.plugin.sharded import walked

COLLECTIVE_TARGET = "hloom_collective"
KINDS = (
    "all_reduce all_gather reduce_scatter all_to_all collective_permute collective_broadcast"
    " partition_id replica_id"
).split()
"""What a collective is, by the number that its custom call has; native/pjrt/collective.cc."""
REDUCTIONS: tuple[str, ...] = ("add", "maximum", "minimum", "multiply", "and", "or")
"""The same for how values are combined."""


@dataclass(frozen=True)
class Places:
    """The places along the manual axes of a mesh, numbered; a device has one."""

    of_device: dict[int, int]
    of_axes: dict[int, dict[str, int]]
    """Where a device is along each axis."""
    axes: tuple[dict[str, int], ...]
    """For each place its index along each manual axis."""
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


def collectives(root: Any) -> Iterator[Any]:
    names = {f"stablehlo.{kind}" for kind in KINDS}
    return (op for op in walked(root) if op.name in names)


def make_synchronous(root: Any) -> None:
    """What starts is done at once: regions of `async_start` put where they stand. A custom call in
    such a region would be refused, and places wait for one another at the start."""
    for start in [op for op in walked(root) if op.name == "stablehlo.async_start"]:
        dones = [use.owner.operation for use in start.results[0].uses]
        if any(op.name != "stablehlo.async_done" for op in dones):
            raise refused("an asynchronous operation whose end stands elsewhere")
        block = start.regions[0].blocks[0]
        for argument, value in zip(block.arguments, start.operands):
            argument.replace_all_uses_with(value)
        *inside, last = [op.operation for op in block.operations]
        for op in inside:
            op.move_before(start)
        for done in dones:
            for old, new in zip(done.results, last.operands):
                old.replace_all_uses_with(new)
            done.erase()
        start.erase()


def _devices(chain: list[Places]) -> list[int]:
    """For each place in a place in ... one device, which speaks for all."""
    first: dict[tuple[int, ...], int] = {}
    for device in sorted(chain[-1].of_device):
        first.setdefault(tuple([level.of_device[device] for level in chain]), device)
    return [first[at] for at in product(*[range(len(level.axes)) for level in chain])]


def as_call(op: Any, chain: list[Places], meshes: dict[str, Any]) -> None:
    """A custom call in place of a collective; `meshes` are Shardy's by name."""
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
        groups = table_of(given["source_target_pairs"], meshes)
    elif "replica_groups" in given:
        groups = table_of(given["replica_groups"], meshes) or [list(places.of_device)]
    if groups:
        if kind != "partition_id":
            levels, groups = _groups(groups, chain)
            config["levels"] = number(levels)
        size = max(map(len, groups))
        filled = [g + [-1] * (size - len(g)) for g in groups]
        config["groups"] = ir.DenseI64ArrayAttr.get([x for g in filled for x in g])
        config["group_size"] = number(size)
    if kind in ("all_reduce", "reduce_scatter"):
        config["reduction"] = number(REDUCTIONS.index(_reduction(op)))
    for name in ("all_gather_dim", "scatter_dimension", "concat_dimension"):
        if name in given:
            config["dimension"] = number(given[name].value)
    if "split_dimension" in given:
        config["split"] = number(given["split_dimension"].value)
    operands, types = list(op.operands), [r.type for r in op.results]
    if "reduction" in config:
        operands = [_converted(op, x, _wide(x.type)) for x in operands]
        types = [_wide(t) for t in types]
    made = custom_call(op, COLLECTIVE_TARGET, config, operands, types)
    for old, new in zip(op.results, made.results):
        old.replace_all_uses_with(_converted(op, new, old.type))
    op.erase()


def _groups(groups: list[list[int]], chain: list[Places]) -> tuple[int, list[list[int]]]:
    """Groups of devices as groups of places, and in how many regions around they are places.

    Devices of a group differ along axes that are manual there; those that differ along other axes
    only are one place.
    """
    given = [[d for d in g if d >= 0] for g in groups]
    for levels in range(len(chain)):
        regions = chain[len(chain) - 1 - levels :]
        manual = {axis for r in regions for axis in r.axes[0]}
        rest = [
            {tuple([at for a, at in regions[-1].of_axes[d].items() if a not in manual]) for d in g}
            for g in given
        ]
        if any(len(each) > 1 for each in rest):
            continue
        numbers = {d: _number(d, regions) for g in given for d in g}
        found = dict.fromkeys([tuple([numbers[d] for d in g]) for g in given])
        return levels, [list(g) for g in found]
    raise refused("a collective over axes that no shard_map around it names")


def _number(device: int, regions: list[Places]) -> int:
    """The number of a device's place among those of regions inside of one another."""
    number = 0
    for region in regions:
        number = number * len(region.axes) + region.of_device[device]
    return number


def _wide(kind: Any) -> Any:
    """The type in which elements of a tensor are combined."""
    from jaxlib.mlir import ir

    element = kind.element_type
    if isinstance(element, ir.IntegerType) and 1 < element.width < 8:
        make = ir.IntegerType.get_unsigned if element.is_unsigned else ir.IntegerType.get_signless
        return ir.RankedTensorType.get(kind.shape, make(8))
    if isinstance(element, ir.FloatType) and element.width <= 8:
        return ir.RankedTensorType.get(kind.shape, ir.F32Type.get())
    return kind


def _converted(before: Any, value: Any, kind: Any) -> Any:
    """The value in a type of the same shape, converted before an operation."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    if value.type == kind:
        return value
    with ir.InsertionPoint(before), before.location:
        return stablehlo.ConvertOp(kind, value).result


def table_of(attribute: Any, meshes: dict[str, Any]) -> list[list[int]]:
    """Groups of devices: written as a table, or, with JAX 0.11, by axes of a mesh."""
    import numpy as np
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import sdy, stablehlo

    if isinstance(attribute, ir.DenseElementsAttr):
        return np.array(attribute).tolist()
    given: Any = stablehlo.ReplicaGroupMeshAxesAttr(attribute)
    if isinstance(given.mesh, ir.FlatSymbolRefAttr):
        mesh: Any = sdy.MeshAttr(meshes[given.mesh.value])
        axes, ids = map(sdy.MeshAxisAttr, mesh.axes), list(mesh.device_ids)
    else:
        mesh = stablehlo.MeshAttr(given.mesh)
        axes = map(stablehlo.MeshAxisAttr, mesh.axes)
        ids = [] if mesh.device_ids is None else list(mesh.device_ids)
    sizes = {a.name: a.size for a in axes}
    wanted = [_part(stablehlo.AxisRefAttr(a), sizes) for a in given.axes]
    # An axis of which a part is named is several: what is before the part, the part, the rest.
    borders = {name: {1, size} for name, size in sizes.items()}
    for name, before, size in wanted:
        borders[name] |= {before, before * size}
    pieces = [(name, at) for name, found in borders.items() for at in sorted(found)[:-1]]
    ends = {(n, at): min(e for e in borders[n] if e > at) for n, at in pieces}
    used = [
        k
        for name, before, size in wanted
        for k, (n, at) in enumerate(pieces)
        if n == name and before <= at < before * size
    ]
    rest = [k for k in range(len(pieces)) if k not in used]
    devices = np.array(ids or range(prod(sizes.values())))
    devices = devices.reshape([ends[piece] // piece[1] for piece in pieces])
    count = prod(size for _, _, size in wanted)
    return devices.transpose(rest + used).reshape(-1, count).tolist()


def _part(axis: Any, sizes: dict[str, int]) -> tuple[str, int, int]:
    """An axis, how many places are before the part of it that is named, and its size."""
    from jaxlib.mlir.dialects import stablehlo

    if axis.sub_axis_info is None:
        return axis.name, 1, sizes[axis.name]
    part = stablehlo.SubAxisInfoAttr(axis.sub_axis_info)
    return axis.name, part.pre_size, part.size


def _reduction(op: Any) -> str:
    """How a collective combines two values: its region is one operation."""
    names = [x.operation.name for x in op.regions[0].blocks[0].operations]
    # What Shardy's propagation adds says nothing about one value.
    inside = [n.removeprefix("stablehlo.") for n in names if not n.startswith("sdy.")]
    if len(inside) != 2 or inside[0] not in REDUCTIONS:
        raise refused(f"a collective that combines values by {', '.join(inside[:-1])}")
    return inside[0]
