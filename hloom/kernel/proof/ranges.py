"""What every integer and every mask of a kernel may be, as sums of symbols and facts.

`Ranges` knows the value of each s64, s32, ... tile as a `Linear` for one step of the grid, one
iteration of the loops around it and one lane (an axis of a tile is a symbol too, counted from the
last, so that broadcasting changes nothing), and each pred tile as a `Truth`: what holds where it
is true, and where it is false. What is not known is None: a number from memory, which may be
anything of its type. Sums and multiples are those of the numbers, which the machine has modulo
2^32 or 2^64: whoever compares, divides or widens one asks `linear`, which answers with a number
that may be anything where the sum may leave its type. An offset need not ask: one that is inside of
its buffer is the number that the machine has, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import gcd
from typing import Any

from hloom.kernel.kernel import Kernel, Op, Value
from hloom.kernel.proof.linear import Linear, Symbol, of_symbol, single
from hloom.kernel.proof.search import at_least_zero, span
from hloom.kernel.proof.truths import ANY, BOTH, COMPARED, Truth
from hloom.types.dtype import DType

Known = Linear | Truth | None


@cache
def limits(dtype: DType) -> tuple[int, int]:
    """The least and the greatest number of an integer type; 0 and 1 of pred."""
    if dtype.is_pred:
        return 0, 1
    bits = dtype.bits
    return (
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if dtype.is_signed_int else (0, (1 << bits) - 1)
    )


class Ranges:
    """What is known of the values of one kernel, filled in the order of its ops.

    Of a minimum and a maximum intervals say enough for most kernels; `searching` asks more.
    """

    def __init__(self, kernel: Kernel, *, searching: bool = True) -> None:
        self.searching = searching
        self.values: dict[Value, Known] = {}
        self.wrapped: dict[Value, Linear] = {}
        """Numbers from memory, and sums that may have left their type."""
        self.lanes: dict[tuple[int, int], Symbol] = {}
        self.divisions: dict[tuple[Any, ...], Symbol] = {}
        self.uniform: set[Value] = set()
        """Values from memory that no step writes, at places that are the same for all steps."""
        self.grid = [Symbol(0, n - 1, 1, ("grid", k), n == 1) for k, n in enumerate(kernel.grid)]
        for argument, symbol in zip(kernel.body.arguments, self.grid):
            self.values[argument] = of_symbol(symbol)
        self.read_only = {p.value for p in kernel.params if p.role == "in"}

    # -- asking

    def linear(self, x: Value) -> Linear:
        """An integer or pred as the machine has it."""
        known = self.values.get(x)
        low, high = limits(x.type.dtype)
        if isinstance(known, Linear):
            if not known.terms and low <= known.const <= high:
                return known
            least, most = known.bounds()
            if low <= least and most <= high:
                return known
        if (unknown := self.wrapped.get(x)) is None:
            uniform = known.is_uniform if isinstance(known, Linear) else x in self.uniform
            unknown = self.wrapped[x] = Linear(0, {Symbol(low, high, 1, (), uniform): 1})
        return unknown

    def known(self, x: Value) -> Linear:
        """An integer, modulo the size of its type."""
        known = self.values.get(x)
        return known if isinstance(known, Linear) else self.linear(x)

    def truth(self, x: Value) -> Truth:
        """What holds where a pred is true, and where it is false."""
        known = self.values.get(x)
        return known if isinstance(known, Truth) else ANY

    def lane(self, axis: int, size: int) -> Linear:
        """0, 1, 2 ... along an axis of a tile, counted from the last: -1 is the last."""
        if size == 1:
            return Linear(0)
        return Linear(0, {self.lanes.get((axis, size)) or self.lane_symbol(axis, size): 1})

    def lane_symbol(self, axis: int, size: int) -> Symbol:
        """A new symbol for the places along an axis."""
        symbol = self.lanes[axis, size] = Symbol(0, size - 1, 1, ("lane", axis, size))
        return symbol

    def tile(self, base: Linear, shape: tuple[int, ...], strides: tuple[int, ...]) -> Linear:
        """The offset of a lane of a tile with strides."""
        rank = len(shape)
        terms = dict(base.terms)
        for k, (size, stride) in enumerate(zip(shape, strides)):
            if stride and size > 1:
                lane = self.lanes.get((k - rank, size)) or self.lane_symbol(k - rank, size)
                terms[lane] = total = terms.get(lane, 0) + stride
                if not total:
                    del terms[lane]
        return Linear(base.const, terms)

    # -- filling

    def visit(self, op: Op) -> None:
        """Take note of the result of an op without blocks that is none of `PLAIN`."""
        if not op.results:
            return
        result = op.results[0]
        dtype = result.type.dtype
        rule = _RULES.get(op.opcode)
        if rule and (dtype.is_integral or dtype.is_pred or op.opcode == "load"):
            if (known := rule(self, op)) is not None:
                self.values[result] = known
                if isinstance(known, Linear):
                    return
        if op.operands and all(self.is_uniform(x) for x in op.operands):
            self.uniform.add(result)

    def is_uniform(self, x: Value) -> bool:
        """Whether a value is known to be the same for all steps and lanes."""
        known = self.values.get(x)
        if isinstance(known, Linear):
            return known.is_uniform
        if x in self.uniform or (x.op is not None and x.op.opcode == "constant"):
            return True
        return bool(known) and all(known.exact) and all(f.is_uniform for f in known[0] + known[1])

    def divided(self, x: Linear, by: int) -> tuple[Linear, Linear]:
        """Floor and remainder of a division by a positive number."""
        one, (quotient, remainder) = single(x), self.floor(x, by)
        if one is None or x.const or one[1] != 1 or one[0].origin[:1] != ("div",):
            return quotient, remainder
        quotient = self.divided(one[0].origin[1], one[0].origin[2] * by)[0]
        both = x.plus(quotient, -by)
        for s in (*quotient.terms, *remainder.terms):
            if s.origin[:1] == ("div",):
                most = by - 1 if remainder.terms else remainder.const
                s.tell(both, both.times(-1).shifted(most))
            elif s.origin[:1] == ("mod",):  # which `floor` tells by a quotient of its own
                s.equal = same = both.plus(remainder, -1)
                s.tell(same, same.times(-1))
        return quotient, remainder

    def floor(self, x: Linear, by: int) -> tuple[Linear, Linear]:
        """Floor and remainder of a division that is not one of a quotient."""
        whole: dict[Symbol, int] = {}
        rest: dict[Symbol, int] = {}
        for s, c in x.terms.items():
            (whole if c % by == 0 else rest)[s] = c // by if c % by == 0 else c
        quotient, remainder = divmod(x.const, by)
        left = Linear(remainder, rest)
        first, last = [end // by for end in left.bounds()]
        if last == first:
            return Linear(quotient + first, whole), left.shifted(-first * by)
        residue, modulus = left.residue()
        q = self.division("div", left, by, first, last, 1 if modulus % by else modulus // by)
        r = self.division("mod", left, by, 0, by - (step := gcd(residue, modulus, by)), step)
        if modulus % by == 0:  # it divides alike for all values
            both = left.plus(Linear(0, {q: -by})).shifted(-(residue % by))
            if not q.facts:
                q.facts += [both, both.times(-1)]
            return Linear(quotient, whole).plus(Linear(0, {q: 1})), Linear(residue % by)
        if not q.facts:
            both = left.plus(Linear(0, {q: -by}))
            r.equal = same = both.plus(Linear(0, {r: -1}))
            q.facts += [both, both.times(-1).shifted(by - step)]
            r.facts += [same, same.times(-1)]
        return Linear(quotient, whole).plus(Linear(0, {q: 1})), Linear(0, {r: 1})

    def truncated(self, x: Linear, by: int) -> tuple[Linear, Linear]:
        """Quotient and remainder of a number of any sign by a positive one, rounded toward zero.

        What more they are where the number has one sign, `offsets.of_truncated` says.
        """
        low, high = x.bounds()
        high = max(high, 0)
        q = self.division("truncated", x, by, -(-low // by), high // by)
        r = self.division("rest", x, by, max(low, 1 - by), min(high, by - 1))
        if not q.facts:
            left = x.plus(Linear(0, {q: -by}))
            r.equal = same = left.plus(Linear(0, {r: -1}))
            q.facts += [left.shifted(by - 1), left.times(-1).shifted(by - 1)]
            r.facts += [same, same.times(-1)]
        return Linear(0, {q: 1}), Linear(0, {r: 1})

    def division(self, kind: str, x: Linear, by: int, low: int, high: int, step: int = 1) -> Symbol:
        key = (kind, by, x.const, frozenset(x.terms.items()))
        symbol = self.divisions.get(key)
        if symbol is None:
            symbol = Symbol(low, high, step, (kind, x, by), x.is_uniform)
            self.divisions[key] = symbol
        return symbol

    def extreme(self, x: Linear, y: Linear, sign: int) -> Linear:
        """The lesser (sign 1) or greater (sign -1) of two."""
        apart = y.plus(x, -1).times(sign)
        if not self.searching or apart.is_free:
            low, high = apart.bounds()
            is_first, is_second = low >= 0, high <= 0
        else:
            is_first = at_least_zero(apart)
            is_second = not is_first and at_least_zero(apart.times(-1))
        if is_first or is_second:
            return x if is_first else y
        (a, b), (c, d) = (span(x), span(y)) if self.searching else (x.bounds(), y.bounds())
        low, high = (min(a, c), min(b, d)) if sign > 0 else (max(a, c), max(b, d))
        (rest, one), (other, two) = x.residue(), y.residue()
        step = max(gcd(one, two, rest - other), 1)
        low += (rest - low) % step
        extreme_ = Symbol(low, high, step, ("extreme", sign, x, y), x.is_uniform and y.is_uniform)
        itself = Linear(0, {extreme_: 1})
        # With a number for the other, an end of one is an end of the lesser and of the greater.
        extreme_.tight = (not y.terms and x.is_free) or (not x.terms and y.is_free)
        extreme_.facts += [x.plus(itself, -1).times(sign), y.plus(itself, -1).times(sign)]
        return itself


Rule = Callable[[Ranges, Op], Known]
_RULES: dict[str, Rule] = {}


def _of(opcodes: str) -> Callable[[Rule], Rule]:
    def keep(rule: Rule) -> Rule:
        for opcode in opcodes.split():
            _RULES[opcode] = rule
        return rule

    return keep


@_of("constant")
def _constant(r: Ranges, op: Op) -> Known:
    never = (Linear(-1),)
    return Truth((), never, BOTH) if op.attrs["value"] else Truth(never, (), BOTH)


@_of("iota")
def _iota(r: Ranges, op: Op) -> Known:
    shape, axis = op.results[0].shape, op.attrs["axis"]
    return r.lane(axis - len(shape), shape[axis])


def _multiply(r: Ranges, op: Op) -> Linear:
    x, y = [r.known(v) for v in op.operands]
    if x.terms and y.terms:
        x, y = [r.linear(v) for v in op.operands]
        (a, b), (c, d) = x.bounds(), y.bounds()
        ends = (a * c, a * d, b * c, b * d)
        return of_symbol(Symbol(min(ends), max(ends), 1, (), x.is_uniform and y.is_uniform))
    return x.times(y.const) if not y.terms else y.times(x.const)


PLAIN: dict[str, Callable[[Ranges, Op], Linear]] = {
    "constant": lambda r, op: Linear(int(op.attrs["value"])),
    "add": lambda r, op: r.known(op.operands[0]).plus(r.known(op.operands[1])),
    "subtract": lambda r, op: r.known(op.operands[0]).plus(r.known(op.operands[1]), -1),
    "multiply": _multiply,
}
"""What most integers are, of which that is all to know."""


@_of("negate")
def _negate(r: Ranges, op: Op) -> Known:
    return r.known(op.operands[0]).times(-1)


@_of("divide remainder")
def _divide(r: Ranges, op: Op) -> Known:
    x, y = [r.linear(v) for v in op.operands]
    if y.terms or y.const < 1:
        return None
    divide = r.divided if at_least_zero(x) else r.truncated
    return divide(x, y.const)[op.opcode != "divide"]


@_of("minimum maximum")
def _extreme(r: Ranges, op: Op) -> Known:
    if op.results[0].dtype.is_pred:
        return None
    x, y = op.operands
    return r.extreme(r.linear(x), r.linear(y), 1 if op.opcode == "minimum" else -1)


@_of("clamp")
def _clamp(r: Ranges, op: Op) -> Known:
    low, x, high = [r.linear(v) for v in op.operands]
    return r.extreme(r.extreme(low, x, -1), high, 1)


@_of("and or xor")
def _bits(r: Ranges, op: Op) -> Known:
    a, b = op.operands
    if op.results[0].dtype.is_pred:
        p, q = r.truth(a), r.truth(b)
        if op.opcode == "and":
            return Truth(p.when + q.when, (), (p.exact[0] and q.exact[0], False))
        if op.opcode == "or":
            return Truth((), p.unless + q.unless, (False, p.exact[1] and q.exact[1]))
        return ANY
    x, y = r.linear(a), r.linear(b)
    small = [high for low, high in (x.bounds(), y.bounds()) if low >= 0]
    uniform = x.is_uniform and y.is_uniform
    if op.opcode == "and" and small:
        return of_symbol(Symbol(0, min(small), 1, (), uniform))
    if len(small) < 2:
        return None
    most = (1 << max(small).bit_length()) - 1
    return of_symbol(Symbol(0, most, 1, (), uniform))


@_of("not")
def _not(r: Ranges, op: Op) -> Known:
    if not op.results[0].dtype.is_pred:
        return None
    when, unless, exact = r.truth(op.operands[0])
    return Truth(unless, when, (exact[1], exact[0]))


@_of("shift-right-logical shift-right-arithmetic shift-left")
def _shift(r: Ranges, op: Op) -> Known:
    x, y = [r.linear(v) for v in op.operands]
    if y.terms or not 0 <= y.const < op.results[0].dtype.bits:
        return None
    if op.opcode == "shift-left":
        return r.known(op.operands[0]).times(1 << y.const)
    return r.divided(x, 1 << y.const)[0] if at_least_zero(x) else None


@_of("select")
def _select(r: Ranges, op: Op) -> Known:
    if op.results[0].dtype.is_pred:
        return None
    condition = r.truth(op.operands[0])
    x, y = [r.linear(v) for v in op.operands[1:]]
    (a, b), (c, d) = span(x, condition.when), span(y, condition.unless)
    low, high = min(a, c), max(b, d)
    if low > high:
        return None
    uniform = r.is_uniform(op.operands[0]) and x.is_uniform and y.is_uniform
    return of_symbol(Symbol(low, high, 1, ("select", condition, x, y), uniform))


@_of("compare")
def _compare(r: Ranges, op: Op) -> Known:
    a, b = op.operands
    if not a.dtype.is_integral:
        return None
    apart = r.linear(b).plus(r.linear(a), -1)
    direction = op.attrs["direction"]
    if direction in ("EQ", "NE"):
        # Where one is never less than the other, they differ where it is greater.
        for d in (apart, apart.times(-1)):
            if at_least_zero(d):
                return COMPARED[{"EQ": "GE", "NE": "LT"}[direction]](d)
    return COMPARED[direction](apart)


@_of("convert")
def _convert(r: Ranges, op: Op) -> Known:
    x = op.operands[0]
    if not (x.dtype.is_integral or x.dtype.is_pred) or op.results[0].dtype.is_pred:
        return None
    return r.linear(x)


@_of("broadcast")
def _broadcast(r: Ranges, op: Op) -> Known:
    return r.values.get(op.operands[0])


@_of("load")
def _load(r: Ranges, op: Op) -> Known:
    """Not known, but the same for all steps where it is read from one place that none writes."""
    is_one = not any(n > 1 for n in op.results[0].shape)
    if is_one and op.operands[0] in r.read_only and r.known(op.operands[1]).is_uniform:
        r.uniform.add(op.results[0])
    return None


@_of("reduce slice reshape")
def _restated(r: Ranges, op: Op) -> Known:
    """A part of a tile is within the bounds of the whole; so is the least or the greatest."""
    is_sum = op.opcode == "reduce" and op.attrs["kind"] not in ("minimum", "maximum")
    if is_sum or op.results[0].dtype.is_pred:
        return None
    x = r.linear(op.operands[0])
    return of_symbol(Symbol(*x.bounds(), 1, (), x.is_uniform))
