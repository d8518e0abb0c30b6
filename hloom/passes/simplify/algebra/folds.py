"""Folds of elements that are equal: computed at once, however many there are.

A sum of n equal numbers is n times one of them, rounded once: no order of additions is nearer to
what is meant, and none ends where n is 2**45. 16-bit floats are counted in f32, as kernels keep
them. A product is squared again and again, so its error is that of n factors in a row at most.
"""

from __future__ import annotations

from math import prod

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.op import opcodes
from hloom.ir.traits import ASSOCIATIVE, IDEMPOTENT
from hloom.rewrite.build import RuleBuilder
from hloom.rewrite.pattern import any_of, m, var
from hloom.rewrite.rule import Declined, rule
from hloom.types.casts import preserves_values
from hloom.types.dtype import F32, DType
from hloom.types.limits import max_value, min_value
from hloom.types.literal import Literal
from hloom.types.shape import shape

FOLDS = opcodes(ASSOCIATIVE)
OF_EQUAL_ITSELF = opcodes(IDEMPOTENT)

x = var("x")


def combining(i: Instruction) -> str:
    """The one operation by which a reduction of one array combines its elements, or ''."""
    if len(i.operands) != 2 or not i.shape.is_array or len(i.called) != 1:
        return ""
    combiner = i.called[0]
    root, types = combiner.root, {p.shape.dtype for p in combiner.parameters}
    of_both = len(root.operands) == 2 and set(root.operands) == set(combiner.parameters)
    same = types | {root.shape.dtype} == {i.shape.dtype} == {i.operands[0].shape.dtype}
    return root.opcode if of_both and same and root.opcode in FOLDS else ""


def _may_fold(i: Instruction) -> bool:
    spread = i.operands[0].shape
    return (
        bool(combining(i)) and i.sharding is None and not (i.shape.is_dynamic or spread.is_dynamic)
    )


@rule(
    any_of(
        ["reduce"],
        any_of(["broadcast"], x, name="spread"),
        var("start"),
        name="out",
        where=_may_fold,
    )
)
def fold_of_equal(b: RuleBuilder, x, spread, start, out):
    """reduce(broadcast(x), start)  =>  start + n * reduce(x)    n equal elements; also max, x, &"""
    opcode, dtype = combining(out), out.shape.dtype
    folded, places = set(out.attrs.dimensions), spread.attrs.dimensions
    count = prod(n for d, n in enumerate(spread.shape.dims) if d in folded and d not in places)
    if not folded - set(places):
        return Declined("all that it folds may differ")
    if 0 in spread.shape.dims or (
        dtype.is_floating and dtype.bits < 16 and opcode in ("add", "multiply")
    ):
        return Declined("no elements, or each step rounds to less than 16 bits")
    if dtype.is_pred and opcode in ("add", "multiply"):
        opcode = {"add": "or", "multiply": "and"}[opcode]
    wide = F32 if dtype.is_floating and dtype.bits == 16 else dtype
    x, start = _converted(b, x, wide), _converted(b, start, wide)
    inner = tuple(k for k, d in enumerate(places) if d in folded)
    if inner:
        x = _reduced(b, x, out.called[0] if wide is dtype else None, opcode, inner)
    repeated = _repeated(b, x, opcode, count)
    first = (
        b.broadcast(start, dimensions=(), shape=repeated.shape) if repeated.shape.rank else start
    )
    value = _converted(b, b.emit(opcode, first, repeated), dtype)
    kept = [d for d in range(spread.shape.rank) if d not in folded]
    dimensions = tuple(kept.index(d) for d in places if d not in folded)
    return b.broadcast(value, dimensions=dimensions, shape=out.shape)


def _converted(b: RuleBuilder, value: Instruction, dtype: DType) -> Instruction:
    if value.shape.dtype is dtype:
        return value
    return b.convert(value, shape=value.shape.with_dtype(dtype))


def _reduced(
    b: RuleBuilder,
    value: Instruction,
    combiner: Computation | None,
    opcode: str,
    dimensions: tuple[int, ...],
) -> Instruction:
    """What differs, folded from what changes nothing."""
    dtype = value.shape.dtype
    combiner = combiner or _combiner(b, opcode, dtype)
    neutral = b.constant(Literal.of(_neutral(opcode, dtype), dtype))
    return b.reduce(value, neutral, dimensions=dimensions, called=(combiner,))


def _combiner(b: RuleBuilder, opcode: str, dtype: DType) -> Computation:
    """A computation of two numbers of a type."""
    module = b.computation.module
    assert module is not None
    combiner = module.add_computation(f"{opcode}_{dtype.name}")
    a, c = (combiner.add("parameter", shape=shape(dtype), number=k) for k in range(2))
    combiner.root = combiner.add(opcode, a, c)
    return combiner


def _neutral(opcode: str, dtype: DType) -> int | float:
    if opcode in ("maximum", "minimum"):
        return min_value(dtype) if opcode == "maximum" else max_value(dtype)
    if opcode == "and":
        return 1 if dtype.is_pred else _wrapped(-1, dtype)
    if opcode == "add":
        return -0.0 if dtype.is_floating else 0  # 0 + -0 is 0
    return 1 if opcode == "multiply" else 0


def _wrapped(number: int, dtype: DType) -> int:
    """The integer of a type that stands for this one."""
    number &= (1 << dtype.bits) - 1
    return number - (1 << dtype.bits) if dtype.is_signed and number >> (dtype.bits - 1) else number


