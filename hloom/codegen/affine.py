"""Indices as sums of symbols, so that reshapes, slices and layouts cost nothing at run time.

An `Affine` is `const + sum(coefficient * symbol)`. Symbols have ranges, which lets quotients and
remainders fold: in `(64 * h + j) // 64` with `0 <= j < 64` only `h` is left. Quotients that do not
fold become symbols themselves and remember what they came from; adding `q * c` and the remainder
of the same division gives the dividend back, so a row number that was split into digits turns
into one stride again wherever the digits are only added up.

What is symbolic stays so until it is asked for: digits nobody reads are never computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd

from hloom.kernel.kernel import Value
from hloom.types.shape import Shape


class Symbol:
    """An unknown of an index: a scalar of the kernel, an axis of the tile, or a tile of numbers.

    `low` and `high` are its least and greatest values. `axis` is that of the tile for a lane
    symbol, whose values are 0, 1, 2 ...; `value` is the kernel value of others, or None until a
    quotient or remainder (`origin`) is first needed. `axes` are the tile axes it varies along.
    All its values are multiples of `step`.
    """

    __slots__ = ("axes", "axis", "high", "low", "number", "origin", "rank", "step", "value")

    def __init__(
        self,
        number: int,
        low: int,
        high: int,
        value: Value | None = None,
        axis: int | None = None,
        axes: frozenset[int] = frozenset(),
        origin: tuple[str, Affine, int] | None = None,
        rank: int = 0,
        step: int = 1,
    ) -> None:
        self.number = number
        self.low = low
        self.high = high
        self.value = value
        self.axis = axis
        self.axes = axes
        self.origin = origin
        self.rank = rank
        self.step = step

    def __repr__(self) -> str:
        kind = "lane" if self.axis is not None else self.origin[0] if self.origin else "s"
        return f"{kind}{self.number}[{self.low}..{self.high}]"


class Affine:
    """`const + sum(coefficient * symbol)`; immutable, compared by what it says."""

    __slots__ = ("_hash", "const", "terms")

    def __init__(self, const: int, terms: tuple[tuple[Symbol, int], ...] = ()) -> None:
        self.const = const
        self.terms = terms
        self._hash = hash((const, terms))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Affine)
            and self._hash == other._hash
            and self.const == other.const
            and self.terms == other.terms
        )

    def __repr__(self) -> str:
        parts = [f"{c}*{s!r}" for s, c in self.terms]
        return " + ".join([*parts, str(self.const)])

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def plus(self, other: Affine | int) -> Affine:
        """The sum; digits of one number that come together again are that number."""
        if isinstance(other, int):
            return Affine(self.const + other, self.terms) if other else self
        if not other.terms:
            return Affine(self.const + other.const, self.terms) if other.const else self
        if not self.terms:
            return Affine(self.const + other.const, other.terms) if self.const else other
        terms = dict(self.terms)
        for symbol, coefficient in other.terms:
            terms[symbol] = terms.get(symbol, 0) + coefficient
        return _joined(self.const + other.const, terms)

    def times(self, factor: int) -> Affine:
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Affine(self.const * factor, tuple([(s, c * factor) for s, c in self.terms]))

    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value it may have."""
        low = high = self.const
        for s, c in self.terms:
            if c > 0:
                low += c * s.low
                high += c * s.high
            else:
                low += c * s.high
                high += c * s.low
        return low, high

    @property
    def step(self) -> int:
        """The greatest number that all its values are known to be multiples of; 0 if all are 0."""
        return gcd(self.const, *[s.step * c for s, c in self.terms])

    @property
    def scalars(self) -> Affine:
        """What is the same for all lanes: where the first of them is."""
        return Affine(self.const, tuple([t for t in self.terms if not t[0].axes]))

    @property
    def axes(self) -> frozenset[int]:
        """The tile axes along which it varies."""
        if not self.terms:
            return NO_AXES
        if len(self.terms) == 1:
            return self.terms[0][0].axes
        return frozenset().union(*[s.axes for s, _ in self.terms])

    def coefficient(self, axis: int) -> int:
        """The stride along a tile axis."""
        return sum(c for s, c in self.terms if s.axis == axis)

    @property
    def is_strided(self) -> bool:
        """Whether it is a scalar plus strides along axes: no tile of numbers in it."""
        return all(s.axis is not None or not s.axes for s, _ in self.terms)


