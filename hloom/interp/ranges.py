"""Which values a program expects in its entry parameters, read off from what it does with them.

Every use that only makes sense for some values (an index, a divisor, the matrix of a Cholesky
factorisation) is traced backwards, through operations that pass values on and through calls, to
the parameters it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from hloom.base.registry import Registry
from hloom.ir.async_chain import argument, async_start_of
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes, opcodes_where
from hloom.ir.traits import COLLECTIVE, FORWARDS, HANDS_OPERANDS, MOVES, RESHAPES

Path = tuple[int, ...]
Leaf = tuple[Instruction, Path]
"""A parameter of the entry and the path to an array in it."""


@dataclass(frozen=True, slots=True)
class ValueRange:
    """What an array's values should be; the narrowest of all uses."""

    low: float | None = None
    high: float | None = None
    """Inclusive."""
    ordered: bool = False
    """Not descending along the first dimension."""
    distinct: bool = False
    bits: bool = False
    """Any bit pattern of the type."""
    matrix: str | None = None
    """`definite`: symmetric positive definite; `triangular`: far from singular."""

    def and_(self, other: ValueRange) -> ValueRange:
        lows = [x.low for x in (self, other) if x.low is not None]
        highs = [x.high for x in (self, other) if x.high is not None]
        return ValueRange(
            max(lows, default=None),
            min(highs, default=None),
            self.ordered or other.ordered,
            self.distinct or other.distinct,
            self.bits or other.bits,
            self.matrix or other.matrix,
        )


Use = tuple[int, ValueRange]
"""An operand's number and what is wanted of it."""
USES: Registry[str, Callable[[Instruction], Iterator[Use]]] = Registry("use")
"""From an opcode to what it wants of its operands."""

POSITIVE = ValueRange(0.5, 2.0)
_TRIP_LIMIT = 4
"""Loops bounded by a parameter run this often at most."""

_FIXED = {
    "acos": ValueRange(-0.9, 0.9),
    "acosh": ValueRange(1.1, 3.0),
    "asin": ValueRange(-0.9, 0.9),
    "atanh": ValueRange(-0.9, 0.9),
    "log": POSITIVE,
    "log-plus-one": ValueRange(-0.5, 2.0),
    "log2": POSITIVE,
    "rsqrt": POSITIVE,
    "sqrt": POSITIVE,
    "cholesky": ValueRange(matrix="definite"),
    "triangular-solve": ValueRange(matrix="triangular"),
    "rng-bit-generator": ValueRange(bits=True),
}


@USES.of(*_FIXED)
def fixed(i: Instruction) -> Iterator[Use]:
    yield 0, _FIXED[i.opcode]


@USES.of("divide", "remainder")
def divisor(i: Instruction) -> Iterator[Use]:
    yield 1, ValueRange(1, 7) if i.shape.dtype.is_integral else POSITIVE


@USES.of("power")
def power(i: Instruction) -> Iterator[Use]:
    if i.shape.dtype.is_integral:
        yield 1, ValueRange(0, 3)
    else:
        yield 0, POSITIVE


@USES.of("shift-left", "shift-right-arithmetic", "shift-right-logical")
def shift(i: Instruction) -> Iterator[Use]:
    yield 1, ValueRange(0, i.shape.dtype.bits - 1)


@USES.of("dot", "convolution")
def weights(i: Instruction) -> Iterator[Use]:
    """Weights as networks start from: such that fifty layers neither overflow nor vanish."""
    rhs = i.operands[1].shape
    if not rhs.dtype.is_floating or rhs.dtype.bits < 16 or not rhs.is_static:
        return
    if i.opcode == "dot":
        contracted_dims = [d for d in i.attrs.rhs_contracting_dims if d < rhs.rank]
        terms = math.prod(rhs.dims[d] for d in contracted_dims)
    else:
        terms = rhs.size // max(1, rhs.dims[i.attrs.dim_labels.kernel_output_feature_dimension])
    if terms > 1:
        bound = math.sqrt(3 / terms)
        yield 1, ValueRange(-bound, bound)


