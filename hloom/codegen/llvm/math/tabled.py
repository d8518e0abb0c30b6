"""Odd functions of f32: in each interval a polynomial of its own, from tables in registers.

A table has an element for each interval, of which there are no more than a register has lanes; one
permutation picks from it the coefficient of each lane. That is fewer operations than formulas take
that hold everywhere, and no quotient. `bench/minimax_tables.py` says how the intervals are laid.
"""

from __future__ import annotations

from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.math.parts import FORMATS
from hloom.codegen.llvm.math.tables import TABLES, Row
from hloom.codegen.llvm.values import V, float_bits

ERF_IS_ONE = 3.92
TANH_IS_ONE = 9.02
"""From there on it is 1, as rounded."""

_PERMUTATIONS = {8: "x86.avx2.permps", 16: "x86.avx512.permvar.sf.512"}


def has_tables(machine: Machine) -> bool:
    """Whether one instruction picks from a register of f32 by numbers in another."""
    return machine.has_avx2


def tabled(e: Emit, name: str, x: V) -> V:
    """The odd function of that name. Any number of lanes is computed in whole registers, so that
    a number has one value wherever it stands."""
    width = 16 if e.machine.has_avx512 else 8
    parts = []
    for start in range(0, x.lanes, width):
        lanes = min(width, x.lanes - start)
        part = x if lanes == x.lanes else e.slice(x, start, lanes)
        result = _odd(e, name, part if lanes == width else _widened(e, part, width))
        parts.append(result if lanes == width else e.slice(result, 0, lanes))
    return e.concat(parts)


def _widened(e: Emit, part: V, lanes: int) -> V:
    if part.lanes == 1:
        return e.splat(part, lanes)
    return e.shuffle(part, None, [*range(part.lanes), *[0] * (lanes - part.lanes)])


def _odd(e: Emit, name: str, x: V) -> V:
    """One register of it: `base` and the polynomial of the distance `t` without a constant."""
    centres, values, *powers = TABLES.get((name, x.lanes)) or TABLES[name, 8]
    a = e.fabs(x)
    if name == "ERF":
        t, number, near, first = _by_width(e, centres, a)
    else:
        t, number, near, first = _by_exponent(e, centres, a)
    base, *factors = [_picked(e, row, number, first) for row in (values, *powers)]
    q = factors[-1]
    for factor in reversed(factors[:-1]):
        q = e.fma(q, t, factor)
    return e.copysign(e.fma(t, q, e.select(near, t, base)), x)


Place = tuple[V, V, V, int]
"""Distances from the centres of intervals; numbers of the intervals, of which the last digits
count; which are the first; and the number that the first has."""


def _by_width(e: Emit, centres: Row, a: V) -> Place:
    """For intervals of one width. A lane without a number has any interval, and no distance."""
    width, magic = centres[1], FORMATS["f32"].magic
    bounded = e.fmin_raw(e.like(a, ERF_IS_ONE), a)
    shifted = e.fma(bounded, e.like(a, 1 / width), e.like(a, magic))
    whole = e.fsub(shifted, e.like(a, magic))
    t = e.fma(whole, e.like(a, -width), bounded)
    return t, e.bits(shifted), e.fcmp("oeq", whole, e.like(a, 0.0)), 0


def _by_exponent(e: Emit, centres: Row, a: V) -> Place:
    """For intervals that the exponent tells apart, or that and the next digit."""
    halves = centres[3] < 1.8 * centres[2]
    shift, least = (22, 0.1875) if halves else (23, 0.125)
    bounded = e.fmin_raw(e.like(a, TANH_IS_ONE), a)
    bits = e.bits(e.fmax_raw(e.like(a, least), bounded))
    number = e.lshr(bits, e.const("i32", shift, a.lanes))
    first = float_bits("f32", least) >> shift
    t = e.fsub(bounded, _picked(e, centres, number, first))
    return t, number, e.fcmp("olt", bounded, e.like(a, 0.25)), first


def _picked(e: Emit, row: Row, number: V, first: int) -> V:
    """For each lane the element of its interval."""
    lanes = number.lanes
    turned = [0.0] * lanes
    for k, value in enumerate(row):
        turned[(first + k) % lanes] = value
    table = e.vector("f32", turned)
    text = f"call {table.type} @llvm.{_PERMUTATIONS[lanes]}({table.typed}, {number.typed})"
    return e.pure(text, "f32", lanes, number.depth)
