"""Meshes of devices with named axes, and references to (parts of) those axes.

Replica groups and named shardings are both written with them:
`mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0))` is a mesh, `'y':(1)2` the part of axis `y` that
comes after axes of product 1 and has size 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from hloom.base.quoting import escape, unescape
from hloom.ir.text.cursor import Cursor
from hloom.ir.values.devices import parse_iota
from hloom.types.mesh import IotaDevices, MeshAxes

if TYPE_CHECKING:
    import numpy


Mesh = MeshAxes
"""Without the devices themselves: a program knows their numbers only."""


@dataclass(frozen=True, slots=True)
class AxisRef:
    """A whole axis of a mesh, or `size` of it after a part of size `pre_size`."""

    mesh_axis_index: int
    pre_size: int | None = None
    size: int | None = None

    def text_in(self, mesh: Mesh) -> str:
        name = f"'{escape(mesh.axes[self.mesh_axis_index][0])}'"
        return name if self.size is None else f"{name}:({self.pre_size}){self.size}"

    def size_in(self, mesh: Mesh) -> int:
        return mesh.axes[self.mesh_axis_index][1] if self.size is None else self.size

    def span_in(self, mesh: Mesh) -> tuple[int, int]:
        """Where on the axis it starts and ends, as products of sizes."""
        if self.size is None or self.pre_size is None:
            return 1, mesh.axes[self.mesh_axis_index][1]
        return self.pre_size, self.pre_size * self.size


def show_axes(axes: tuple[AxisRef, ...], mesh: Mesh, between: str = ", ") -> str:
    return between.join(axis.text_in(mesh) for axis in axes)


def split_mesh(mesh: Mesh, axes: tuple[AxisRef, ...]) -> tuple[numpy.ndarray, list[int], list[int]]:
    """The device array with axes split so that each reference is a dimension of its own.

    Returns the array, the dimension of each reference, and the dimensions nobody refers to.
    """
    shape: list[int] = []
    dimension_of: dict[tuple[int, int], int] = {}
    for index, (_, size) in enumerate(mesh.axes):
        cuts = {1, size}
        for axis in axes:
            if axis.mesh_axis_index == index:
                cuts.update(axis.span_in(mesh))
        points = sorted(cuts) if size else [1, 0]
        for low, high in pairwise(points) if size != 1 else [(1, 1)]:
            dimension_of[index, low] = len(shape)
            shape.append(high // low)
    used = [dimension_of[axis.mesh_axis_index, axis.span_in(mesh)[0]] for axis in axes]
    rest = [d for d in range(len(shape)) if d not in used]
    return mesh.array().reshape(shape), used, rest


def check_axes(mesh: Mesh, *lists: tuple[AxisRef, ...]) -> str | None:
    """What is wrong with lists of references that must not overlap, or None."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for axes in lists:
        previous = None
        for axis in axes:
            low, high = axis.span_in(mesh)
            if wrong := _check_part(axis, mesh):
                return wrong
            parts = spans.setdefault(axis.mesh_axis_index, [])
            if any((low < b and a < high) or (a, b) == (low, high) for a, b in parts):
                return f"axis {axis.text_in(mesh)} is used twice"
            parts.append((low, high))
            if previous == (axis.mesh_axis_index, low):
                return f"axis {axis.text_in(mesh)} continues the one before it; write them as one"
            previous = (axis.mesh_axis_index, high)
    for index, parts in spans.items():
        points = sorted({p for part in parts for p in part} | {1, mesh.axes[index][1]})
        if any(high % low for low, high in pairwise(points)):
            return f"the parts of axis '{mesh.axes[index][0]}' do not divide each other"
    return None


def _check_part(axis: AxisRef, mesh: Mesh) -> str | None:
    if axis.size is None or axis.pre_size is None:
        return None
    name, size = mesh.axes[axis.mesh_axis_index]
    if axis.pre_size < 1 or axis.size < 2:
        return f"sub-axis {axis.text_in(mesh)} needs a size above 1 after a product of at least 1"
    if size % (axis.pre_size * axis.size):
        return f"sub-axis {axis.text_in(mesh)} does not divide axis '{name}' of size {size}"
    if axis.size == size:
        return f"sub-axis {axis.text_in(mesh)} is the whole axis; write '{name}'"
    return None


