"""Which value of the program before optimization an instruction's value is.

A tree in the form of the instruction's shape whose leaves name arrays of the old program:
`{({"a"}, {"b" {1}})}`; an unknown leaf is `{}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hloom.ir.text.cursor import Cursor, escape

Index = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OriginalArray:
    """A part of a value of the old program."""

    instruction_name: str
    shape_index: Index = ()

    @property
    def text(self) -> str:
        if not self.shape_index:
            return f'"{escape(self.instruction_name)}"'
        index = ",".join(map(str, self.shape_index))
        return f'"{escape(self.instruction_name)}" {{{index}}}'


@dataclass(frozen=True, slots=True)
class OriginalTuple:
    """The parts of a tuple value, each an array, None (unknown) or a tuple again."""

    elements: tuple[OriginalNode, ...] = ()

    @property
    def text(self) -> str:
        return "(" + ", ".join(map(_show, self.elements)) + ")"


OriginalNode = OriginalArray | OriginalTuple | None


def _show(node: OriginalNode) -> str:
    if isinstance(node, OriginalTuple):
        return node.text
    return "{}" if node is None else "{" + node.text + "}"


@dataclass(frozen=True, slots=True)
class OriginalValue:
    """The tree of original arrays, or (`is_synthetic_call`) a call made by a pass."""

    tree: OriginalNode = OriginalTuple()
    is_synthetic_call: bool = False

    @property
    def text(self) -> str:
        return "{[synthetic_call]}" if self.is_synthetic_call else "{" + _show(self.tree) + "}"

    def leaves(self) -> Iterator[tuple[Index, OriginalArray | None]]:
        """Each leaf with its index in the instruction's shape, in order."""
        stack: list[tuple[Index, OriginalNode]] = [((), self.tree)]
        while stack:
            index, node = stack.pop()
            if isinstance(node, OriginalTuple):
                parts = [((*index, i), e) for i, e in enumerate(node.elements)]
                stack.extend(reversed(parts))
            else:
                yield index, node

    def elements(self, kept: Iterable[int]) -> OriginalValue | None:
        """That of a tuple of only these elements; None where this is not one of a tuple."""
        if self.is_synthetic_call:
            return self
        if not isinstance(self.tree, OriginalTuple):
            return None
        return OriginalValue(OriginalTuple(tuple(self.tree.elements[k] for k in kept)))

    def element(self, k: int) -> OriginalValue | None:
        """That of element `k` of a tuple; None where nothing is known of it."""
        if not isinstance(self.tree, OriginalTuple) or self.tree.elements[k] is None:
            return None
        return OriginalValue(self.tree.elements[k])

    def prefixed(self, prefix: str) -> OriginalValue:
        """The same with `prefix/` before each name, as inlining writes it."""

        def change(node: OriginalNode) -> OriginalNode:
            if isinstance(node, OriginalTuple):
                return OriginalTuple(tuple(map(change, node.elements)))
            if node is None:
                return None
            return OriginalArray(f"{prefix}/{node.instruction_name}", node.shape_index)

        return OriginalValue(change(self.tree), self.is_synthetic_call)


_DEEPEST = 200


def parse_original_value(cursor: Cursor) -> OriginalValue:
    """Read `{({"a"}, {"b" {1}})}` or `{[synthetic_call]}`."""
    cursor.expect("{", "to start an original value")
    if cursor.eat("["):
        cursor.expect("synthetic_call")
        cursor.expect("]")
        cursor.expect("}", "to end an original value")
        return OriginalValue(None, True)
    if cursor.eat("}"):
        return OriginalValue()
    value = OriginalValue(_parse_node(cursor, 0))
    cursor.expect("}", "to end an original value")
    return value


def _parse_node(cursor: Cursor, depth: int) -> OriginalNode:
    if depth > _DEEPEST:
        cursor.fail(f"an original value nests deeper than {_DEEPEST}")
    if cursor.eat("("):
        elements: list[OriginalNode] = []
        while not cursor.eat(")"):
            if elements:
                cursor.expect(",", "between original values")
            elements.append(_parse_node(cursor, depth + 1))
        return OriginalTuple(tuple(elements))
    cursor.expect("{", "to start an original array")
    if cursor.eat("}"):
        return None
    name = cursor.string("the quoted name of an instruction")
    index = cursor.integers() if cursor.at("{") else ()
    cursor.expect("}", "to end an original array")
    return OriginalArray(name, index)
