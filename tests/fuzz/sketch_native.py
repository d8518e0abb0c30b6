"""Random programs for a compiler: many operations that read one another, loops and branches.

Every opcode's own drawer is used; where it asks for a parameter it mostly gets a value that the
program has already computed, bent to the sizes it wants. So that the interpreter and machine code
can be compared, the drawer keeps book of which values every correct implementation computes alike
(small integers, moved data), and gives only those to operations where a last digit decides much:
comparisons, rounding, integers, narrow floats.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from hloom.interp.draw import DRAW, Sketch, load_drawers
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.values.padding import Padding
from hloom.ir.values.slices import Slices
from hloom.types.dtype import PRED, S32, DType
from hloom.types.shape import Shape, shape, tuple_shape

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 32, 33, 47, 64, 65, 100, 129)
MOST_ELEMENTS = 2500

_ELSEWHERE = (
    "parameter tuple get-tuple-element infeed outfeed send recv send-done recv-done rng "
    "rng-get-and-update-state rng-bit-generator partition-id replica-id after-all add-dependency "
    "custom-call domain dynamic-reshape set-dimension-size get-dimension-size while conditional "
    "cholesky triangular-solve fft batch-norm-training batch-norm-inference batch-norm-grad "
    "ragged-dot scaled-dot bitcast-convert bitcast async-start async-update async-done copy-start "
    "copy-done stochastic-convert reduce-precision power"
).split()
COLLECTIVE = ("all-", "collective-", "reduce-scatter", "ragged-all")
_INEXACT = frozenset(
    "acos acosh asin asinh atan atan2 atanh cbrt cosine cosh divide erf exponential "
    "exponential-minus-one log log-plus-one logistic rsqrt sine sinh sqrt tan tanh scan remainder "
    "reduce-window select-and-scatter".split()
)
_GROWING = frozenset("multiply dot convolution map reduce scan add scatter fusion".split())
_DECIDING = frozenset(
    "compare ceil floor round-nearest-afz round-nearest-even is-finite sort topk remainder sign "
    "convert reduce select-and-scatter clamp bitcast-convert count-leading-zeros".split()
)


def composable() -> list[str]:
    """The opcodes that programs are made of."""
    load_drawers()
    return [
        op
        for op in sorted(OPS)
        if DRAW.get(op) and op not in _ELSEWHERE and not op.startswith(COLLECTIVE)
    ]


class LargerSketch(Sketch):
    """Draws sizes that do and do not fill vectors, where a drawer leaves sizes open."""

    budget = MOST_ELEMENTS

    def dims(self, least: int = 0, most: int = 3, smallest: int = 1, largest: int = 4):
        rank = self.integer(least, most)
        found: list[int] = []
        for _ in range(rank):
            if largest != 4 or self.chance(0.35):
                found.append(self.integer(smallest, largest))
                continue
            room = max(1, self.budget // max(1, prod(found)))
            found.append(self.pick([n for n in SIZES if n <= room]))
        return tuple(self.shuffled(found))

    def integers(self, count: int, low: int, high: int) -> tuple[int, ...]:
        found = list(super().integers(count, low, high))
        if (low, high) == (1, 4) and count and self.chance():
            found[self.integer(0, count - 1)] = self.pick((8, 15, 16, 33))
        return tuple(found)


class ProgramSketch(LargerSketch):
    """A program in the making: `pool` holds what may be read where the next operation goes."""

    def __init__(self, rng: np.random.Generator, integral: bool) -> None:
        super().__init__(rng)
        self.integral = integral
        self.top = self.entry
        self.pool: list[Instruction] = []
        self.inexact: set[Instruction] = set()
        self.grown: dict[Instruction, int] = {}
        self.opcode = ""
        self.depth = 0

    # -- where operands come from

    def parameter(self, of: Shape) -> Instruction:
        """A value computed before, bent to the shape; else a parameter or a constant."""
        if of.is_array and not of.is_dynamic and self.pool and self.chance(0.8):
            return self.bent(self.pick(self._candidates(of.dtype)), of)
        if self.entry is self.top and (not of.is_array or self.chance(0.8)):
            made = super().parameter(of)
        elif of.is_array:
            of = of.with_default_layouts()
            made = self.constant_of(of)
        else:
            made = self.entry.add("tuple", *[self.parameter(p) for p in of.elements], shape=of)
        if of.is_array:
            self.pool.append(made)
        return made

    def constant_of(self, of: Shape) -> Instruction:
        made = self.random_literal(of)
        if of.dtype.is_floating and self.integral:
            whole = np.round(np.asarray(made.array, np.float64) * 2).astype(of.dtype.numpy)
            return self.constant(whole, of)
        return self.entry.add("constant", shape=of, literal=made)

    def _candidates(self, dtype: DType) -> list[Instruction]:
        narrow = dtype.bits < 32 or not dtype.is_floating
        strict = narrow or self.opcode in _DECIDING
        found = [x for x in self.pool[-12:] if not (strict and x in self.inexact)]
        same = [x for x in found if x.shape.dtype is dtype]
        if same and self.chance(0.85):
            return same
        if not found:
            return [self.constant_of(shape(self.dtype(), self.dims(0, 2)).with_default_layouts())]
        return found

    def bent(self, x: Instruction, of: Shape) -> Instruction:
        """The elements of a value, or some of them, in the type and sizes of a shape."""
        x = self._typed(x, of.dtype)
        if x.shape.dims != of.dims:
            x = self._sized(x, of.dims)
        grown = self.grown.get(x, 0) > 1 or x in self.inexact
        if grown and of.dtype.is_floating and of.size:
            ends = [self.constant(np.array(v).astype(of.dtype.numpy), shape(of.dtype))
                    for v in ((-4, 4) if of.dtype.is_signed else (0.5, 4))]  # fmt: skip
            x = self.of_value("clamp", x, ends[0], x, ends[1], shape=x.shape)
            self.grown[x] = 0
        return x

    def of_value(self, opcode: str, source: Instruction, *operands: Instruction, **rest: Any):
        """Append an operation that moves a value or converts it; it is as exact as that."""
        made = self.entry.add(opcode, *operands, **rest)
        self.grown[made] = self.grown.get(source, 0)
        if source in self.inexact:
            self.inexact.add(made)
        return made

    def _typed(self, x: Instruction, dtype: DType) -> Instruction:
        here = x.shape.dtype
        if here is dtype:
            return x
        if here.is_complex and not dtype.is_complex:
            x = self.of_value("real", x, x, shape=x.shape.with_dtype(here.component))
            return self._typed(x, dtype)
        return self.of_value("convert", x, x, shape=x.shape.with_dtype(dtype))

    def _sized(self, x: Instruction, dims: tuple[int, ...]) -> Instruction:
        here, dtype = x.shape, x.shape.dtype
        if here.size == prod(dims):
            if sorted(here.dims) == sorted(dims) and self.chance(0.7):
                left = list(range(here.rank))
                order = []
                for n in dims:
                    d = next(d for d in left if here.dims[d] == n)
                    left.remove(d)
                    order.append(d)
                to = shape(dtype, dims)
                return self.of_value("transpose", x, x, shape=to, dimensions=tuple(order))
            return self.of_value("reshape", x, x, shape=shape(dtype, dims))
        at = _places(here.dims, dims)
        if at is not None and self.chance(0.8):
            return self.of_value("broadcast", x, x, shape=shape(dtype, dims), dimensions=at)
        if here.rank != len(dims):
            x = self.of_value("reshape", x, x, shape=shape(dtype, (here.size,)))
            return self._sized(self._sized(x, (prod(dims),)), dims)
        if all(n >= m for n, m in zip(here.dims, dims)):
            starts = [self.integer(0, n - m) for n, m in zip(here.dims, dims)]
            slices = Slices.of(*[(a, a + m, 1) for a, m in zip(starts, dims)])
            return self.of_value("slice", x, x, shape=shape(dtype, dims), slice=slices)
        zero = self.constant(np.array(1).astype(dtype.numpy), shape(dtype))
        rows = [(0, m - n, 0) for n, m in zip(here.dims, dims)]
        to = shape(dtype, dims)
        return self.of_value("pad", x, x, zero, shape=to, padding=Padding.of(*rows))

    # -- what is appended

    def add(self, opcode: str, *operands: Instruction, **rest: Any) -> Instruction:
        made = super().add(opcode, *operands, **rest)
        self._judge(made)
        return made

    def _judge(self, made: Instruction) -> None:
        """Keep book of a new value's exactness."""
        opcode = made.opcode
        grown = max((self.grown.get(x, 0) for x in made.operands), default=0)
        self.grown[made] = grown + (opcode in _GROWING)
        floating = any(
            leaf.is_array and (leaf.dtype.is_floating or leaf.dtype.is_complex)
            for leaf in made.shape.leaves()
        )
        if not floating:
            return
        bad = opcode in _INEXACT or any(x in self.inexact for x in made.operands)
        bad |= not self.integral and opcode in _GROWING
        bad |= self.grown[made] > 1
        bad |= opcode in _GROWING and any(
            leaf.is_array and leaf.dtype.bits < 32 for leaf in made.shape.leaves()
        )
        if bad:
            self.inexact.add(made)

    def step(self) -> None:
        """One more operation, or loop, branch or call."""
        if self.depth < 2 and self.chance(0.12):
            self.pick((self.loop, self.branch, self.call))()
            return
        self.opcode = self.pick(composable())
        made = DRAW[self.opcode](self)
        self.take(made)

    def take(self, made: Instruction) -> None:
        """Into the pool, part by part."""
        if made.shape.is_array:
            if not made.shape.is_dynamic:
                self.pool.append(made)
        elif made.shape.is_tuple:
            for k, part in enumerate(made.shape.elements):
                if part.is_array:
                    self.take(self.of_value("get-tuple-element", made, made, shape=part, index=k))

    @contextmanager
    def inside(self, name: str, *parameters: Shape) -> Iterator[Computation]:
        """Operations go into a new computation, which reads its parameters only."""
        made = self.computation(name, *parameters)
        before = self.entry, self.pool, self.opcode
        self.entry, self.pool = made, []
        self.depth += 1
        try:
            yield made
        finally:
            self.entry, self.pool, self.opcode = before
            self.depth -= 1

    def wanted(self, of: Shape) -> Instruction:
        """Something of this shape, for a computation's result."""
        self.opcode = ""
        return self.bent(self.pick(self._candidates(of.dtype)), of)

    def some_values(self, least: int, most: int) -> list[Instruction]:
        """A few values of the pool; there is one at least."""
        if not self.pool:
            self.opcode = ""
            self.pool.append(self.array())
        return [self.pick(self.pool[-8:]) for _ in range(self.integer(least, most))]

    def loop(self) -> None:
        """A counted loop over a few values; sometimes the end is an argument."""
        state = self.some_values(1, 3)
        counter = self.constant(0, shape(S32))
        end: Instruction = self.constant(self.integer(0, 4), shape(S32))
        if self.chance(0.3):
            five = self.constant(5, shape(S32))
            end = self.entry.add("and", self.parameter(shape(S32)), five, shape=shape(S32))
        start = self.entry.add("tuple", counter, end, *state)
        of = tuple_shape(x.shape for x in start.operands)
        with self.inside("body", of) as body:
            parts = [
                body.add("get-tuple-element", body.parameters[0], shape=part, index=k)
                for k, part in enumerate(of.elements)
            ]
            self.pool.extend([parts[0], *parts[2:]])
            self.inexact.update(p for p in parts[2:] if _inexact_type(p.shape.dtype))
            for _ in range(self.integer(0, 4)):
                self.step()
            after = [self._carried(parts[0], parts[2 + k]) for k in range(len(state))]
            one = self.constant(1, shape(S32))
            following = body.add("add", parts[0], one, shape=shape(S32))
            body.root = body.add("tuple", following, parts[1], *after, shape=of)
        condition = self.computation("condition", of)
        ends = [
            condition.add("get-tuple-element", condition.parameters[0], shape=shape(S32), index=k)
            for k in range(2)
        ]
        condition.root = condition.add("compare", *ends, shape=shape(PRED), direction="LT")
        made = self.entry.add("while", start, shape=of, called=(condition, body))
        for k, x in enumerate(of.elements):
            part = self.entry.add("get-tuple-element", made, shape=x, index=k)
            if _inexact_type(x.dtype):
                self.inexact.add(part)
            self.pool.append(part)

    def _carried(self, counter: Instruction, x: Instruction) -> Instruction:
        """What a loop makes of a value: itself, another, or one with a slice replaced."""
        if self.chance(0.2):
            return x
        if not x.shape.rank or not x.shape.size or self.chance():
            return self.wanted(x.shape)
        sizes = (1, *x.shape.dims[1:])
        zero = self.constant(0, shape(S32))
        at = [counter if self.chance(0.8) else zero, *[zero] * (x.shape.rank - 1)]
        of = shape(x.shape.dtype, sizes)
        if self.chance():
            slices = {"shape": of, "dynamic_slice_sizes": sizes}
            self.pool.append(self.of_value("dynamic-slice", x, x, *at, **slices))
        update = self.wanted(of)
        return self.of_value("dynamic-update-slice", x, x, update, *at, shape=x.shape)

    def branch(self) -> None:
        """A choice of two or three computations by an index or a predicate."""
        count = self.integer(2, 3)
        self.opcode = "compare"
        chosen = PRED if count == 2 and self.chance() else S32
        index = self.bent(self.pick(self._candidates(chosen)), shape(chosen))
        of = shape(self.dtype(), self.dims())
        given, made = [], []
        for _ in range(count):
            inputs = self.some_values(1, 2)
            one = inputs[0] if len(inputs) == 1 else self.entry.add("tuple", *inputs)
            given.append(one)
            made.append(self._body("branch", one.shape, of))
        result = self.entry.add("conditional", index, *given, shape=of, called=tuple(made))
        self._result(result)

    def call(self) -> None:
        inputs = self.some_values(1, 3)
        of = shape(self.dtype(), self.dims())
        with self.inside("callee", *[x.shape for x in inputs]) as made:
            self._filled(made.parameters, of)
        self._result(self.entry.add("call", *inputs, shape=of, called=(made,)))

    def _body(self, name: str, given: Shape, of: Shape) -> Computation:
        with self.inside(name, given) as made:
            inputs: Sequence[Instruction] = made.parameters
            if given.is_tuple:
                inputs = [
                    made.add("get-tuple-element", made.parameters[0], shape=part, index=k)
                    for k, part in enumerate(given.elements)
                ]
            self._filled(inputs, of)
        return made

    def _filled(self, inputs: Sequence[Instruction], of: Shape) -> None:
        self.pool.extend(inputs)
        self.inexact.update(x for x in inputs if _inexact_type(x.shape.dtype))
        for _ in range(self.integer(0, 3)):
            self.step()
        self.entry.root = self.wanted(of)

    def _result(self, made: Instruction) -> None:
        if _inexact_type(made.shape.dtype):
            self.inexact.add(made)
        self.pool.append(made)

    def finish(self) -> Module:
        """Return a few values, often more than one, sometimes one twice or an argument."""
        if not self.pool:
            self.pool.append(self.array())
        results = [self.pool[-1], *self.some_values(0, 3)]
        if len(results) == 1 and self.chance(0.6):
            self.entry.root = results[0]
        else:
            self.entry.root = self.entry.add("tuple", *results)
        return self.finished()


def _inexact_type(dtype: DType) -> bool:
    return dtype.is_floating or dtype.is_complex


def _places(dims: tuple[int, ...], into: tuple[int, ...]) -> tuple[int, ...] | None:
    """Which dimensions of a broadcast's result the operand's are, in order; None: it cannot be."""
    at, k = [], 0
    for d, n in enumerate(into):
        if k < len(dims) and dims[k] == n:
            at.append(d)
            k += 1
    return tuple(at) if k == len(dims) else None
