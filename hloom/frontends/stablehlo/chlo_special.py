"""The functions of CHLO that HLO has no operation for, each by the formula in another file."""

from __future__ import annotations

from typing import Any

from hloom.frontends.stablehlo.chlo_bessel import bessel_i1e
from hloom.frontends.stablehlo.chlo_erf import erf_inv, erfc
from hloom.frontends.stablehlo.chlo_gamma import digamma, log_gamma
from hloom.frontends.stablehlo.chlo_zeta import polygamma, zeta
from hloom.frontends.stablehlo.formula import Function, Maker, Term, computed, select
from hloom.frontends.stablehlo.registry import IMPORT, Importer
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction
from hloom.types.dtype import BY_NAME


def by_formula(function: Function) -> Importer:
    """Read an operation as a formula of its operands."""

    def read(scope: Scope, op: Any) -> Instruction:
        return computed(function, scope, *scope.operands(op))

    return read


for _name, _function in {
    "bessel_i1e": bessel_i1e,
    "digamma": digamma,
    "erf_inv": erf_inv,
    "erfc": erfc,
    "lgamma": log_gamma,
    "polygamma": polygamma,
    "zeta": zeta,
}.items():
    IMPORT.add(f"chlo.{_name}", by_formula(_function))


@IMPORT.of("chlo.next_after")
def next_after(scope: Scope, op: Any) -> Instruction:
    return neighbour(scope, *scope.operands(op))


def neighbour(scope: Scope, x: Instruction, y: Instruction) -> Instruction:
    """The float next to x towards y.

    Floats of one sign are ordered as their bits are, so the next is a step of the bits: up when
    it leads away from 0.
    """
    dtype = x.shape.dtype
    bits = BY_NAME[f"s{dtype.bits}"]
    maker = Maker(scope, x.shape)
    a, b = Term(maker, x), Term(maker, y)
    here, there = a.bits(bits), b.bits(bits)
    sign = -(2 ** (dtype.bits - 1))
    size = 2 ** (dtype.bits - 1) - 1
    same_sign = (here & sign).equals(there & sign)
    outward = (here & size) < (there & size)
    step = select(outward & same_sign, here.constant(1), here.constant(-1))
    moved = (here + step).bits(dtype)
    # From zero the first step is the smallest number with the sign of the goal.
    smallest = ((there & sign) | 1).bits(dtype)
    next_bits = select((here & size).equals(0), smallest, moved)
    next_bits = select(a.equals(b), b, next_bits)
    is_number = a.equals(a) & b.equals(b)
    return select(is_number, next_bits, float("nan")).instruction
