"""Elementwise ops: from an opcode and a type to the function that computes one row.

The tables of `lower_real`, `lower_integer` and `lower_complex` compute one row; here they are
applied to every row of a tile, once for rows that are the same registers.
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.lower_complex import COMPLEX, COMPLEX_TO_REAL, compare_complex
from hloom.codegen.llvm.lower_convert import bitcast_row, convert_rows
from hloom.codegen.llvm.lower_integer import INTEGER, PRED_FUNCTIONS
from hloom.codegen.llvm.lower_real import REAL, compare, reduce_precision
from hloom.codegen.llvm.lower_shape import splatted
from hloom.codegen.llvm.lower_state import Handler, KernelLowering, Rows, as_narrow, rounded_through
from hloom.codegen.llvm.values import V
from hloom.ir.elementwise import BINARY, UNARY
from hloom.kernel.kernel import Op, Value
from hloom.types.dtype import BF16, F8E8M0FNU, DType

Item = tuple[V, ...]


def row_function(low: KernelLowering, opcode: str, dtype: DType) -> Callable[..., V]:
    """What computes one row of a tile that is not complex; its operands have this type."""
    if dtype.is_floating:
        table = REAL
    elif dtype.is_integral:
        table = INTEGER
    else:
        table = PRED_FUNCTIONS
    function = table.get(opcode)
    if function is None:
        raise undefined(low, opcode, dtype)
    return function


def undefined(low: KernelLowering, opcode: str, dtype: DType) -> HloError:
    """The error for an op on a type it does not admit."""
    return HloError(
        f"{opcode} is not defined for {dtype} operands",
        instruction=low.kernel.name,
        rule="llvm-lower",
        hint="convert the operands first",
    )


def folding(low: KernelLowering, opcode: str, dtype: DType) -> Callable[[Item, Item], Item]:
    """What combines two rows (pairs of parts if complex) in a reduction."""
    if dtype.is_complex:
        pair = COMPLEX.get(opcode)
        if pair is None:
            raise undefined(low, opcode, dtype)
        return lambda a, b: pair(low, dtype.component, a, b)
    one = row_function(low, opcode, dtype)

    def apply(x: V, y: V) -> V:
        return one(low, dtype, x, y)

    return lambda a, b: (low.each(apply, a[0], b[0]),)


def _in_range(low: KernelLowering, op: Op) -> V | None:
    """`x >= 0 and x <= c` of one integer as one comparison, without sign; None if it is none."""
    first, last = [x.op for x in op.operands]
    if op.result.shape or first is None or last is None:
        return None
    if any(y.opcode != "compare" or not y.operands[0].dtype.is_signed_int for y in (first, last)):
        return None
    ends = [y.operands[1].op for y in (first, last)]
    if any(end is None or end.opcode != "constant" for end in ends):
        return None
    low_end, high_end = [end.attrs["value"] for end in ends if end is not None]
    directions = first.attrs["direction"], last.attrs["direction"]
    if first.operands[0] is not last.operands[0] or directions not in (("GE", "LE"), ("GE", "LT")):
        return None
    if low_end != 0 or high_end < 0:
        return None
    [x], [end] = low.rows[last.operands[0]], low.rows[last.operands[1]]
    return low.e.icmp("ule" if directions[1] == "LE" else "ult", x, end)


def elementwise(low: KernelLowering, op: Op) -> Rows:
    """HLO's elementwise operations with operands of one type."""
    operands, opcode = op.operands, op.opcode
    if opcode == "and" and (inside := _in_range(low, op)) is not None:
        return [inside]
    dtype = operands[0].dtype
    if dtype.is_complex:
        return _elementwise_complex(low, op)
    apply = row_function(low, opcode, dtype)
    if _is_rounded(low, op.result):
        apply = _rounding(apply)
    columns = [low.rows[x] for x in operands]
    if low.widths(columns[0][0].lanes):
        return [low.each(lambda *x: apply(low, dtype, *x), *row) for row in zip(*columns)]
    return [apply(low, dtype, *row) for row in zip(*columns)]


def _is_rounded(low: KernelLowering, value: Value) -> bool:
    """Whether a result is rounded although the kernel allows excess precision."""
    dtype = value.dtype
    narrow = dtype.is_floating and dtype.bits <= 8
    return narrow and low.kernel.excess_precision and value not in low.yielded


def _rounding(apply: Callable[..., V]) -> Callable[..., V]:
    """The function, rounded to the type: with three bits, excess makes other numbers of them."""

    def rounded(low: KernelLowering, dtype: DType, *x: V) -> V:
        return rounded_through(low.e, apply(low, dtype, *x), dtype)

    return rounded


def _elementwise_complex(low: KernelLowering, op: Op) -> Rows:
    opcode, part = op.opcode, op.operands[0].dtype.component
    columns = []
    for x in op.operands:
        rows = low.rows[x]
        half = len(rows) // 2
        columns.append(list(zip(rows[:half], rows[half:])))
    if (to_real := COMPLEX_TO_REAL.get(opcode)) is not None:
        pieces = [[to_real(low, part, *p) for p in _pair_parts(low, row)] for row in zip(*columns)]
        return [low.joined(row) for row in pieces]
    function = COMPLEX.get(opcode)
    if function is None:
        raise undefined(low, opcode, op.operands[0].dtype)
    pairs = [[function(low, part, *p) for p in _pair_parts(low, row)] for row in zip(*columns)]
    return [low.joined([pair[plane] for pair in row]) for plane in range(2) for row in pairs]