@USES.of("gather")
def gather(i: Instruction) -> Iterator[Use]:
    a, dims = i.attrs, i.operands[0].shape.dims
    room = [dims[d] - a.slice_sizes[d] for d in a.start_index_map]
    yield 1, ValueRange(0, min(room, default=0), ordered=a.indices_are_sorted)


@USES.of("scatter")
def scatter(i: Instruction) -> Iterator[Use]:
    a, count = i.attrs, len(i.operands) // 2
    dims, update = i.operands[0].shape.dims, i.operands[count + 1].shape.dims
    outside = (*a.inserted_window_dims, *a.input_batching_dims)
    window = dict(
        zip(
            [d for d in range(len(dims)) if d not in outside],
            [update[d] for d in a.update_window_dims],
        )
    )
    room = [dims[d] - window.get(d, 1) for d in a.scatter_dims_to_operand_dims]
    yield (
        count,
        ValueRange(
            0, min(room, default=0), ordered=a.indices_are_sorted, distinct=a.unique_indices
        ),
    )


@USES.of("dynamic-slice")
def dynamic_slice(i: Instruction) -> Iterator[Use]:
    for k in range(1, len(i.operands)):
        for d in range(len(i.operands[0].shape.dims)) if i.operands[k].shape.rank else (k - 1,):
            yield k, ValueRange(0, i.operands[0].shape.dims[d] - i.attrs.dynamic_slice_sizes[d])


@USES.of("dynamic-update-slice")
def dynamic_update_slice(i: Instruction) -> Iterator[Use]:
    x, update = i.operands[0].shape, i.operands[1].shape
    for k in range(2, len(i.operands)):
        for d in range(x.rank) if i.operands[k].shape.rank else (k - 2,):
            yield k, ValueRange(0, x.dims[d] - update.dims[d])


@USES.of("conditional")
def conditional(i: Instruction) -> Iterator[Use]:
    if not i.operands[0].shape.dtype.is_pred:
        yield 0, ValueRange(0, len(i.called) - 1)


@USES.of("set-dimension-size")
def set_dimension_size(i: Instruction) -> Iterator[Use]:
    yield 1, ValueRange(0, i.operands[0].shape.dims[i.attrs.dimensions[0]])


@USES.of("dynamic-reshape")
def dynamic_reshape(i: Instruction) -> Iterator[Use]:
    for k, size in enumerate(i.shape.dims):
        yield k + 1, ValueRange(size, size)


