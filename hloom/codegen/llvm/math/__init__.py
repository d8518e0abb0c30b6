"""Functions of real and complex numbers, emitted where they are used: no library is called.

`MATH[opcode](e, x)` and `MATH[opcode](e, x, y)` take values of kind f32 or f64 with any number of
lanes. They compute every input right (infinities, NaN, signed zeros, denormals, huge angles); the
errors, measured against mpmath, are in README.md. Some open blocks (sine, cosine, tan, remainder):
`e.label` is then another one than before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.math import (
    angle,
    error,
    exponential,
    hyperbolic,
    logarithm,
    power,
    root,
    rounding,
    trigonometric,
)


def exactly(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function emitted without fast-math flags, which its error terms do not survive."""

    def emitted(e: Emit, *values: Any) -> Any:
        flags, e.flags = e.flags, ""
        made = function(e, *values)
        e.flags = flags
        return made

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
        "exponential": exponential.exponential,
        "exponential-minus-one": exponential.exponential_minus_one,
        "floor": rounding.floor,
        "is-finite": rounding.is_finite,
        "log": logarithm.log,
        "log-plus-one": logarithm.log_plus_one,
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
