"""Complex arithmetic over pairs of rows: the real parts and the imaginary parts.

Sums and products are those of the parts, each rounded once, as HLO has them; quotients and
functions are in `math`.
"""

from __future__ import annotations

from collections.abc import Callable

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.lower_state import KernelLowering, Rows
from hloom.codegen.llvm.math import COMPLEX_MATH
from hloom.codegen.llvm.values import V
from hloom.types.dtype import DType

Pair = tuple[V, ...]


def add(low: KernelLowering, part: DType, x: Pair, y: Pair) -> Pair:
    """x + y."""
    return low.e.fadd(x[0], y[0]), low.e.fadd(x[1], y[1])


def subtract(low: KernelLowering, part: DType, x: Pair, y: Pair) -> Pair:
    """x - y."""
    return low.e.fsub(x[0], y[0]), low.e.fsub(x[1], y[1])


def multiply(low: KernelLowering, part: DType, x: Pair, y: Pair) -> Pair:
    """x * y from four products, each rounded."""
    e = low.e
    (a, b), (c, d) = x, y
    return e.fsub(e.fmul(a, c), e.fmul(b, d)), e.fadd(e.fmul(a, d), e.fmul(b, c))


def negate(low: KernelLowering, part: DType, x: Pair) -> Pair:
    """-x."""
    return low.e.fneg(x[0]), low.e.fneg(x[1])


def fused(low: KernelLowering, part: DType, a: Pair, b: Pair, c: Pair) -> Pair:
    """a * b + c with fused products."""
    e = low.e
    real = e.fma(e.fneg(a[1]), b[1], e.fma(a[0], b[0], c[0]))
    return real, e.fma(a[1], b[0], e.fma(a[0], b[1], c[1]))


def function(opcode: str) -> Callable[..., Pair]:
    """A function of `math`: its code, or a call of it in long kernels."""
    compute = COMPLEX_MATH[opcode]

    def side_by_side(e: Emit, *parts: V) -> V:
        """The real parts of the result, and behind them the imaginary ones."""
        return e.concat(compute(e, *zip(parts[::2], parts[1::2])))

    def apply(low: KernelLowering, part: DType, *x: Pair) -> Pair:
        if not low.is_long:
            return low.written_here(compute, *x)
        values = [value for pair in x for value in pair]
        result, lanes = low.e.call_inner(f"complex-{opcode}", side_by_side, values), x[0][0].lanes
        if lanes == 1:
            return low.e.extract(result, 0), low.e.extract(result, 1)
        return low.e.slice(result, 0, lanes), low.e.slice(result, lanes, lanes)

    return apply


def magnitude(low: KernelLowering, part: DType, x: Pair) -> V:
    """|x| without overflow in between; NaN when a part is, even beside an infinity."""
    return low.written_here(COMPLEX_MATH["abs"], x)


def compare_complex(low: KernelLowering, direction: str, x: Rows, y: Rows) -> Rows:
    """EQ or NE of complex tiles."""
    e, half = low.e, len(x) // 2
    word, join = ("oeq", e.and_) if direction == "EQ" else ("une", e.or_)
    parts = [e.fcmp(word, a, b) for a, b in zip(x, y)]
    return [join(a, b) for a, b in zip(parts[:half], parts[half:])]


COMPLEX: dict[str, Callable[..., Pair]] = {
    **{opcode: function(opcode) for opcode in COMPLEX_MATH if opcode != "abs"},
    "add": add,
    "fma": fused,
    "multiply": multiply,
    "negate": negate,
    "subtract": subtract,
}
COMPLEX_TO_REAL: dict[str, Callable[..., V]] = {"abs": magnitude}