@USES.of("ragged-dot")
def ragged_dot(i: Instruction) -> Iterator[Use]:
    groups = max(1, i.operands[2].shape.dims[-1] if i.operands[2].shape.dims else 1)
    size = i.operands[0].shape.dims[i.attrs.lhs_ragged_dims[0]] if i.attrs.lhs_ragged_dims else 0
    yield 2, ValueRange(0, size // groups)


@USES.of("ragged-all-to-all")
def ragged_all_to_all(i: Instruction) -> Iterator[Use]:
    rows = min([x.shape.dims[0] if x.shape.rank else 0 for x in i.operands[:2]])
    for k in range(2, 6):
        yield k, ValueRange(0, rows // 2)


@USES.of("batch-norm-inference", "batch-norm-grad")
def variance(i: Instruction) -> Iterator[Use]:
    yield (4 if i.opcode == "batch-norm-inference" else 3), POSITIVE


@USES.of("custom-call")
def custom_call(i: Instruction) -> Iterator[Use]:
    if i.attrs.custom_call_target == "SliceToDynamic":
        for k, size in enumerate(i.operands[0].shape.dims):
            yield k + 1, ValueRange(0, size)


@USES.of("while")
def while_(i: Instruction) -> Iterator[Use]:
    """Nothing of the state itself; what the condition compares is limited in `wanted_values`."""
    yield from ()


_PASS_ALL = frozenset("concatenate maximum minimum".split())
_PASS_FIRST = opcodes_where(
    lambda op: (
        bool(op.traits & {MOVES, FORWARDS, RESHAPES})
        or (COLLECTIVE in op.traits and not op.called)
        or op.name in ("convert", "pad", "copy-start", "copy-done")
    )
)
_CALLS = opcodes(HANDS_OPERANDS)
_DEEPEST = 500
"""Tuples nested deeper than this are not looked into."""


def value_ranges(module: Module) -> dict[Leaf, ValueRange]:
    """What each array among the entry's parameters should hold; absent: anything."""
    wanted_by_leaf: dict[Leaf, ValueRange] = {}
    seen: dict[ValueRange, set[Leaf]] = {}
    for i in module.instructions():
        use = USES.get(i.opcode)
        if use is not None:
            for k, range_ in use(i):
                if k < len(i.operands):
                    _trace(i.operands[k], range_, module, wanted_by_leaf, seen)
    for loop in (i for i in module.instructions() if i.opcode == "while"):
        root = loop.called[0].root
        if root.opcode == "compare":
            limit = ValueRange(0, _TRIP_LIMIT)
            for side in root.operands:
                _trace(side, limit, module, wanted_by_leaf, seen)
    return wanted_by_leaf


def _trace(
    start: Instruction,
    range_: ValueRange,
    module: Module,
    wanted_by_leaf: dict[Leaf, ValueRange],
    seen_for: dict[ValueRange, set[Leaf]],
) -> None:
    """Note what is wanted at every entry parameter this value may come from.

    `seen_for` holds where each wish has been, so that long chains are walked once.
    """
    stack: list[Leaf] = [(start, ())]
    seen = seen_for.setdefault(range_, set())
    while stack:
        i, path = stack.pop()
        # In a graph nobody verified, a value may be said to be an element of itself.
        if (i, path) in seen or len(path) > _DEEPEST:
            continue
        seen.add((i, path))
        if i.opcode == "parameter" and i.parent is module.entry_or_none:
            here = range_ if i.shape.subshape(path).rank else replace(range_, distinct=False)
            wanted_by_leaf[(i, path)] = (
                wanted_by_leaf[(i, path)].and_(here) if (i, path) in wanted_by_leaf else here
            )
        elif i.opcode == "add" and range_ == POSITIVE:
            # A variance and its epsilon: a sum of positive values is positive.
            stack.extend((x, path) for x in i.operands)
        else:
            stack.extend(_origins(i, path))


def _origins(i: Instruction, path: Path) -> list[Leaf]:
    """Where the values of a part of an instruction come from, one step back."""
    opcode, operands = i.opcode, i.operands
    if opcode == "get-tuple-element":
        return [(operands[0], (i.attrs.index, *path))]
    if opcode == "tuple":
        return [(operands[path[0]], path[1:])] if path else []
    if opcode == "parameter":
        return [(x, path) for x in _passed_in(i)]
    if opcode in _CALLS:
        return [(i.called[0].root, path)]
    if opcode == "async-done":
        start = async_start_of(i)
        return [(start.called[0].root, path)] if start is not None else []
    if opcode == "while":
        return [(operands[0], path)]
    if opcode == "conditional":
        return [(c.root, path) for c in i.called]
    if opcode == "select":
        return [(x, path) for x in operands[1:]]
    if opcode == "clamp":
        return [(operands[1], path)]
    if opcode in _PASS_ALL:
        return [(x, path) for x in operands]
    if opcode in _PASS_FIRST and operands and not i.shape.is_tuple:
        return [(operands[0], path)] if operands[0].shape.is_array else []
    return []


def _passed_in(parameter: Instruction) -> Iterator[Instruction]:
    """The operands of all callers that a parameter may stand for."""
    number = parameter.attrs.number
    for caller in parameter.parent.callers:
        if caller.opcode == "async-start":
            yield argument(caller, number)
        elif caller.opcode in _CALLS and number < len(caller.operands):
            yield caller.operands[number]
        elif caller.opcode == "while":
            yield caller.operands[0]
        elif caller.opcode == "conditional":
            for branch, x in zip(caller.called, caller.operands[1:]):
                if branch is parameter.parent:
                    yield x