def _repeated(b: RuleBuilder, value: Instruction, opcode: str, count: int) -> Instruction:
    """So many times the same, combined."""
    dtype = value.shape.dtype
    if opcode in OF_EQUAL_ITSELF:
        return value
    if opcode == "xor":
        return value if count % 2 else b.filled(0, value.shape)
    if opcode == "multiply":
        return _power(b, value, count)
    if dtype.is_complex:  # an infinite part by itself: the product with count + 0i has NaN
        real, imaginary = (_repeated(b, part(value), opcode, count) for part in (b.real, b.imag))
        return b.complex(real, imaginary)
    number = float(count) if dtype.is_floating else _wrapped(count, dtype)
    return b.multiply(value, b.filled(number, value.shape))


def _power(b: RuleBuilder, value: Instruction, count: int) -> Instruction:
    """The product of `count` times the value, by squares."""
    if count == 1:
        return value
    half = _power(b, value, count // 2)
    square = b.multiply(half, half)
    return b.multiply(square, value) if count % 2 else square


# Arrays that one loop reads side by side: of more of them, few are fetched early.
MOST_PIECES = 32


def _folds_pieces(i: Instruction) -> bool:
    joined = i.operands[0]
    if joined.opcode != "concatenate":
        return False
    axis = joined.attrs.dimensions[0]
    count = len(joined.operands)
    is_small = count <= MOST_PIECES and all(x.shape.dims[axis] == 1 for x in joined.operands)
    return _may_fold(i) and is_small and i.attrs.dimensions == (axis,)


@rule(
    any_of(
        ["reduce"],
        any_of(["concatenate"], name="joined", one_user=True),
        var("start"),
        name="out",
        where=_folds_pieces,
    )
)
def fold_of_pieces(b: RuleBuilder, joined, start, out):
    """reduce(concatenate(x1, x2, ..), start)  =>  start + x1 + x2 ..    arrays of one row"""
    opcode, dtype = combining(out), out.shape.dtype
    if dtype.is_floating and dtype.bits < 16 and opcode in ("add", "multiply"):
        return Declined("each step rounds to less than 16 bits")
    if dtype.is_pred and opcode in ("add", "multiply"):
        opcode = {"add": "or", "multiply": "and"}[opcode]
    wide = F32 if dtype.is_floating and dtype.bits == 16 else dtype
    of = out.shape.with_dtype(wide)
    level = [_converted(b, b.reshape(x, shape=out.shape), wide) for x in joined.operands]
    while len(level) > 1:
        pairs = [b.emit(opcode, x, y) for x, y in zip(level[::2], level[1::2])]
        level = pairs + level[len(pairs) * 2 :]
    first = _converted(b, start, wide)
    if of.rank:
        first = b.broadcast(first, dimensions=(), shape=of)
    return _converted(b, b.emit(opcode, first, level[0]), dtype)


def _wraps(i: Instruction) -> bool:
    """Whether the low bits of a fold are those of a fold of low bits."""
    is_order = combining(i) in ("maximum", "minimum")
    return i.shape.dtype.is_integral and not is_order and _may_fold(i)


@rule(
    m.convert(
        any_of(
            ["reduce"],
            m.convert(x, name="wide"),
            var("start"),
            name="fold",
            where=_wraps,
            one_user=True,
        ),
        name="out",
    )
)
def fold_in_fewer_bits(b: RuleBuilder, x, wide, start, fold, out):
    """convert(reduce(convert(x), start))  =>  reduce(convert(x), convert(start))    integers"""
    dtype = out.shape.dtype
    if not dtype.is_integral or not 8 <= dtype.bits < fold.shape.dtype.bits:
        return Declined("as many bits as are left, or not bytes of integers")
    if not (x.shape.dtype.is_integral or x.shape.dtype.is_pred):
        return Declined("floats do not wrap")
    x, start = _converted(b, x, dtype), _converted(b, start, dtype)
    opcode = combining(fold)
    combiner = _combiner(b, opcode, dtype)
    return b.reduce(x, start, dimensions=fold.attrs.dimensions, called=(combiner,))


def _is_extreme(i: Instruction) -> bool:
    return combining(i) in ("maximum", "minimum") and _may_fold(i)


@rule(
    any_of(
        ["reduce", "reduce-window"],
        m.convert(x, name="wide"),
        any_of(["constant"], name="start"),
        name="fold",
        where=_is_extreme,
    )
)
def extreme_in_fewer_bits(b: RuleBuilder, x, wide, start, fold):
    """max(convert(x), start)  =>  convert(max(x, convert(start)))    both types hold the start"""
    narrow, dtype = x.shape.dtype, fold.shape.dtype
    if narrow.is_pred or narrow.bits < 8 or (narrow.is_floating and narrow.bits < 16):
        return Declined("elements smaller than those that are compared as they are")
    if narrow is dtype or not preserves_values(narrow, dtype) or start.attrs.literal.is_elided:
        return Declined("the type of the extreme does not hold all of what is converted")
    literal = start.attrs.literal.converted(narrow)
    if literal.converted(dtype) != start.attrs.literal:
        return Declined("the smaller type does not hold the start")
    attributes = {"dimensions": fold.attrs.dimensions} if fold.opcode == "reduce" else {}
    if fold.opcode == "reduce-window":
        attributes["window"] = fold.attrs.window
    called = (_combiner(b, combining(fold), narrow),)
    value = b.emit(fold.opcode, x, b.constant(literal), called=called, **attributes)
    return _converted(b, value, dtype)


RULES = (fold_of_equal, fold_of_pieces, fold_in_fewer_bits, extreme_in_fewer_bits)