def parse_mesh(cursor: Cursor) -> Mesh:
    """Read `mesh['x'=2,'y'=4]`, with `, device_ids=(...)` if it follows, or `maximal_mesh[...]`,
    which newer XLA writes `single_device[...]`.
    """
    if cursor.eat("maximal_mesh") or cursor.eat("single_device"):
        cursor.expect("[")
        cursor.expect("device_id", "for a mesh of one device")
        cursor.expect("=")
        at = cursor.skip()
        device = cursor.integer("a device number")
        if device < 0:
            cursor.fail("a device number is not negative", at)
        cursor.expect("]")
        return Mesh((), (device,))
    cursor.expect("mesh")
    cursor.expect("[", "after mesh")
    axes: list[tuple[str, int]] = []
    while not cursor.eat("]"):
        if axes:
            cursor.expect(",", "between the axes of a mesh")
        at = cursor.skip()
        name = quoted(cursor, "the quoted name of an axis")
        if any(name == other for other, _ in axes):
            cursor.fail(f"axis '{name}' is in this mesh twice", at)
        cursor.expect("=", "after the name of an axis")
        at = cursor.skip()
        size = cursor.integer("the size of an axis")
        if size < 1:
            cursor.fail("the size of a mesh axis is at least 1", at)
        axes.append((name, size))
    mesh = Mesh(tuple(axes))
    after = cursor.position
    if cursor.eat(",") and cursor.eat("device_ids"):
        cursor.expect("=")
        return Mesh(mesh.axes, _parse_device_ids(cursor, mesh.device_count))
    cursor.position = after
    return mesh


def _parse_device_ids(cursor: Cursor, count: int) -> tuple[int, ...] | IotaDevices | None:
    cursor.expect("(", "to start device_ids")
    at = cursor.skip()
    if cursor.at("["):
        iota = parse_iota(cursor)
        cursor.expect(")", "to end device_ids")
        if iota.count != count:
            cursor.fail(f"device_ids has {iota.count} devices but the mesh {count}", at)
        return None if len(iota.reshape_dims) == 1 else iota
    ids = [cursor.integer("a device number")]
    while cursor.eat(","):
        ids.append(cursor.integer("a device number"))
    cursor.expect(")", "to end device_ids")
    if len(ids) != count or sorted(ids) != list(range(count)):
        cursor.fail(f"device_ids must be each of 0 to {count - 1} once", at)
    return None if ids == list(range(count)) else tuple(ids)


def parse_axes(cursor: Cursor, mesh: Mesh) -> tuple[AxisRef, ...]:
    """Read `{'x', 'y':(1)2}`; each axis at most once."""
    at = cursor.skip()
    cursor.expect("{", "to start a list of axes")
    axes: list[AxisRef] = []
    while not cursor.eat("}"):
        if axes:
            cursor.expect(",", "between axes")
        axes.append(parse_axis(cursor, mesh))
    if wrong := check_axes(mesh, tuple(axes)):
        cursor.fail(wrong, at)
    return tuple(axes)


def parse_axis(cursor: Cursor, mesh: Mesh) -> AxisRef:
    """Read `'x'` or `'x':(2)4`."""
    at = cursor.skip()
    name = quoted(cursor, "the quoted name of an axis")
    index = next((i for i, (n, _) in enumerate(mesh.axes) if n == name), None)
    if index is None:
        known = ", ".join(f"'{n}'" for n, _ in mesh.axes) or "none"
        cursor.fail(f"no axis '{name}' in the mesh; its axes: {known}", at, length=len(name) + 2)
    if not cursor.eat(":"):
        return AxisRef(index)
    cursor.expect("(", "before the pre-size of a sub-axis")
    pre_size = cursor.integer()
    cursor.expect(")")
    return AxisRef(index, pre_size, cursor.integer())


def quoted(cursor: Cursor, what: str) -> str:
    """A string in single or double quotes."""
    if not cursor.at("'"):
        return cursor.string(what)
    start = cursor.position
    end = start + 1
    while end < len(cursor.text) and cursor.text[end] != "'":
        end += 2 if cursor.text[end] == "\\" else 1
    if end >= len(cursor.text) or "\n" in cursor.text[start:end]:
        cursor.fail("this quote is never closed", start)
    cursor.position = end + 1
    return unescape(cursor.text[start + 1 : end])
