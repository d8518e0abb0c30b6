"""Operations of CHLO that are one of HLO, or a few."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from hloom.frontends.stablehlo.elementwise import accurate, same
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction
from hloom.types.dtype import PRED
from hloom.types.shape import Shape, shape

_PAIR = re.compile(r"([-+.\w]+), *([-+.\w]+)>")

for _name in "acos acosh asin asinh atanh cosh erf sinh tan".split():
    IMPORT.add(f"chlo.{_name}", accurate(_name))
    IMPORT.add(f"mhlo.{_name}", accurate(_name))
IMPORT.add("chlo.mulhi", same("mulhi"))


def predicates(of: Shape) -> Shape:
    return shape(PRED, of.dims, None, of.dynamic).with_default_layouts()


@IMPORT.of("chlo.atan")
def atan(scope: Scope, op: Any) -> Instruction:
    """atan2(x, 1); of complex numbers -i atanh(ix), whose limits and cuts are known."""
    (x,) = scope.operands(op)
    if x.shape.dtype.is_complex:
        part = x.shape.with_dtype(x.shape.dtype.component)
        real, imag = (scope.emit(name, (x,), part) for name in ("real", "imag"))
        turned = scope.emit("complex", (scope.emit("negate", (imag,), part), real), x.shape)
        inner = scope.emit("atanh", (turned,), x.shape)
        real, imag = (scope.emit(name, (inner,), part) for name in ("real", "imag"))
        return scope.emit("complex", (imag, scope.emit("negate", (real,), part)), x.shape)
    one = scope.full(1, x.shape)
    return scope.emit("atan2", (x, one), x.shape)


@IMPORT.of("chlo.square")
def square(scope: Scope, op: Any) -> Instruction:
    (x,) = scope.operands(op)
    return scope.emit("multiply", (x, x), x.shape)


@IMPORT.of("chlo.conj")
def conj(scope: Scope, op: Any) -> Instruction:
    (x,) = scope.operands(op)
    if not x.shape.dtype.is_complex:
        return x
    part = x.shape.with_dtype(x.shape.dtype.component)
    real, imag = (scope.emit(name, (x,), part) for name in ("real", "imag"))
    negated = scope.emit("negate", (imag,), part)
    return scope.emit("complex", (real, negated), x.shape)


@IMPORT.of("chlo.constant_like")
def constant_like(scope: Scope, op: Any) -> Instruction:
    """One number in every element of the operand's shape."""
    (x,) = scope.operands(op)
    attribute = op.attributes["value"]
    if x.shape.is_dynamic:
        raise scope.error("the operand has no fixed shape", rule="dynamic")
    return scope.full(_number(attribute), x.shape)


def _number(attribute: Any) -> complex:
    """The number of an attribute; a complex one has no view of its own, only text."""
    value = getattr(attribute, "value", None)
    if value is not None:
        return value
    match = _PAIR.search(str(attribute))
    if match is None:
        raise ValueError(f"not a number: {attribute}")
    return complex(float(match[1]), float(match[2]))


@IMPORT.of("chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf")
def is_inf(scope: Scope, op: Any) -> Instruction:
    (x,) = scope.operands(op)
    name = op.operation.name
    if name == "chlo.is_inf":
        x = scope.emit("abs", (x,), x.shape)
    infinite = -np.inf if name == "chlo.is_neg_inf" else np.inf
    infinity = scope.full(infinite, x.shape)
    return scope.emit("compare", (x, infinity), predicates(x.shape), direction="EQ")
