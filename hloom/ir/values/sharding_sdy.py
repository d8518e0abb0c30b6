"""Shardings as Shardy writes them: `#sdy.sharding<@mesh, [{"x", ?}p1, {"y":(1)2}]>`.

Programs of JAX carry them as text, in the frontend attributes `xla.sdy.*` of their instructions
and of the module (`xla.sdy.meshes`). What they say beside a sharding of HLO is a *priority* for
each dimension: shardings of a lower number spread first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hloom.ir.text.cursor import Cursor
from hloom.ir.values.mesh import AxisRef, Mesh, check_axes, quoted
from hloom.ir.values.sharding import MANUAL, REPLICATED, Sharding
from hloom.ir.values.sharding_named import DimensionSharding, NamedSharding

SHARDING = "xla.sdy.sharding"
MESHES = "xla.sdy.meshes"
BARRIER = "xla.sdy.PropagationBarrier"
"""A custom call over which shardings spread only as it says."""
DIRECTION = "xla.sdy.allowed_direction"
_DIRECTIONS = {"0": (), "1": ("forward",), "2": ("backward",), "3": ("forward", "backward")}
_WORD = re.compile(r"@([\w.$\-]+|\"[^\"]*\")")
_KEY = re.compile(r"([\w.$\-]+|\"[^\"]*\")\s*=")
_PRIORITY = re.compile(r"p(\d+)")
_LISTS = ("replicated", "unreduced")
_DIMENSIONS = re.compile(r"\[((?:\s*,?\s*\{[^}]*\}(?:p\d+)?)*)\s*\]")
_DIMENSION = re.compile(r"\{[^}]*\}(?:p(\d+))?")


@dataclass(frozen=True, slots=True)
class SdySharding:
    """Of one value: its sharding by mesh axes, and the priority of each dimension."""

    named: NamedSharding
    priorities: tuple[int, ...] = ()
    """0 where none is written."""

    @property
    def sharding(self) -> Sharding:
        """The same as HLO has it."""
        mesh = self.named.mesh
        if mesh.is_maximal:
            return Sharding.maximal(mesh.array().reshape(-1).tolist()[0])
        is_cut = any(d.axes or not d.is_closed for d in self.named.dim_shardings)
        is_cut = is_cut or bool(self.named.unreduced_axes)
        return Sharding("named", named=self.named) if mesh.axes and is_cut else REPLICATED


def read_meshes(text: str) -> dict[str, Mesh]:
    """The meshes of `{mesh = #sdy.mesh<["x"=2, "y"=4]>, ...}`; `ParseError` where it is none."""
    cursor = Cursor(text)
    cursor.expect("{", "to start the meshes")
    meshes: dict[str, Mesh] = {}
    while not cursor.eat("}"):
        if meshes:
            cursor.expect(",", "between meshes")
        match = cursor.match(_KEY)
        if match is None:
            cursor.fail(f"expected the name of a mesh and =, found {cursor.next_text()}")
        is_quoted = cursor.at('"')  # as JAX wrote it until 2025
        mesh = read_mesh(Cursor(cursor.string()) if is_quoted else cursor)
        meshes[match[1].strip('"')] = mesh
    return meshes


def read_mesh(cursor: Cursor) -> Mesh:
    """`#sdy.mesh<["x"=2], device_ids=[1, 0]>`, or without `#sdy.`."""
    cursor.eat("#sdy.")
    cursor.expect("mesh<", "to start a mesh")
    cursor.expect("[", "to start its axes")
    axes: list[tuple[str, int]] = []
    while not cursor.eat("]"):
        if axes:
            cursor.expect(",", "between the axes of a mesh")
        at = cursor.skip()
        name = quoted(cursor, "the quoted name of an axis")
        cursor.expect("=", "after the name of an axis")
        size = cursor.integer("the size of an axis")
        if size < 1 or any(name == other for other, _ in axes):
            cursor.fail(f'axis "{name}" of size {size} is in this mesh twice, or of no size', at)
        axes.append((name, size))
    ids = None
    if cursor.eat(","):
        cursor.expect("device_ids=", "after the axes of a mesh")
        at = cursor.skip()
        ids = cursor.integers("[", "]")
        count = Mesh(tuple(axes)).device_count
        if len(ids) != (count if axes else 1) or len(set(ids)) < len(ids) or min(ids) < 0:
            cursor.fail(f"a mesh of {count} devices needs as many different device_ids", at)
    cursor.expect(">", "to end a mesh")
    return Mesh(tuple(axes), ids)


def read_shardings(text: str, meshes: Mapping[str, Mesh]) -> list[SdySharding]:
    """Those of `#sdy.sharding<...>` (one) or `#sdy.sharding_per_value<[<...>, ...]>`.

    `ParseError` where it is none, or names a mesh or an axis that there is not.
    """
    cursor = Cursor(text)
    if cursor.eat("#sdy.sharding_per_value<"):
        cursor.expect("[", "to start the shardings")
        shardings: list[SdySharding] = []
        while not cursor.eat("]"):
            if shardings:
                cursor.expect(",", "between shardings")
            cursor.eat("#sdy.sharding")
            shardings.append(_read_sharding(cursor, meshes))
        cursor.expect(">", "to end the shardings")
    else:
        cursor.expect("#sdy.sharding", "to start a sharding of Shardy")
        shardings = [_read_sharding(cursor, meshes)]
    if cursor.skip() < len(cursor.text):
        cursor.fail(f"expected nothing more, found {cursor.next_text()}")
    return shardings


def read_manual_axes(text: str) -> tuple[str, ...]:
    """The names of `#sdy<manual_axes{"x", "y"}>`."""
    cursor = Cursor(text)
    cursor.eat("#sdy")
    cursor.expect("<manual_axes{", "to start manual axes")
    names: list[str] = []
    while not cursor.eat("}"):
        if names:
            cursor.expect(",", "between axes")
        names.append(quoted(cursor, "the quoted name of an axis"))
    cursor.expect(">", "to end manual axes")
    return tuple(names)


def _read_sharding(cursor: Cursor, meshes: Mapping[str, Mesh]) -> SdySharding:
    start = cursor.skip()
    cursor.expect("<", "to start a sharding")
    mesh = _mesh_of(cursor, meshes)
    cursor.expect(",", "after the mesh")
    cursor.expect("[", "to start the dimensions")
    dims: list[DimensionSharding] = []
    priorities: list[int] = []
    while not cursor.eat("]"):
        if dims:
            cursor.expect(",", "between dimensions")
        cursor.expect("{", "to start a dimension")
        axes, is_closed = _axes(cursor, mesh)
        dims.append(DimensionSharding(axes, is_closed))
        match = cursor.match(_PRIORITY)
        priorities.append(int(match[1]) if match else 0)
    lists: dict[str, tuple[AxisRef, ...]] = dict.fromkeys(_LISTS, ())
    while cursor.eat(","):
        name = next((n for n in _LISTS if cursor.eat(f"{n}=")), None)
        if name is None:
            cursor.fail(f"expected replicated= or unreduced=, found {cursor.next_text()}")
        cursor.expect("{", "to start axes")
        lists[name], _ = _axes(cursor, mesh)
    cursor.expect(">", "to end a sharding")
    if wrong := check_axes(mesh, *(d.axes for d in dims), *lists.values()):
        cursor.fail(wrong, start)
    named = NamedSharding(mesh, tuple(dims), lists["replicated"], lists["unreduced"])
    return SdySharding(named, tuple(priorities))


def _mesh_of(cursor: Cursor, meshes: Mapping[str, Mesh]) -> Mesh:
    at = cursor.skip()
    match = cursor.match(_WORD)
    if match is None:
        return read_mesh(cursor)
    name = match[1].strip('"')
    if name not in meshes:
        cursor.fail(f"there is no mesh @{name}", at, hint=f"known: {', '.join(sorted(meshes))}")
    return meshes[name]


def _axes(cursor: Cursor, mesh: Mesh) -> tuple[tuple[AxisRef, ...], bool]:
    """The references up to the closing brace, and whether no `?` is among them."""
    axes: list[AxisRef] = []
    is_closed, is_first = True, True
    names = [name for name, _ in mesh.axes]
    while not cursor.eat("}"):
        if not is_first:
            cursor.expect(",", "between axes")
        is_first = False
        if cursor.eat("?"):
            is_closed = False
            continue
        at = cursor.skip()
        name = quoted(cursor, "the quoted name of an axis")
        if name not in names:
            cursor.fail(f'the mesh has no axis "{name}"', at, hint=f"known: {', '.join(names)}")
        part: tuple[int, int] | tuple[()] = ()
        if cursor.eat(":("):
            before = cursor.integer("the product of the sizes before")
            cursor.expect(")", "after it")
            part = before, cursor.integer("the size of the part")
        axes.append(AxisRef(names.index(name), *part))
    return tuple(axes), is_closed


def priorities_of(text: str | None) -> list[tuple[int, ...]]:
    """Of each value the priorities of its dimensions, whatever mesh it names; [] of no text."""
    if text is None or not _PRIORITY.search(text):
        return []
    return [_priorities(part) for part in _DIMENSIONS.findall(text)]


def _priorities(dims: str) -> tuple[int, ...]:
    return tuple([int(p or 0) for p in _DIMENSION.findall(dims)])


def allowed_directions(text: str) -> tuple[str, ...]:
    """What a barrier lets through, of `1 : i32` or `FORWARD`; nothing where it says neither."""
    word = text.split(":")[0].strip()
    if word == "BOTH":
        return _DIRECTIONS["3"]
    return _DIRECTIONS.get(word, (word.lower(),) if word in ("FORWARD", "BACKWARD") else ())


def outside_region(named: NamedSharding, manual: Sequence[str]) -> NamedSharding:
    """How a value is cut where it comes into a region, or out of it: axes by hand that cut nothing
    are replicated, whatever dimensions are open."""
    lists = (named.replicated_axes, named.unreduced_axes, named.manual_axes)
    used = {a.mesh_axis_index for d in named.dim_shardings for a in d.axes}
    used |= {a.mesh_axis_index for axes in lists for a in axes}
    idle = [
        AxisRef(k)
        for k, (name, _) in enumerate(named.mesh.axes)
        if name in manual and k not in used
    ]
    axes = sorted(
        [*named.replicated_axes, *idle], key=lambda a: (a.mesh_axis_index, a.pre_size or 1)
    )
    return replace(named, replicated_axes=tuple(axes))


def in_region(named: NamedSharding, manual: Sequence[str]) -> Sharding:
    """How a value is cut within a region of which these axes are by hand."""
    mesh = named.mesh
    by_hand = tuple(AxisRef(k) for k, (name, _) in enumerate(mesh.axes) if name in manual)
    if len(by_hand) == len(mesh.axes):
        return MANUAL
    indices = {axis.mesh_axis_index for axis in by_hand}

    def rest(axes: tuple[AxisRef, ...]) -> tuple[AxisRef, ...]:
        return tuple(a for a in axes if a.mesh_axis_index not in indices)

    dims = tuple(DimensionSharding(rest(d.axes), d.is_closed) for d in named.dim_shardings)
    axes = rest(named.replicated_axes), rest(named.unreduced_axes), by_hand
    return Sharding("named", named=NamedSharding(mesh, dims, *axes, named.reduction))
