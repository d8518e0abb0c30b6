"""Complex arithmetic over pairs of rows: the real parts and the imaginary parts.

Sums and products are those of the parts, each rounded once, as HLO has them. Quotients of c64 are
computed in f64, where nothing overflows; functions are in `math`.
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.lower_state import Lowering, Rows
from hloom.codegen.llvm.values import V
from hloom.types.dtype import DType

Pair = tuple[V, ...]


def add(low: Lowering, part: DType, x: Pair, y: Pair) -> Pair:
    """x + y."""
    return low.e.fadd(x[0], y[0]), low.e.fadd(x[1], y[1])


def subtract(low: Lowering, part: DType, x: Pair, y: Pair) -> Pair:
    """x - y."""
    return low.e.fsub(x[0], y[0]), low.e.fsub(x[1], y[1])


def multiply(low: Lowering, part: DType, x: Pair, y: Pair) -> Pair:
    """x * y from four products, each rounded."""
    e = low.e
    (a, b), (c, d) = x, y
    return e.fsub(e.fmul(a, c), e.fmul(b, d)), e.fadd(e.fmul(a, d), e.fmul(b, c))


def negate(low: Lowering, part: DType, x: Pair) -> Pair:
    """-x."""
    return low.e.fneg(x[0]), low.e.fneg(x[1])


def fused(low: Lowering, part: DType, a: Pair, b: Pair, c: Pair) -> Pair:
    """a * b + c with fused products."""
    e = low.e
    real = e.fma(e.fneg(a[1]), b[1], e.fma(a[0], b[0], c[0]))
    return real, e.fma(a[1], b[0], e.fma(a[0], b[1], c[1]))


def magnitude(low: Lowering, part: DType, x: Pair) -> V:
    """|x| without overflow in between; NaN when a part is, even beside an infinity.

    The parts are scaled by a power of two (f32: widened), which is exact, so that the squares
    neither overflow nor vanish.
    """
    e = low.e
    a, b = (e.fabs(v) for v in x)
    if a.kind == "f32":
        a, b = (e.fpext(v, "f64") for v in (a, b))
        root = e.fsqrt(e.fadd(e.fmul(a, a), e.fmul(b, b)))
        return e.fptrunc(root, "f32")
    up, largest, (a, b) = _scaled(e, a, b)
    size = e.fdiv(e.fsqrt(e.fma(a, a, e.fmul(b, b))), up)
    size = e.select(e.fcmp("oeq", largest, e.like(a, float("inf"))), largest, size)
    return e.select(e.fcmp("uno", a, b), e.fadd(a, b), size)


def _scaled(e: Emit, *parts: V) -> tuple[V, V, list[V]]:
    """A power of two, the largest size, and the parts times that power, near 1 then."""
    largest = e.fabs(parts[0])
    for part in parts[1:]:
        largest = e.fmaximum(largest, e.fabs(part))
    field = e.and_(e.bits(largest), e.const("i64", 0x7FF << 52, largest.lanes))
    # 2^(2046 - field) is the reciprocal power; it is kept normal at both ends.
    field = e.umin(e.umax(field, e.like(field, 1 << 52)), e.like(field, 2045 << 52))
    up = e.bitcast(e.sub(e.like(field, 2046 << 52), field), "f64")
    return up, largest, [e.fmul(part, up) for part in parts]


def divide(low: Lowering, part: DType, x: Pair, y: Pair) -> Pair:
    """x / y as C99 has it: infinite for a zero y, 0 for an infinite y and a finite x."""
    e = low.e
    kind = x[0].kind
    if kind == "f32":
        x, y = (tuple([e.fpext(v, "f64") for v in pair]) for pair in (x, y))
    real, imaginary = _quotient(e, x, y)
    return e.fptrunc(real, kind), e.fptrunc(imaginary, kind)


def _quotient(e: Emit, x: Pair, y: Pair) -> Pair:
    up, _, (c, d) = _scaled(e, *y)
    a, b = x
    size = e.fma(c, c, e.fmul(d, d))
    real = e.fmul(e.fdiv(e.fma(a, c, e.fmul(b, d)), size), up)
    imaginary = e.fmul(e.fdiv(e.fsub(e.fmul(b, c), e.fmul(a, d)), size), up)
    # Annex G of C99, for results of which both parts are NaN.
    lost = e.and_(e.fcmp("uno", real, real), e.fcmp("uno", imaginary, imaginary))
    infinity, zero = e.like(a, float("inf")), e.like(a, 0.0)
    by_zero = e.and_(e.fcmp("oeq", y[0], zero), e.fcmp("oeq", y[1], zero))

    def finite(pair: Pair) -> V:
        return e.and_(*[e.fcmp("olt", e.fabs(v), infinity) for v in pair])

    def infinite(pair: Pair) -> V:
        return e.or_(*[e.fcmp("oeq", e.fabs(v), infinity) for v in pair])

    def boxed(v: V) -> V:
        one = e.select(e.fcmp("oeq", e.fabs(v), infinity), e.like(v, 1.0), zero)
        return e.copysign(one, v)

    def put(where: V, first: V, second: V, factor: V) -> None:
        nonlocal real, imaginary
        real = e.select(where, e.fmul(factor, first), real)
        imaginary = e.select(where, e.fmul(factor, second), imaginary)

    def turned(p: V, q: V, c: V, d: V) -> tuple[V, V]:
        return e.fadd(e.fmul(p, c), e.fmul(q, d)), e.fsub(e.fmul(q, c), e.fmul(p, d))

    put(by_zero, a, b, e.copysign(infinity, y[0]))
    lost = e.and_(lost, e.not_(by_zero))
    put(e.and_(lost, e.and_(infinite(x), finite(y))), *turned(boxed(a), boxed(b), *y), infinity)
    put(e.and_(lost, e.and_(finite(x), infinite(y))), *turned(a, b, *map(boxed, y)), zero)
    return real, imaginary


def compare_complex(low: Lowering, direction: str, x: Rows, y: Rows) -> Rows:
    """EQ or NE of complex tiles."""
    e, half = low.e, len(x) // 2
    word, join = ("oeq", e.and_) if direction == "EQ" else ("une", e.or_)
    parts = [e.fcmp(word, a, b) for a, b in zip(x, y)]
    return [join(a, b) for a, b in zip(parts[:half], parts[half:])]


COMPLEX: dict[str, Callable[..., Pair]] = {
    "add": add,
    "divide": divide,
    "fma": fused,
    "multiply": multiply,
    "negate": negate,
    "subtract": subtract,
}
COMPLEX_TO_REAL: dict[str, Callable[..., V]] = {"abs": magnitude}