NO_AXES: frozenset[int] = frozenset()
ZERO = Affine(0)


def _sorted_terms(terms: dict[Symbol, int]) -> tuple[tuple[Symbol, int], ...]:
    return tuple(sorted([t for t in terms.items() if t[1]], key=lambda t: t[0].number))


def _is_exact(origin: tuple[str, Affine, int]) -> bool:
    """Whether a division leaves no remainder."""
    _, x, by = origin
    return len(x.terms) == 1 and not x.const and x.terms[0][0].step * x.terms[0][1] % by == 0


def _joined(const: int, terms: dict[Symbol, int]) -> Affine:
    """The sum of terms, with quotient and remainder of one division put together again."""
    while True:
        quotient_parts = None
        for symbol, coefficient in terms.items():
            origin = symbol.origin
            if origin is None or origin[0] != "div" or not coefficient:
                continue
            if _is_exact(origin) and coefficient % origin[2] == 0:
                quotient_parts = (symbol, symbol, coefficient // origin[2], origin[1])
                break
            for other, factor in terms.items():
                o = other.origin
                if (
                    o is not None
                    and o[0] == "mod"
                    and factor * origin[2] == coefficient
                    and o[2] == origin[2]
                    and o[1] == origin[1]
                ):
                    quotient_parts = (symbol, other, factor, origin[1])
                    break
            if quotient_parts:
                break
        if not quotient_parts:
            return Affine(const, _sorted_terms(terms))
        quotient, remainder, factor, whole = quotient_parts
        del terms[quotient]
        terms.pop(remainder, None)
        const += whole.const * factor
        for s, c in whole.terms:
            terms[s] = terms.get(s, 0) + c * factor


def constant(value: int) -> Affine:
    return Affine(value) if value else ZERO


class Indices:
    """Makes symbols, and divides: equal divisions give the same symbol."""

    def __init__(self) -> None:
        self.count = 0
        self._divisions: dict[tuple[str, Affine, int], Symbol] = {}
        self._rows: dict[Symbol, Affine] = {}

    def _number(self) -> int:
        self.count += 1
        return self.count

    def scalar(self, value: Value, low: int, high: int, step: int = 1) -> Affine:
        """A scalar of the kernel whose range is known, and that all its values are multiples."""
        if low == high:
            return constant(low)
        symbol = Symbol(self._number(), low, high, value=value, step=step)
        return Affine(0, ((symbol, 1),))

    def lane(self, axis: int, size: int, rank: int) -> Affine:
        """0, 1, 2 ... along an axis of a tile of this rank; a constant if the axis has size 1."""
        if size == 1:
            return ZERO
        axes = frozenset([axis])
        symbol = Symbol(self._number(), 0, size - 1, axis=axis, axes=axes, rank=rank)
        return Affine(0, ((symbol, 1),))

    def lane_of_row(self, row: Symbol, count: int) -> Affine:
        """A lane for each row, where `row` is the row of each lane of a longer tile."""
        if row not in self._rows:
            self._rows[row] = self.lane(0, count, 1)
        return self._rows[row]

    def tile(self, value: Value, axes: frozenset[int], low: int, high: int) -> Affine:
        """A tile of numbers that vary along some axes."""
        rank = len(value.shape)
        return Affine(0, ((Symbol(self._number(), low, high, value, None, axes, None, rank), 1),))

    def _split(self, x: Affine, by: int) -> tuple[Affine, Affine]:
        """`x = by * first + second`, with in `first` all that divides without remainder: a loop in
        steps of 64 divides by 4 once per step, and what is left are numbers known beforehand."""
        whole: list[tuple[Symbol, int]] = []
        rest: list[tuple[Symbol, int]] = []
        for s, c in x.terms:
            if c % by == 0:
                whole.append((s, c // by))
            elif s.step * c % by == 0:
                low, high = sorted((s.low * c // by, s.high * c // by))
                whole += self._symbol("div", Affine(0, ((s, c),)), by, low, high).terms
            elif c > by or -c > by:
                whole.append((s, c // by))
                rest.append((s, c % by))
            else:
                rest.append((s, c))
        q, r = divmod(x.const, by)
        whole.sort(key=lambda term: term[0].number)
        return Affine(q, tuple(whole)), Affine(r, tuple(rest))

    def _symbol(self, kind: str, x: Affine, by: int, low: int, high: int) -> Affine:
        key = (kind, x, by)
        symbol = self._divisions.get(key)
        if symbol is None:
            rank = max([s.rank for s, _ in x.terms])
            step = x.step
            if kind == "mod":  # what is left of multiples of a divisor is one, too
                step = gcd(by, step)
                high -= step - 1
            else:
                step = step // by if step % by == 0 else 1
            symbol = Symbol(self._number(), low, high, None, None, x.axes, key, rank, step)
            self._divisions[key] = symbol
        return Affine(0, ((symbol, 1),))

    def quotient(self, x: Affine, by: int) -> Affine:
        """The floor of `x / by`."""
        if by == 1:
            return x
        whole, rest = self._split(x, by)
        low, high = rest.bounds()
        if low // by == high // by:
            return whole.plus(low // by)
        if whole.terms and not _is_shorter(rest, x):
            whole, rest = ZERO, x
        rest, _ = _steps_and_lanes(rest, by)
        low, high = rest.bounds()
        return whole.plus(self._symbol("div", rest, by, low // by, high // by))

    def remainder(self, x: Affine, by: int) -> Affine:
        """`x` modulo `by`, never negative."""
        if by == 1:
            return ZERO
        _, rest = self._split(x, by)
        low, high = rest.bounds()
        if low // by == high // by:
            return rest.plus(-by * (low // by))
        steps, lanes = _steps_and_lanes(rest, by)
        return self._symbol("mod", steps, by, 0, by - 1).plus(lanes)

    def digits(self, x: Affine, sizes: Iterable[int]) -> list[Affine]:
        """`x` as digits of a mixed radix number, most significant first; `x` is in range."""
        sizes = list(sizes)
        result: list[Affine] = []
        for size in reversed(sizes[1:]):
            result.append(self.remainder(x, size))
            x = self.quotient(x, size)
        if sizes:
            result.append(x)
        return result[::-1]


def _steps_and_lanes(x: Affine, by: int) -> tuple[Affine, Affine]:
    """`x` as multiples of a divisor of `by`, and lanes and a number below that divisor, which
    change no quotient and are only added to the remainder; none where it cannot be cut so."""
    scalars = tuple([t for t in x.terms if not t[0].axes])
    if not scalars or (len(scalars) == len(x.terms) and not x.const):
        return x, ZERO
    step = gcd(by, *[s.step * c for s, c in scalars])
    lanes = Affine(x.const % step, tuple([t for t in x.terms if t[0].axes]))
    low, high = lanes.bounds()
    if low < 0 or high >= step:
        return x, ZERO
    return Affine(x.const - lanes.const, scalars), lanes


def _is_shorter(rest: Affine, x: Affine) -> bool:
    return len(rest.terms) <= len(x.terms)


def linear(index: Iterable[Affine], strides: Iterable[int]) -> Affine:
    """The sum of index times stride."""
    result = ZERO
    for i, s in zip(index, strides):
        if s and (i.terms or i.const):
            result = result.plus(i.times(s))
    return result


def is_inside(index: Sequence[Affine], shape: Shape) -> bool:
    """Whether an index is one of an array (of each, of a tuple), whatever lanes and loops are."""
    dims = (shape.elements[0] if shape.is_tuple else shape).dims
    for x, size in zip(index, dims):
        low, high = x.bounds()
        if low < 0 or high >= size:
            return False
    return True
