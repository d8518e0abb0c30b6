"""Values, the trees that say where they stand, and the edges between them.

See `alias_values.py`, which walks a module and makes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hloom.analysis.alias import InPlacePair
from hloom.ir.instruction import Instruction
from hloom.types.shape import Shape

Index = tuple[int, ...]
Tree = Any
"""A `LogicalBuffer`, a tuple of trees, or None for what has no bytes (tokens)."""
FOREVER = 1 << 60


class LogicalBuffer:
    """Bytes computed at one moment. `kind`: parameter (of the entry), constant, computed,
    state (of a loop, while it runs and after it) or merge (of the branches of a conditional)."""

    __slots__ = (
        "births", "bytes", "forward", "id", "index", "instruction", "kind", "space", "uses"
    )  # fmt: skip

    def __init__(self, id: int, instruction: Instruction, index: Index, size: int, kind: str):
        self.id = id
        self.instruction = instruction
        self.index = index
        self.bytes = size
        self.kind = kind
        self.births: list[tuple[int, Branching | None]] = []
        self.uses: list[int] = []
        self.forward: LogicalBuffer | None = None
        self.space = 0
        """The memory space that it has to be in (`alias_spaces.py`)."""

    @property
    def shape(self) -> Shape:
        return self.instruction.shape.subshape(self.index)

    def __repr__(self) -> str:
        return f"<{self.kind} %{self.instruction.name}{list(self.index)}>"


@dataclass(frozen=True, slots=True)
class Edge:
    """The bytes of `source` become those of `target` at `time`.

    `kind`: in-place (operation `site`, `pair`), init (loop `site`), carry (end of the body of loop
    `site`), branch (end of branch `branch` of conditional `site`), output (end of the entry, whose
    root is `site`; the target is None). `index` is the part of the result.
    """

    kind: str
    source: LogicalBuffer
    target: LogicalBuffer | None
    time: int
    site: Instruction
    index: Index
    pair: InPlacePair | None = None
    branch: int = 0


class Branching:
    """When a conditional ended, and when the branch (or entry) that it stands in does."""

    __slots__ = ("end", "outer")

    def __init__(self, outer: Arm) -> None:
        self.end = FOREVER
        self.outer = outer


class Arm:
    """The entry, or one branch (of `branching`): what runs or does not run as a whole."""

    __slots__ = ("branching", "end")

    def __init__(self, branching: Branching | None = None) -> None:
        self.branching = branching
        self.end = FOREVER


def resolved(v: LogicalBuffer) -> LogicalBuffer:
    """What a value that a loop hands on stands for."""
    while v.forward is not None:
        v = v.forward
    return v


def at(tree: Tree, index: Index) -> Tree:
    """The part of a tree at an index."""
    for k in index:
        tree = tree[k]
    return tree


def leaves(tree: Tree, index: Index = ()) -> list[tuple[Index, LogicalBuffer | None]]:
    """Each index without further parts, and the value there (None: no bytes)."""
    if type(tree) is not tuple:
        return [(index, tree)]
    return [leaf for k, part in enumerate(tree) for leaf in leaves(part, (*index, k))]


def left_alone(operands: Iterable[Tree], pairs: Iterable[InPlacePair]) -> Tree:
    """The parts of an operation's operands that it does not overwrite."""
    overwritten = {(p.operand, p.operand_index) for p in pairs}
    return tuple(
        part
        for k, tree in enumerate(operands)
        for index, part in leaves(tree)
        if (k, index) not in overwritten
    )
