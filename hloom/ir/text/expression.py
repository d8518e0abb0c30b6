"""One instruction as an expression for people: `reduce[add, 1](x) / 32`, `x[0:16, :]`.

Not HLO text, and not read back. What HLO spells out is folded: constants, broadcasts and tuple
elements stand where they are used, dot is written as einsum does, reducers by what they compute.
An operand's expression is made before it is used, in program order, so nothing recurses.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from itertools import groupby, pairwise

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import OPS
from hloom.types.layout import default_layout
from hloom.types.literal_text import show_literal
from hloom.types.shape import Shape

Text = tuple[str, int]
"""An expression and how loosely it binds: 0 needs no parentheses anywhere."""

ATOM, UNARY, POWER, TIMES, PLUS, COMPARE, AND, OR = range(8)
INFIX = {
    "add": ("+", PLUS),
    "subtract": ("-", PLUS),
    "multiply": ("*", TIMES),
    "divide": ("/", TIMES),
    "remainder": ("%", TIMES),
    "power": ("**", POWER),
    "and": ("&", AND),
    "or": ("|", OR),
    "xor": ("^", OR),
}
COMPARISONS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
HIDDEN = frozenset(
    "literal number kind operand_layout_constraints api_version custom_call_target type "
    "use_global_device_ids is_stable indices_are_sorted unique_indices".split()
)
"""Attributes that say nothing to a reader, or are shown in another way."""
MOST_ELEMENTS = 8
"""Constants of more elements are not written out."""
SAME_IN_A_ROW = 6
"""So many equal operands in a row are written once."""
MOST_TUPLE = 44
"""Characters of a tuple shape."""


def shape_short(shape: Shape) -> str:
    """The shape, its layout only where it is not row-major, long tuples cut."""
    if not shape.is_tuple:
        if shape.layout is None or shape.layout is default_layout(len(shape.dims)):
            return shape.text_without_layout
        return shape.text
    shown: list[str] = []
    length = 0
    for k, part in enumerate(shape.elements):
        text = "(...)" if part.is_tuple else shape_short(part)
        length += len(text) + 2
        if length > MOST_TUPLE and k + 1 < len(shape.elements):
            shown.append(f"... {len(shape.elements) - k} more")
            break
        shown.append(text)
    return f"({', '.join(shown)})"


class Expressions:
    """The text by which each instruction is referred to, made as the program is walked."""

    def __init__(self, applied: Callable[[Computation], str]) -> None:
        self.values: dict[Instruction, Text] = {}
        self.applied = applied
        """How a called computation is written where it is applied."""

    def reference(self, i: Instruction, binds: int = OR) -> str:
        """How a reader of `i` writes it; in parentheses where it binds more loosely."""
        text, own = self.values.get(i) or (i.name, ATOM)
        return f"({text})" if own > binds else text

    def listed(self, operands: tuple[Instruction, ...]) -> str:
        """Operands with commas; many equal ones in a row once: `0 (95 times)`."""
        shown: list[str] = []
        for text, same in groupby([self.reference(x) for x in operands]):
            count = len(list(same))
            shown += [text] * count if count < SAME_IN_A_ROW else [f"{text} ({count} times)"]
        return ", ".join(shown)

    def expression(self, i: Instruction) -> Text:
        """What `i` computes, in terms of how its operands are written."""
        special = SPECIAL.get(i.opcode)
        if special is not None:
            try:
                text = special(self, i)
            except (IndexError, ValueError, KeyError):
                # The program breaks a rule: it is shown as it stands.
                text = None
            if text is not None:
                return text
        infix = INFIX.get(i.opcode)
        if infix is not None and len(i.operands) == 2:
            sign, binds = infix
            x, y = i.operands
            # a - (b - c) keeps its parentheses, (a - b) - c needs none.
            return f"{self.reference(x, binds)} {sign} {self.reference(y, binds - 1)}", binds
        return f"{self.head(i)}({self.listed(i.operands)})", ATOM

    def head(self, i: Instruction) -> str:
        """`opcode[what it applies, attributes]`."""
        parts = [self.applied(c) for c in i.called]
        for field in OPS[i.opcode].fields:
            name, value = field.name, getattr(i.attrs, field.name)
            if name in HIDDEN or value is None or value == field.default:
                continue
            text = str(field.kind.show(value))
            if name in ("dimensions", "iota_dimension", "channel_id"):
                text = text.strip("{}")
                parts.append(f"channel={text}" if name == "channel_id" else text)
            else:
                parts.append(f"{name}={text}")
        return f"{i.opcode}[{', '.join(parts)}]" if parts else i.opcode


def _constant(e: Expressions, i: Instruction) -> Text:
    literal, shape = i.attrs.literal, i.shape
    if literal.is_elided or not shape.is_array or shape.size > MOST_ELEMENTS:
        return "constant {...}", ATOM
    text = show_literal(literal).replace("\n", " ")
    return text, UNARY if text.startswith("-") else ATOM


def _element(e: Expressions, i: Instruction) -> Text:
    return f"{e.reference(i.operands[0], ATOM)}#{i.attrs.index}", ATOM


def _tuple(e: Expressions, i: Instruction) -> Text:
    comma = "," if len(i.operands) == 1 else ""
    return f"({e.listed(i.operands)}{comma})", ATOM


def _broadcast(e: Expressions, i: Instruction) -> Text | None:
    x, dims = i.operands[0], i.attrs.dimensions
    if not dims:
        return e.values.get(x) or (x.name, ATOM)
    if any(a >= b for a, b in pairwise(dims)) or not i.shape.is_array:
        return None
    if len(dims) == len(i.shape.dims):
        return e.values.get(x) or (x.name, ATOM)
    marks = [":" if d in dims else "_" for d in range(len(i.shape.dims))]
    return f"{e.reference(x, ATOM)}[{','.join(marks)}]", ATOM


def _compare(e: Expressions, i: Instruction) -> Text | None:
    sign = COMPARISONS.get(i.attrs.direction)
    if sign is None:
        return None
    x, y = (e.reference(x, PLUS) for x in i.operands)
    total = " (total order)" if i.attrs.type == "TOTALORDER" else ""
    return f"{x} {sign} {y}{total}", COMPARE


def _negate(e: Expressions, i: Instruction) -> Text:
    sign = "!" if i.opcode == "not" else "-"
    return f"{sign}{e.reference(i.operands[0], ATOM)}", UNARY


def _convert(e: Expressions, i: Instruction) -> Text | None:
    if not i.shape.is_array:
        return None
    return f"{i.shape.dtype.name}({e.reference(i.operands[0])})", ATOM


def _slice(e: Expressions, i: Instruction) -> Text:
    parts = []
    for d, size in zip(i.attrs.slice.dimensions, i.operands[0].shape.dims):
        step = f":{d.stride}" if d.stride != 1 else ""
        whole = d.start == 0 and d.limit == size and not step
        parts.append(":" if whole else f"{d.start}:{d.limit}{step}")
    return f"{e.reference(i.operands[0], ATOM)}[{', '.join(parts)}]", ATOM


def _dynamic_slice(e: Expressions, i: Instruction) -> Text | None:
    x, starts, sizes = i.operands[0], i.operands[1:], i.attrs.dynamic_slice_sizes
    if len(starts) != len(sizes):
        return None
    return f"{e.reference(x, ATOM)}[{_from(e, starts, sizes, x.shape)}]", ATOM


def _dynamic_update_slice(e: Expressions, i: Instruction) -> Text | None:
    x, update, *starts = i.operands
    if not update.shape.is_array or len(starts) != len(update.shape.dims):
        return None
    where = _from(e, tuple(starts), update.shape.dims, x.shape)
    return f"update({e.reference(x)}[{where}] = {e.reference(update)})", ATOM


def _from(
    e: Expressions, starts: tuple[Instruction, ...], sizes: tuple[int, ...], shape: Shape
) -> str:
    """`i:+1, :` for starts and sizes."""
    parts = []
    for start, size, whole in zip(starts, sizes, shape.dims):
        text = e.reference(start, PLUS)
        parts.append(":" if size == whole else f"{text}:+{size}")
    return ", ".join(parts)


def _dot(e: Expressions, i: Instruction) -> Text | None:
    """`dot[ab,bc->ac](x, y)`."""
    a = i.attrs
    lhs, rhs = (len(x.shape.dims) for x in i.operands[:2])
    if lhs + rhs > len(string.ascii_lowercase) or not i.shape.is_array:
        return None
    letters = iter(string.ascii_lowercase)
    left = [next(letters) for _ in range(lhs)]
    shared = dict(zip(a.rhs_batch_dims, (left[d] for d in a.lhs_batch_dims)))
    shared |= dict(zip(a.rhs_contracting_dims, (left[d] for d in a.lhs_contracting_dims)))
    right = [shared.get(d) or next(letters) for d in range(rhs)]
    bound = {*a.lhs_batch_dims, *a.lhs_contracting_dims}
    out = [left[d] for d in a.lhs_batch_dims]
    out += [left[d] for d in range(lhs) if d not in bound]
    out += [right[d] for d in range(rhs) if d not in shared]
    spec = f"{''.join(left)},{''.join(right)}->{''.join(out)}"
    more = f", {a.algorithm}" if a.algorithm else ""
    return f"dot[{spec}{more}]({e.listed(i.operands)})", ATOM


def _reduce(e: Expressions, i: Instruction) -> Text:
    half = len(i.operands) // 2
    inputs, starts = i.operands[:half], i.operands[half:]
    dims = ",".join(map(str, i.attrs.dimensions))
    what = e.applied(i.called[0])
    # The identity of the operation as start says nothing.
    plain = all(e.reference(x) in _IDENTITY.get(what, ()) for x in starts)
    start = "" if plain else f", from {e.listed(starts)}"
    return f"reduce[{what}, dims={dims}]({e.listed(inputs)}{start})", ATOM


_IDENTITY = {
    "add": ("0", "-0", "(0, 0)"),
    "multiply": ("1",),
    "maximum": ("-inf", "-2147483648", "-9223372036854775808"),
    "minimum": ("inf", "2147483647", "9223372036854775807"),
    "or": ("false",),
    "and": ("true",),
}


def _custom_call(e: Expressions, i: Instruction) -> Text:
    target = i.attrs.custom_call_target
    return f'custom-call["{target}"]({e.listed(i.operands)})', ATOM


SPECIAL: dict[str, Callable[[Expressions, Instruction], Text | None]] = {
    "constant": _constant,
    "get-tuple-element": _element,
    "tuple": _tuple,
    "broadcast": _broadcast,
    "compare": _compare,
    "negate": _negate,
    "not": _negate,
    "convert": _convert,
    "slice": _slice,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "dot": _dot,
    "reduce": _reduce,
    "custom-call": _custom_call,
}
