"""Formulas as they are written on paper: `select(x < 0, -x, x)` makes the instructions.

A `Term` is a value of one shape; numbers beside it become constants of its type. Narrow floats
are computed in single precision (`computed_in`), so that a formula knows two types only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction
from hloom.types.dtype import F32, F64, PRED, DType
from hloom.types.literal import Literal
from hloom.types.shape import Shape, shape

Number = float | int
Other = "Term | float | int"


class Maker:
    """Makes the instructions of one formula; equal constants are made once."""

    def __init__(self, scope: Scope, of: Shape) -> None:
        self.scope = scope
        self.shape = of
        self._constants: dict[tuple[Any, DType], Term] = {}

    def constant(self, value: Number, dtype: DType) -> Term:
        """The number in every element."""
        key = (str(value), dtype)
        term = self._constants.get(key)
        if term is None:
            scalar = shape(dtype)
            literal = Literal.of(value, scalar)
            instruction = self.scope.emit("constant", (), scalar, literal=literal)
            if self.shape.dims:
                instruction = self.scope.emit(
                    "broadcast", (instruction,), self.shape.with_dtype(dtype)
                )
            term = self._constants[key] = Term(self, instruction)
        return term

    def emit(self, opcode: str, dtype: DType, *operands: Term, **attributes: Any) -> Term:
        values = tuple([t.instruction for t in operands])
        result = self.shape.with_dtype(dtype)
        return Term(self, self.scope.emit(opcode, values, result, **attributes))


class Term:
    """One value of a formula."""

    __slots__ = ("instruction", "maker")

    def __init__(self, maker: Maker, instruction: Instruction) -> None:
        self.maker = maker
        self.instruction = instruction

    @property
    def dtype(self) -> DType:
        return self.instruction.shape.dtype

    def constant(self, value: Number) -> Term:
        """A number of this type."""
        return self.maker.constant(value, self.dtype)

    def _with(self, opcode: str, other: Term | Number) -> Term:
        right = other if isinstance(other, Term) else self.constant(other)
        return self.maker.emit(opcode, self.dtype, self, right)

    def _after(self, opcode: str, other: Term | Number) -> Term:
        left = other if isinstance(other, Term) else self.constant(other)
        return self.maker.emit(opcode, self.dtype, left, self)

    def __add__(self, other: Term | Number) -> Term:
        return self._with("add", other)

    def __radd__(self, other: Number) -> Term:
        return self._after("add", other)

    def __sub__(self, other: Term | Number) -> Term:
        return self._with("subtract", other)

    def __rsub__(self, other: Number) -> Term:
        return self._after("subtract", other)

    def __mul__(self, other: Term | Number) -> Term:
        return self._with("multiply", other)

    def __rmul__(self, other: Number) -> Term:
        return self._after("multiply", other)

    def __truediv__(self, other: Term | Number) -> Term:
        return self._with("divide", other)

    def __rtruediv__(self, other: Number) -> Term:
        return self._after("divide", other)

    def __neg__(self) -> Term:
        return self.maker.emit("negate", self.dtype, self)

    def __and__(self, other: Term | Number) -> Term:
        return self._with("and", other)

    def __or__(self, other: Term | Number) -> Term:
        return self._with("or", other)

    def __invert__(self) -> Term:
        return self.maker.emit("not", self.dtype, self)

    def power(self, other: Term | Number) -> Term:
        return self._with("power", other)

    def remainder(self, other: Term | Number) -> Term:
        return self._with("remainder", other)

    def maximum(self, other: Term | Number) -> Term:
        return self._with("maximum", other)

    def minimum(self, other: Term | Number) -> Term:
        return self._with("minimum", other)

    def compare(self, direction: str, other: Term | Number) -> Term:
        right = other if isinstance(other, Term) else self.constant(other)
        return self.maker.emit("compare", PRED, self, right, direction=direction)

    def __lt__(self, other: Term | Number) -> Term:
        return self.compare("LT", other)

    def __le__(self, other: Term | Number) -> Term:
        return self.compare("LE", other)

    def __gt__(self, other: Term | Number) -> Term:
        return self.compare("GT", other)

    def __ge__(self, other: Term | Number) -> Term:
        return self.compare("GE", other)

    def equals(self, other: Term | Number) -> Term:
        return self.compare("EQ", other)

    def differs(self, other: Term | Number) -> Term:
        return self.compare("NE", other)

    def apply(self, opcode: str, **attributes: Any) -> Term:
        """A function of this alone, by its opcode."""
        return self.maker.emit(opcode, self.dtype, self, **attributes)

    def converted(self, dtype: DType) -> Term:
        return self if dtype is self.dtype else self.maker.emit("convert", dtype, self)

    def bits(self, dtype: DType) -> Term:
        return self.maker.emit("bitcast-convert", dtype, self)


def select(condition: Term, on_true: Term | Number, on_false: Term | Number) -> Term:
    """One of the two must be a term."""
    like = on_true if isinstance(on_true, Term) else on_false
    assert isinstance(like, Term)
    a, b = (x if isinstance(x, Term) else like.constant(x) for x in (on_true, on_false))
    return like.maker.emit("select", like.dtype, condition, a, b)


def chebyshev(terms: Sequence[float], t: Term) -> Term:
    """The sum of terms[k] * T_k(t) for t in [-1, 1], by Clenshaw's recurrence.

    Single precision leaves out what it cannot see.
    """
    terms = visible(terms, t.dtype)
    double = t + t
    after, here = None, t.constant(terms[-1])
    for c in reversed(terms[1:-1]):
        step = double * here + c
        after, here = here, step if after is None else step - after
    last = t * here + terms[0]
    return last if after is None else last - after


LONG = 6
"""Longer sums are made in two parts, which run side by side."""


def powers(terms: Sequence[Term | float], t: Term) -> Term:
    """The sum of terms[k] * t ** k, by Horner's scheme."""
    if len(terms) > LONG:
        square = t * t
        return powers(terms[::2], square) + powers(terms[1::2], square) * t
    last = terms[-1]
    total = last if isinstance(last, Term) else t.constant(last)
    for c in terms[-2::-1]:
        total = total * t + c
    return total


def visible(terms: Sequence[float], dtype: DType) -> Sequence[float]:
    """The terms that matter in this type."""
    if dtype is F64:
        return terms
    smallest = 2.0**-28 * max(map(abs, terms))
    last = max(k for k, c in enumerate(terms) if abs(c) > smallest)
    return terms[: last + 1]


Function = Callable[..., Term]


def computed(function: Function, scope: Scope, *operands: Instruction) -> Instruction:
    """A function of floats: narrow types go through single precision."""
    of = operands[0].shape
    maker = Maker(scope, of)
    wide = F64 if of.dtype is F64 else F32
    terms = [Term(maker, x).converted(wide) for x in operands]
    return function(*terms).converted(of.dtype).instruction