def _pair_parts(low: KernelLowering, operands: tuple[Item, ...]) -> list[tuple[Item, ...]]:
    """The parts of a row of each operand (see `Lowering.widths`), each a pair."""
    if not low.widths(operands[0][0].lanes):
        return [operands]
    return list(zip(*[list(zip(*[low.parts(plane) for plane in pair])) for pair in operands]))


def complex_(low: KernelLowering, op: Op) -> Rows:
    """x + iy of two real tiles."""
    return low.of(op.operands[0]) + low.of(op.operands[1])


def real(low: KernelLowering, op: Op) -> Rows:
    """The real part; a real tile itself."""
    rows = low.of(op.operands[0])
    return rows[: len(rows) // 2] if op.operands[0].dtype.is_complex else rows


def imag(low: KernelLowering, op: Op) -> Rows:
    """The imaginary part; 0 of a real tile."""
    rows = low.of(op.operands[0])
    if op.operands[0].dtype.is_complex:
        return rows[len(rows) // 2 :]
    # f8e8m0fnu has no zero: its bits 0 are the smallest number, which the interpreter gives too.
    zero = 2.0**-127 if op.operands[0].dtype is F8E8M0FNU else 0
    return [low.e.like(row, zero) for row in rows]


def compare_(low: KernelLowering, op: Op) -> Rows:
    """x DIRECTION y."""
    x, y = op.operands
    direction, order, dtype = op.attrs["direction"], op.attrs.get("order", ""), x.dtype
    if dtype.is_complex:
        if direction not in ("EQ", "NE"):
            raise low.refuse(op, f"{direction}: complex numbers have no order")
        return compare_complex(low, direction, low.of(x), low.of(y))

    def apply(a: V, b: V) -> V:
        return compare(low, dtype, direction, order, a, b)

    return [low.each(apply, a, b) for a, b in zip(low.of(x), low.of(y))]


def select(low: KernelLowering, op: Op) -> Rows:
    """x where the mask holds, else y; the mask per element, or one for all."""
    mask, x, y = op.operands
    masks, first, second = low.of(mask), low.of(x), low.of(y)
    dtype = op.result.dtype

    def pick(m: V, a: V, b: V) -> V:
        return as_narrow(low.e, low.e.select(m, a, b), dtype, (a, b))

    if len(masks) != len(first):
        masks = masks * (len(first) // len(masks))
    return [low.each(pick, m, a, b) for m, a, b in zip(masks, first, second)]


def clamp(low: KernelLowering, op: Op) -> Rows:
    """min(max(x, low), high); the limits may be scalars."""
    least, x, most = op.operands
    dtype, rows = x.dtype, low.of(x)
    if dtype.is_complex:
        raise undefined(low, "clamp", dtype)
    bounds = []
    for limit in (least, most):
        limit_rows = low.of(limit)
        if limit.shape != x.shape:
            limit_rows = [splatted(low, limit_rows[0], rows[0].lanes)] * len(rows)
        bounds.append(limit_rows)
    larger, smaller = (row_function(low, name, dtype) for name in ("maximum", "minimum"))

    def apply(a: V, v: V, b: V) -> V:
        return smaller(low, dtype, larger(low, dtype, v, a), b)

    return [low.each(apply, a, v, b) for a, v, b in zip(bounds[0], rows, bounds[1])]


def convert(low: KernelLowering, op: Op) -> Rows:
    """The tile in another type."""
    x, target = op.operands[0], op.result.dtype
    if x in low.computed and target is BF16 and x.dtype.is_floating:
        return [
            low.each(lambda part: rounded_through(low.e, part, target, is_result=True), row)
            for row in low.of(x)
        ]
    return convert_rows(low, low.of(x), x.dtype, target)


def bitcast_convert(low: KernelLowering, op: Op) -> Rows:
    """The same bits as another type of the same width."""
    x, target = op.operands[0], op.result.dtype
    source = x.dtype
    if source.bits != target.bits or source.is_complex or target.is_complex:
        raise low.refuse(
            op,
            f"from {source} to {target}: only real types of equal width",
            "view the memory as the other type, or shift and convert the parts",
        )
    if op.result in low.deferred:
        return []
    return [low.each(lambda v: bitcast_row(low, v, source, target), r) for r in low.of(x)]


def reduce_precision_(low: KernelLowering, op: Op) -> Rows:
    """x rounded to fewer bits."""
    x, attrs = op.operands[0], op.attrs
    if not x.dtype.is_floating:
        raise undefined(low, op.opcode, x.dtype)
    exponents, mantissas = attrs["exponent_bits"], attrs["mantissa_bits"]

    def apply(v: V) -> V:
        return reduce_precision(low, x.dtype, exponents, mantissas, v)

    return [low.each(apply, row) for row in low.of(x)]


ELEMENT: dict[str, Handler] = {
    **dict.fromkeys((UNARY | BINARY) - {"complex", "real", "imag"}, elementwise),
    "bitcast-convert": bitcast_convert,
    "clamp": clamp,
    "compare": compare_,
    "complex": complex_,
    "convert": convert,
    "fma": elementwise,
    "imag": imag,
    "real": real,
    "reduce-precision": reduce_precision_,
    "select": select,
}
