"""Complex arithmetic over pairs of rows: the real parts and the imaginary parts.

Sums and products are those of the parts, each rounded once, as HLO has them; quotients and
functions are in `math`.
"""

from __future__ import annotations

from collections.abc import Callable

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
    """A function of `math`."""
    compute = COMPLEX_MATH[opcode]
    return lambda low, part, *x: compute(low.e, *x)


def magnitude(low: KernelLowering, part: DType, x: Pair) -> V:
    """|x| without overflow in between; NaN when a part is, even beside an infinity."""
    return COMPLEX_MATH["abs"](low.e, x)


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
