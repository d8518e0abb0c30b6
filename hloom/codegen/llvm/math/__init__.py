"""Functions of real and complex numbers, emitted where they are used: no library is called.

`MATH[opcode](e, x)` and `MATH[opcode](e, x, y)` take values of kind f32 or f64 with any number of
lanes. They compute every input right (infinities, NaN, signed zeros, denormals, huge angles);
`ERRORS` says how well, README.md at what price. Some open blocks (sine, cosine, tan, remainder):
`e.label` is then another one than before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math import (
    angle,
    complex_binary,
    complex_functions,
    complex_parts,
    error,
    exponential,
    hyperbolic,
    logarithm,
    power,
    root,
    rounding,
    trigonometric,
)

ERRORS: dict[str, tuple[float, float]] = {
    "acos": (0.65, 0.72),
    "acosh": (1.31, 1.82),
    "asin": (0.67, 0.71),
    "asinh": (1.02, 0.98),
    "atan2": (1.71, 1.78),
    "atanh": (1.28, 1.27),
    "cbrt": (0.83, 0.67),
    "cosh": (1.31, 1.25),
    "cosine": (0.79, 0.76),
    "erf": (1.15, 1.08),
    "exp2": (0.88, 0.89),
    "exponential": (0.86, 0.90),
    "exponential-minus-one": (0.98, 1.10),
    "log": (0.84, 0.85),
    "log-plus-one": (0.88, 0.85),
    "log2": (0.94, 0.92),
    "logistic": (1.44, 1.43),
    "power": (1.03, 1.04),
    "rsqrt": (1.49, 1.49),
    "sine": (0.79, 0.76),
    "sinh": (1.62, 1.57),
    "tan": (2.35, 2.26),
    "tanh": (1.36, 1.32),
}
"""Largest errors measured, in units of the last digit, f32 and f64, where the machine has fma.

f32 over every 101st of all floats (bench/ulp.py), f64 over some 10^5 points. The other functions
are exact or correctly rounded. Without fma: exponential 1.2, tanh 1.4, logistic 2.2. Powers
that are written with a root: of 1.5 1.26, of -0.5 1.48, of -1.5 1.96."""


def exactly(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function emitted without fast-math flags, which its error terms do not survive."""

    def emitted(e: Emit, *values: Any) -> Any:
        flags, e.flags = e.flags, ""
        result = function(e, *values)
        e.flags = flags
        return result

    emitted.__doc__, emitted.__name__ = function.__doc__, function.__name__
    return emitted


MATH: dict[str, Callable[..., Any]] = {
    opcode: exactly(function)
    for opcode, function in {
        "acos": angle.acos,
        "acosh": logarithm.acosh,
        "asin": angle.asin,
        "asinh": logarithm.asinh,
        "atan2": angle.atan2,
        "atanh": logarithm.atanh,
        "cbrt": root.cbrt,
        "ceil": rounding.ceil,
        "cosh": hyperbolic.cosh,
        "cosine": trigonometric.cosine,
        "divide": rounding.divide,
        "erf": error.erf,
        "exp2": exponential.exp2,
        "exponential": exponential.exponential,
        "exponential-minus-one": exponential.exponential_minus_one,
        "floor": rounding.floor,
        "is-finite": rounding.is_finite,
        "log": logarithm.log,
        "log-plus-one": logarithm.log_plus_one,
        "log2": logarithm.log2,
        "logistic": exponential.logistic,
        "power": power.power,
        "remainder": rounding.remainder,
        "round-nearest-afz": rounding.round_half_away,
        "round-nearest-even": rounding.round_half_even,
        "rsqrt": root.rsqrt,
        "sign": rounding.sign,
        "sine": trigonometric.sine,
        "sinh": hyperbolic.sinh,
        "sqrt": root.sqrt,
        "tan": trigonometric.tan,
        "tanh": hyperbolic.tanh,
    }.items()
}
"""From HLO opcode to the function of real numbers."""


def over_pairs(
    function: Callable[..., Any], narrow: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """A function of pairs of f64 for pairs of f32 too, which are computed in f64 and rounded:
    by `narrow` where f64's range makes that easier."""

    def emitted(e: Emit, *pairs: Any) -> Any:
        kind = pairs[0][0].kind
        wide = [(e.fpext(x, "f64"), e.fpext(y, "f64")) for x, y in pairs]
        result = (narrow if narrow and kind != "f64" else function)(e, *wide)
        if isinstance(result, tuple):
            return e.fptrunc(result[0], kind), e.fptrunc(result[1], kind)
        return e.fptrunc(result, kind)

    emitted.__doc__, emitted.__name__ = function.__doc__, function.__name__
    return exactly(emitted)


COMPLEX_MATH: dict[str, Callable[..., Any]] = {
    opcode: over_pairs(function)
    for opcode, function in (complex_functions.COMPLEX | complex_binary.BINARY).items()
}
"""From HLO opcode to the function of complex numbers: `f(e, (re, im))`, `f(e, x, y)`, to a pair."""

COMPLEX_MATH["divide"] = over_pairs(complex_parts.divide, complex_parts.divide_narrow)


def _magnitude(e: Emit, z: Any) -> Any:
    """|z|."""
    return (complex_parts.size if z[0].kind == "f64" else complex_parts.size_single)(e, z)


COMPLEX_MATH["abs"] = exactly(_magnitude)
