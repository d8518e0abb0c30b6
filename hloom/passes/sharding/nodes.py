"""What is known of the sharding of each value while it is sought: nodes, and what users gave."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.sharding import Sharding
from hloom.ir.values.sharding_named import DimensionSharding, NamedSharding
from hloom.ir.values.sharding_sdy import SHARDING, priorities_of
from hloom.passes.sharding.axes import Axes, AxisSharding, AxisSpaces
from hloom.passes.sharding.flow import Flow, Place, flow_of, leaf_places
from hloom.types.shape import Shape
from hloom.types.sizes import data_bytes

_UNSPECIFIED = re.compile(r"unspecified_dims=\[([\d,\s]*)\]")


@dataclass(frozen=True, slots=True)
class Withheld:
    """The sharding of one dimension that spreads only after those of lower priority numbers."""

    priority: int
    dimension: int
    axes: Axes
    is_open: bool


@dataclass(slots=True, eq=False)
class Node:
    """Places that have one sharding, and what it is so far."""

    shape: Shape
    places: list[Place] = field(default_factory=list)
    dims: list[Axes] = field(default_factory=list)
    space: int | None = None
    """Number of the axis space; None while nothing is cut."""
    is_open: list[bool] = field(default_factory=list)
    """By dimension: whether it may still be cut (further)."""
    manual: frozenset[int] = frozenset()
    """Axes that the program handles by itself here."""
    all_manual: bool = False
    """Whether it handles all axes by itself."""
    kept: frozenset[int] = frozenset()
    """Axes that stay unused: those the program says to be replicated, or unreduced."""
    unreduced: frozenset[int] = frozenset()
    stated: Sharding | None = None
    """What the program says of it, as written."""
    withheld: list[Withheld] = field(default_factory=list)
    """What spreads later, by priority; until then those dimensions are closed."""
    why: list[str] = field(default_factory=list)
    """In words: where the sharding came from, and what was declined."""
    source: str = ""
    """The instruction that the sharding came from last."""

    _size_bytes: int = -1
    """Once it has been asked for."""

    @property
    def size_bytes(self) -> int:
        if self._size_bytes < 0:
            self._size_bytes = data_bytes(self.shape) if self.shape.is_array else 0
        return self._size_bytes

    @property
    def used(self) -> frozenset[int]:
        cut = frozenset(a for axes in self.dims for a in axes)
        return cut | self.kept | self.unreduced | self.manual

    @property
    def is_cut(self) -> bool:
        return any(self.dims)

    def state(self) -> AxisSharding:
        return AxisSharding(tuple(self.dims), self.manual, self.unreduced)


class Nodes:
    """The nodes of a module, with the shardings that it says."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.flow: Flow = flow_of(module)
        self.spaces = AxisSpaces()
        self._node_of: dict[Place, Node] = {}
        self.nodes: list[Node] = []
        self.alike: list[tuple[Place, Place]] = []
        """Places of one shape that should be sharded alike."""
        self._make()
        self._join_groups()
        self._read()

    def of(self, i: Instruction, leaf: int = 0) -> Node:
        return self._node_of[i, leaf]

    # -- which places are one

    def _make(self) -> None:
        for c in self.flow.computations:
            for i in c.instructions:
                leaves = list(i.shape.leaves())
                for place in leaf_places(i):
                    leaf = leaves[place[1]]
                    rank = leaf.rank if leaf.is_array else 0
                    node = Node(leaf, [place], [()] * rank, is_open=[True] * rank)
                    self._node_of[place] = node
        for a, b in self.flow.same:
            self._join(a, b)
        self._collect()

    def _collect(self) -> None:
        self.nodes = list(dict.fromkeys(self._node_of.values()))

    def _join(self, a: Place, b: Place) -> None:
        one, other = self._node_of[a], self._node_of[b]
        if one is other or one.shape.dims != other.shape.dims:
            return
        if len(one.places) < len(other.places):
            one, other = other, one
        for place in other.places:
            self._node_of[place] = one
        one.places += other.places

    def _join_groups(self) -> None:
        """Members of a group `shard_as` are one node: what is marked, and what is marked in it.
        Those of `shard_like` are pairs with the first of their group, which may go on to differ."""
        first: dict[int, Place] = {}
        marked = [(i, leaf) for node in self.nodes for i, leaf in node.places if i.sharding]
        groups = [(place, _leaf_sharding(*place).shard_group) for place in marked]
        for kind in ("as", "like"):
            for place, group in groups:
                if group is None or group[0] != kind:
                    continue
                leader = first.setdefault(group[1], place)
                if kind == "like":
                    self.alike.append((leader, place))
                    continue
                self._join(leader, place)
                i, leaf = place
                is_marker = i.opcode == "custom-call" and i.operands
                x = i.operands[0] if is_marker else i
                # A parameter of the program may be closed, which what is made of it is not.
                if is_marker and x.sharding is None and x.opcode != "parameter":
                    self._join(place, (x, leaf))
        self._collect()

    # -- what the program says

    def _read(self) -> None:
        annotations = [(n, i, k, _leaf_sharding(i, k)) for n, i, k in self._annotated()]
        # Tiles that are listed fit the order of a mesh where they can: it comes first.
        for _, _, _, sharding in sorted(annotations, key=lambda a: a[3].named is None):
            self.spaces.add(sharding)
            if (along := _cut_along_replicated(sharding)) is not None:
                self.spaces.add(along)
        self.spaces.settle()
        for node, i, leaf, sharding in annotations:
            self._give(node, i, leaf, sharding)
        self._entry()

    def _annotated(self) -> Iterable[tuple[Node, Instruction, int]]:
        for node in self.nodes:
            for i, leaf in node.places:
                if i.sharding is not None and leaf < max(1, i.shape.leaf_count):
                    yield node, i, leaf

    def _give(self, node: Node, i: Instruction, leaf: int, sharding: Sharding) -> None:
        if sharding.kind == "unknown" or not node.shape.is_array:
            node.all_manual = sharding.tiled().kind == "manual"
            return
        if node.stated is not None:
            return
        node.stated = sharding
        node.why.append(f"given at %{i.name}")
        open_dims = _open_dims(i, sharding, node.shape.rank)
        node.is_open = open_dims
        tiled = sharding.tiled()
        placed = self.spaces.of(sharding)
        if placed is not None:
            node.space, state = placed
            if len(state.dims) == node.shape.rank:
                node.dims = list(state.dims)
            node.manual, node.unreduced = state.manual, state.unreduced
        else:
            node.all_manual = tiled.kind == "manual"
        kept = self._replicated(sharding)
        if kept is not None and node.space in (None, kept[0]):
            node.space, node.kept = kept
        self._withhold(node, i, leaf)

    def _withhold(self, node: Node, i: Instruction, leaf: int) -> None:
        """Take back what has a priority, until that is reached."""
        text = (i.frontend_attributes or {}).get(SHARDING)
        for d, priority in enumerate((priorities_of(text)[leaf : leaf + 1] or [()])[0]):
            if priority and d < len(node.dims):
                axes = node.dims[d]
                node.withheld.append(Withheld(priority, d, axes, node.is_open[d]))
                node.kept |= set(axes)
                node.dims[d], node.is_open[d] = (), False
                node.why.append(f"dimension {d} has priority {priority}")

    def release(self, priority: int) -> list[Node]:
        """Let what has this priority spread, too; the values that have it."""
        nodes = [n for n in self.nodes if any(w.priority == priority for w in n.withheld)]
        for node in nodes:
            for w in [w for w in node.withheld if w.priority == priority]:
                node.kept -= set(w.axes)
                node.dims[w.dimension], node.is_open[w.dimension] = w.axes, w.is_open
                node.withheld.remove(w)
        return nodes

    @property
    def priorities(self) -> list[int]:
        """The priorities above 0, the first to spread first."""
        return sorted({w.priority for n in self.nodes for w in n.withheld})

    def _replicated(self, sharding: Sharding) -> tuple[int, frozenset[int]] | None:
        """The axes that a named sharding says to be replicated, and their space."""
        placed = self.spaces.of(_cut_along_replicated(sharding) or sharding)
        if placed is None or sharding.named is None or not sharding.named.replicated_axes:
            return None
        space, state = placed
        return space, frozenset(state.dims[0])

    def _entry(self) -> None:
        """Parameters and results of the program: closed unless it allows to choose."""
        module = self.module
        allowed = module.allow_spmd_sharding_propagation_to_parameters
        leaf_number = 0
        for k, p in enumerate(module.entry.parameters):
            for place in leaf_places(p):
                node = self._node_of[place]
                number = k if len(allowed) == len(module.entry.parameters) else leaf_number
                self._open(node, _flag(allowed, number), closes=True)
                leaf_number += 1
        allowed = module.allow_spmd_sharding_propagation_to_output
        for place in leaf_places(module.entry.root):
            if place[0].opcode != "parameter":
                self._open(self._node_of[place], _flag(allowed, place[1]), closes=False)

    def _open(self, node: Node, is_allowed: bool, closes: bool) -> None:
        if is_allowed:
            late = {w.dimension for w in node.withheld}
            node.is_open = [d not in late for d in range(len(node.is_open))]
            node.withheld = [replace(w, is_open=True) for w in node.withheld]
        elif node.stated is None and closes:
            node.is_open = [False] * len(node.is_open)
            node.why.append("a parameter of the program, whose sharding may not be chosen")


