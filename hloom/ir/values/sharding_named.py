"""Shardings that name the axes of a mesh: `{mesh['x'=2,'y'=4], [{'x'}, {'y', ?}]}`.

Each dimension lists the axes it is cut along, the first the most major; `?` says that more may
be added (the dimension is open). Other axes may be named as replicated, unreduced or manual.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from hloom.ir.text.cursor import Cursor
from hloom.ir.values.mesh import (
    AxisRef,
    Mesh,
    check_axes,
    parse_axes,
    parse_axis,
    parse_mesh,
    show_axes,
    split_mesh,
)

if TYPE_CHECKING:
    import numpy


@dataclass(frozen=True, slots=True)
class DimensionSharding:
    """The axes one dimension is cut along."""

    axes: tuple[AxisRef, ...] = ()
    is_closed: bool = True

    def text_in(self, mesh: Mesh) -> str:
        words = [axis.text_in(mesh) for axis in self.axes] + ([] if self.is_closed else ["?"])
        return "{" + ", ".join(words) + "}"


REDUCTIONS = ("sum", "max", "min")
"""In the order of their numbers in `NamedShardingProto.ReductionOpProto`."""


@dataclass(frozen=True, slots=True)
class NamedSharding:
    """Which mesh axes cut which dimension; see the module."""

    mesh: Mesh
    dim_shardings: tuple[DimensionSharding, ...] = ()
    replicated_axes: tuple[AxisRef, ...] = ()
    unreduced_axes: tuple[AxisRef, ...] = ()
    manual_axes: tuple[AxisRef, ...] = ()
    reduction: str = "sum"
    """How what lies along unreduced axes is put together: a word of `REDUCTIONS`."""

    @property
    def words(self) -> str:
        """The text without braces and metadata."""
        mesh = self.mesh
        if mesh.is_maximal:
            return mesh.text
        if word := self._word():
            return f"{mesh.text}, {word}"
        parts = [mesh.text, "[" + ", ".join(d.text_in(mesh) for d in self.dim_shardings) + "]"]
        for name, axes in (
            ("replicated", self.replicated_axes),
            ("unreduced", self.unreduced_axes),
            ("manual", self.manual_axes),
        ):
            if axes:
                how = self.reduction if name == "unreduced" and self.reduction != "sum" else ""
                parts.append(f"{name}={how}{{{show_axes(axes, mesh)}}}")
        return ", ".join(parts)

    def _word(self) -> str | None:
        """`replicated`, `unreduced` or `manual` when that is all there is to say."""
        if self.dim_shardings or self.replicated_axes:
            return None
        everything = whole(self.mesh)
        if not self.unreduced_axes and not self.manual_axes:
            return "replicated"
        if self.unreduced_axes == everything and not self.manual_axes:
            return "unreduced" if self.reduction == "sum" else None
        if self.manual_axes == everything and not self.unreduced_axes:
            return "manual"
        return None

    def tiling(self) -> tuple[tuple[int, ...], tuple[str, ...], numpy.ndarray]:
        """The same as tiles: tile counts, subgroup types, and devices in tile order.

        The counts end with one per subgroup type; axes not named anywhere are replicated.
        """
        cuts = tuple(axis for d in self.dim_shardings for axis in d.axes)
        array, used, rest = split_mesh(self.mesh, cuts + self.manual_axes + self.unreduced_axes)
        dims = [prod(a.size_in(self.mesh) for a in d.axes) for d in self.dim_shardings]
        types: list[str] = []
        for name, axes in (("manual", self.manual_axes), ("unreduced", self.unreduced_axes)):
            if (size := prod(a.size_in(self.mesh) for a in axes)) > 1:
                dims.append(size)
                types.append(name)
        devices = array.transpose(used + rest)
        if (size := prod(array.shape[d] for d in rest)) > 1:
            dims.append(size)
            types.append("replicated")
        return tuple(dims), tuple(types), devices.reshape(-1)


def whole(mesh: Mesh) -> tuple[AxisRef, ...]:
    """References to all axes of a mesh."""
    return tuple(AxisRef(i) for i in range(len(mesh.axes)))


def parse_named(cursor: Cursor) -> NamedSharding:
    """Read from `mesh` up to `}` or the comma before `metadata`."""
    start = cursor.skip()
    mesh = parse_mesh(cursor)
    if mesh.is_maximal:
        return NamedSharding(mesh)
    cursor.eat(",")
    if cursor.eat("replicated"):
        return NamedSharding(mesh)
    if cursor.eat("unreduced"):
        return NamedSharding(mesh, unreduced_axes=whole(mesh))
    if cursor.eat("manual"):
        return NamedSharding(mesh, manual_axes=whole(mesh))
    dims = _parse_dims(cursor, mesh)
    reduction = "sum"
    lists: dict[str, tuple[AxisRef, ...]] = {"replicated": (), "unreduced": (), "manual": ()}
    while True:
        before = cursor.position
        name = None
        if cursor.eat(","):
            name = next((n for n in lists if cursor.eat(n)), None)
        if name is None:
            cursor.position = before
            break
        cursor.expect("=", f"after {name}")
        at = cursor.skip()
        if name == "unreduced":
            reduction = next((word for word in REDUCTIONS if cursor.eat(word)), reduction)
        lists[name] += parse_axes(cursor, mesh)
        spans = [(a.mesh_axis_index, a.span_in(mesh)) for a in lists[name]]
        if spans != sorted(spans):
            cursor.fail(f"the {name} axes are not in the order of the mesh", at)
    if wrong := check_axes(mesh, *(d.axes for d in dims), *lists.values()):
        cursor.fail(wrong, start)
    axes = lists["replicated"], lists["unreduced"], lists["manual"]
    return NamedSharding(mesh, dims, *axes, reduction)


def _parse_dims(cursor: Cursor, mesh: Mesh) -> tuple[DimensionSharding, ...]:
    cursor.expect("[", "to start the dimensions of a named sharding")
    dims: list[DimensionSharding] = []
    while not cursor.eat("]"):
        if dims:
            cursor.expect(",", "between dimensions")
        cursor.expect("{", "to start the axes of a dimension")
        axes: list[AxisRef] = []
        closed = True
        while not cursor.eat("}"):
            if axes:
                cursor.expect(",", "between axes")
            if cursor.eat("?"):
                closed = False
                cursor.expect("}", "after ?")
                break
            axes.append(parse_axis(cursor, mesh))
        dims.append(DimensionSharding(tuple(axes), closed))
    return tuple(dims)
