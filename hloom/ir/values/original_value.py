"""Which value of the program before optimization an instruction's value is.

A tree in the form of the instruction's shape whose leaves name arrays of the old program:
`{({"a"}, {"b" {1}})}`; an unknown leaf is `{}`. Newer XLA adds the calls that it stood in:
`{{"a"},["f/g"]}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from hloom.base.quoting import escape
from hloom.ir.text.cursor import Cursor

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
    call_hierarchy: str = ""
    """The calls around it, outermost first, with `/` between."""

    @property
    def text(self) -> str:
        if self.is_synthetic_call:
            return "{[synthetic_call]}"
        calls = f',["{escape(self.call_hierarchy)}"]' if self.call_hierarchy else ""
        return "{" + _show(self.tree) + calls + "}"

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

    def elements(self, kept_elements: Iterable[int]) -> OriginalValue | None:
        """That of a tuple of only these elements; None where this is not one of a tuple."""
        if self.is_synthetic_call:
            return self
        if not isinstance(self.tree, OriginalTuple):
            return None
        return replace(
            self, tree=OriginalTuple(tuple(self.tree.elements[k] for k in kept_elements))
        )

    def element(self, k: int) -> OriginalValue | None:
        """That of element `k` of a tuple; None where nothing is known of it."""
        if not isinstance(self.tree, OriginalTuple) or self.tree.elements[k] is None:
            return None
        return replace(self, tree=self.tree.elements[k])

    def prefixed(self, prefix: str) -> OriginalValue:
        """The same with `prefix/` before each name, as inlining writes it."""

        def change(node: OriginalNode) -> OriginalNode:
            if isinstance(node, OriginalTuple):
                return OriginalTuple(tuple(map(change, node.elements)))
            if node is None:
                return None
            return OriginalArray(f"{prefix}/{node.instruction_name}", node.shape_index)

        return replace(self, tree=change(self.tree))


_DEEPEST = 200


def parse_original_value(cursor: Cursor) -> OriginalValue:
    """Read `{({"a"}, {"b" {1}})}`, the same with `,["f/g"]` behind, or `{[synthetic_call]}`, which
    newer XLA writes `{(),[""]}`.
    """
    cursor.expect("{", "to start an original value")
    if cursor.eat("["):
        cursor.expect("synthetic_call")
        cursor.expect("]")
        cursor.expect("}", "to end an original value")
        return OriginalValue(None, True)
    if cursor.eat("}"):
        return OriginalValue()
    tree, calls = _parse_node(cursor, 0), ""
    if cursor.eat(","):
        cursor.expect("[", "to start the calls around an original value")
        calls = cursor.string("the quoted names of the calls")
        cursor.expect("]", "to end the calls around an original value")
        if not calls and tree == OriginalTuple():
            cursor.expect("}", "to end an original value")
            return OriginalValue(None, True)
    cursor.expect("}", "to end an original value")
    return OriginalValue(tree, call_hierarchy=calls)


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