def _flag(flags: tuple[bool, ...], number: int) -> bool:
    if len(flags) == 1:
        return flags[0]
    return number < len(flags) and flags[number]


def _leaf_sharding(i: Instruction, leaf: int) -> Sharding:
    sharding: Sharding = i.sharding
    if not sharding.is_tuple:
        return sharding
    return sharding.elements[leaf] if leaf < len(sharding.elements) else Sharding("unknown")


def _cut_along_replicated(sharding: Sharding) -> Sharding | None:
    """An array of one dimension that is cut along the axes which a sharding says to be replicated:
    it knows their numbers."""
    named = sharding.named
    if named is None or not named.replicated_axes:
        return None
    return Sharding(
        "named", named=NamedSharding(named.mesh, (DimensionSharding(named.replicated_axes),))
    )


def _open_dims(i: Instruction, sharding: Sharding, rank: int) -> list[bool]:
    """Which dimensions a user leaves open: `?`, or `unspecified_dims` of a custom call."""
    named = sharding.named
    if named is not None and len(named.dim_shardings) == rank:
        return [not d.is_closed for d in named.dim_shardings]
    if i.opcode == "custom-call" and i.backend_config is not None:
        match = _UNSPECIFIED.search(i.backend_config.raw)
        if match:
            numbers = {int(n) for n in match[1].split(",") if n.strip()}
            return [d in numbers for d in range(rank)]
    return [False] * rank
