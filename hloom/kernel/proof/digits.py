"""The offset of a store as digits that are independent of one another.

Axes of the grid and of tiles, loops, and quotients and remainders that together give back what was
divided. A loop whose bounds depend on others, a minimum or a select is looked at in cases, in each
of which it is simple: `min(a * (t + 1), n)` is `n` in the last block, and not in those before.
"""

from __future__ import annotations

from typing import Any, NoReturn

from hloom.kernel.proof import parts as digit
from hloom.kernel.proof.bounded_sums import bounded_sums
from hloom.kernel.proof.cases import Demand, InCases, Split, Unresolved
from hloom.kernel.proof.dividends import Dividend
from hloom.kernel.proof.joined import absorb, dividend_of, join
from hloom.kernel.proof.linear import Linear, Symbol
from hloom.kernel.proof.parts import Parts, dividends, is_data, is_open, is_plain, part_of, within
from hloom.kernel.proof.search import at_least_zero
from hloom.kernel.proof.tiling import Digit
from hloom.kernel.proof.windows import is_bound


class Form:
    """An offset as digits, in one case; or what its cases are."""

    def __init__(self, demand: Demand, exchanged: dict[Symbol, Linear]) -> None:
        self.demand = demand
        self.exchanged = exchanged
        self.runs: dict[Symbol, Linear] = {}
        self.facts: list[Linear] = []
        self.const = 0
        self.digits: list[Digit] = []
        self.axes: set[Symbol] = set()
        self.shift: dict[Symbol, int] = {}
        self.used: set[Symbol] = set()
        self.step: set[object] = set()
        self.joined: dict[Any, Linear] = {}
        self.absorbed: dict[Any, Linear] = {}
        self.inner: dict[Any, list[Linear]] = {}
        """What holds of the indices of a number that digits are taken of, by its base."""

    def settled(self, x: Linear) -> Linear:
        """A sum with symbols that have one value, or are known to be sums, put in.

        Not those of a choice: what narrowed them may be that a loop has an iteration, which is
        to be found out.
        """
        const, terms = x.const, x.terms
        if not any(s.low == s.high or s in self.exchanged for s in terms):
            return x
        total = Linear(const)
        for s, c in terms.items():
            if s in self.exchanged:
                total = total.plus(self.settled(self.exchanged[s]), c)
            elif s.low == s.high and s.origin[:1] not in CHOICES:
                total = total.shifted(c * s.low)
            else:
                total = total.plus(Linear(0, {s: 1}), c)
        return total

    @property
    def is_empty(self) -> bool:
        """Whether nothing is written."""
        return any(d.count <= 0 for d in self.digits)

    def expand(self, offset: Linear, facts: list[Linear]) -> Split | None:
        """Fill in the digits of an offset where facts hold; or the cases it has to be looked at
        in."""
        rest = self.settled(offset)
        while True:
            choice = self.choice(rest)
            if choice is not None:
                return self.choices(choice)
            divided_indices = self.divided_indices(rest) if self.demand.everywhere else set()
            loop = next((s for s in rest.terms if is_open(s) and s not in divided_indices), None)
            if loop is None:
                break
            _, lower, upper, step = loop.origin
            lower, upper = self.settled(lower), self.settled(upper)
            choice = self.choice(lower) or self.choice(upper)
            if choice is not None:
                return self.choices(choice)
            split = self.cut(loop, lower, upper, step)
            if isinstance(split, list):
                return split
            first, count = split
            self.used.add(loop)
            c = rest.terms[loop]
            self.digits.append(Digit(c * step, count))
            rest = self.settled(rest.plus(Linear(0, {loop: 1}), -c).plus(first, c))
        self.facts = facts
        split = self.other_loops()
        if split is not None or self.is_empty:
            return split
        if self.demand.everywhere:
            rest = self.restricted(rest, facts)
        elif self.demand.bounded:
            steps = {s for s in rest.terms if self.demand.grid & within(Linear(0, {s: 1}))}
            rest, const, digits = bounded_sums(rest, facts, steps, self.demand.fixed)
            self.const += const
            self.digits += digits
        self.const += rest.const
        self.groups(rest)
        return None

    def divided_indices(self, x: Linear) -> set[Symbol]:
        """What the numbers that a sum has digits of are sums of: if it is in the sum, too, then it
        may have to be put back (`absorb`)."""
        return {t for s in x.terms for y in dividends(s) for t in self.settled(y).terms}

    def other_loops(self) -> Split | None:
        """Loops around the store that its place does not depend on: they must have an iteration."""
        for loop in self.demand.loops - self.used:
            _, lower, upper, _ = loop.origin
            length = self.settled(upper).plus(self.settled(lower), -1)
            split = self.choice(length)
            if split is not None:
                return self.choices(split)
            if length.bounds()[1] <= 0:
                self.digits.append(Digit(1, 0))
            elif not at_least_zero(length.shifted(-1), self.facts):
                some, none = length.shifted(-1).reduced(), length.times(-1).reduced()
                if not any(fact.equals(some) for fact in self.facts):
                    return [([some], None, length), ([none], None, length)]
                if self.demand.everywhere:
                    raise Unresolved("a store in a loop that may have no iterations")
        return None

    def restricted(self, offset: Linear, facts: list[Linear]) -> Linear:
        """An offset whose terms are independent where facts hold.

        A fact about a sum of symbols that is a part of the offset, and counts without gaps, bounds
        that sum: it becomes a symbol of its own.
        """
        divided = [x for s in offset.terms for x in dividends(s)]
        self.facts = facts = [fact.reduced() for fact in facts]
        for fact in facts:
            if len(fact.terms) > 1 and any(is_bound(fact, x) for x in divided):
                continue  # of which `window` knows
            if any(is_data(s) for s in fact.terms):
                raise Unresolved("data chooses whether an element is written")
            if (split := self.unseen(fact, offset)) is not None:
                raise InCases(split)
            fact = self.settled(fact)
            for run, part in self.runs.items():
                fact = fact.with_sum(part, run)
            if fact.least() >= 0:
                continue
            if not fact.terms:  # which never holds
                self.digits.append(Digit(1, 0))
                return offset
            if (base := self.dividend_of(fact, offset)) is not None:
                self.inner.setdefault(base, []).append(fact)
                continue
            sign = 1 if next(iter(fact.terms.values())) > 0 else -1
            part = Linear(0, {s: sign * c for s, c in fact.terms.items()})
            run = self.run(part)
            changed = run and offset.with_sum(part, run)
            if not run or not changed or within(changed) & set(part.terms):
                raise Unresolved(f"a store where {fact} >= 0, which is not a box")
            offset = changed
            self.runs[run] = part
            if sign > 0:
                run.low = max(run.low, -fact.const)
            else:
                run.high = min(run.high, fact.const)
            if run.low > run.high:
                self.digits.append(Digit(1, 0))
        return offset

    def unseen(self, fact: Linear, offset: Linear) -> Split | None:
        """Refuse a fact that bounds a quotient, or another number made of indices, that is no digit
        of the offset: the digits would be taken for all there are. The cases of a choice."""
        for s in digit.exchanged(fact, self.exchanged):
            if is_plain(s) or (s.low, s.count) == s.all or s in offset.terms:
                continue
            if s.origin[:1] in CHOICES:
                return self.choices(s)
            if s.low < s.high or not digit.is_divided(part_of(s).base, offset):
                raise Unresolved(f"a store where {fact} >= 0, which is no digit of its place")
        return None

    def dividend_of(self, fact: Linear, offset: Linear) -> Any:
        """The base of the one number of whose indices a fact tells; None if it tells of others."""
        indices = {s for s in within(fact) if s.low < s.high}
        if indices & self.used:
            return None
        bases = {
            part_of(s).base
            for s in offset.terms
            if indices & within(self.runs.get(s) or Linear(0, {s: 1}))
        }
        base = bases.pop() if len(bases) == 1 else None
        return None if isinstance(base, Symbol) else base

    def run(self, part: Linear) -> Symbol | None:
        """A symbol for a sum that takes each number of a range once; None if it does not."""
        size = 1
        for s, c in sorted(part.terms.items(), key=lambda t: t[1]):
            if c * s.step != size or not is_plain(s) or is_open(s):
                return None
            size *= s.count
        low = part.least()
        return Symbol(low, low + size - 1, 1, ("run", part.key()))

    def choice(self, x: Linear) -> Symbol | None:
        """A minimum, maximum or select in a sum, unless it is one place for all steps."""
        fixed = self.demand.fixed
        return next(
            (s for s in x.terms if s.origin[:1] in CHOICES and not (fixed and s.uniform)), None
        )

    def choices(self, s: Symbol) -> Split:
        """The cases of a minimum, a maximum or a select."""
        if s.origin[0] == "select":
            _, truth, x, y = s.origin
            if self.demand.everywhere and not all(truth.exact):
                raise Unresolved("data chooses where is written")
            when, unless = [[f.reduced() for f in facts] for facts in (truth.when, truth.unless)]
            return [(when, s, x), (unless, s, y)]
        _, sign, x, y = s.origin
        apart = y.plus(x, -1).times(sign)
        return [([apart.reduced()], s, x), ([apart.times(-1).shifted(-1).reduced()], s, y)]

    def cut(self, s: Symbol, lower: Linear, upper: Linear, step: int) -> Split | tuple[Linear, int]:
        """First value and count of a loop, where they are the same for all iterations around it;
        otherwise the cases in which what is known of its values cuts it short, or not."""
        low, high = s.low, s.high + s.step
        below, above = Linear(low).plus(lower, -1).shifted(-1), upper.shifted(-high - 1)
        if below.bounds()[1] >= 0:  # it may begin before what is known of its values
            keep = [below.times(-1).shifted(-1)]
            if below.least() < 0:
                return [(keep, None, lower), ([below], None, lower)]
            lower = Linear(low + (lower.const - low) % step if not lower.terms else low)
        if above.bounds()[1] >= 0:
            keep = [above.times(-1).shifted(-1)]
            if above.least() < 0:
                return [(keep, None, lower), ([above], None, lower)]
            upper = Linear(high)
        length = self.settled(upper).plus(self.settled(lower), -1)
        if length.terms:
            raise Unresolved(f"a loop from {lower} to {upper}")
        return lower, max(-(-length.const // step), 0)

    # -- digits

    def groups(self, offset: Linear) -> None:
        """Digits of symbols, those that divide one number together."""
        groups: dict[Any, Parts] = {}
        for s, c in offset.terms.items():
            part = part_of(s)
            groups.setdefault(part.base, []).append((part, s, c))
        if len(groups) > 1:
            self.joined = join(groups, self.facts)
        if len(groups) > 1 and self.demand.everywhere:
            self.absorbed = absorb(groups, self.joined, self.inner, self.facts, self.settled)
            self.joined |= self.absorbed
        if self.demand.everywhere:
            self.apart([Linear(0, {s: 1 for _, s, _ in parts}) for parts in groups.values()])
        for base, parts in groups.items():
            whole = [p for p in parts if p[0].by == 1 and p[0].of is None]
            if not isinstance(base, Symbol) or not whole or len(parts) > 1:
                self.divided(base, parts)
            else:
                self.plain(base, parts[0][2])

    def apart(self, numbers: list[Linear]) -> None:
        """Refuse digits of several numbers that come from one index: they are not independent."""
        seen = set(self.used)
        for x in numbers:
            runs = [t for s in x.terms if s in self.runs for t in self.runs[s].terms]
            indices = {s for s in (*within(x), *runs) if s.low < s.high}
            if seen & indices:
                raise Unresolved(f"digits of {x}, which are not independent of others")
            seen |= indices

    def plain(self, s: Symbol, c: int) -> None:
        """The digit of one symbol."""
        kind = s.origin[0] if s.origin else "data"
        owner = None
        if is_open(s):
            raise Unresolved(f"an index of several numbers: {s}")
        if s in self.demand.grid:
            self.axes.add(s)
            owner = (s, 1, None, c, s.low)
        elif kind == "run":
            axes = self.demand.grid.intersection(self.runs[s].terms)
            self.axes |= axes
            owner = (s.origin, 1, None, c, s.low) if axes else None
        elif s.uniform and self.demand.fixed:
            self.shift[s] = c
            return
        elif kind not in ("lane", "loop", "grid") and self.demand.everywhere:
            raise Unresolved(f"a store at a place that is no sum of indices: {s}")
        self.const += c * s.low
        self.digits.append(Digit(c * s.step, s.count, owner))

    def divided(self, base: Any, parts: Parts) -> None:
        """The digits of one number, which must be independent of one another."""
        if self.demand.everywhere and self.window(base, parts):
            return
        part, s, c = parts[0]
        is_loop = isinstance(base, Symbol) and base.origin[:1] == ("loop",)
        if len(parts) == 1 and is_loop and part.of is None and part.by % base.step == 0:
            # Every quotient is reached, whatever the loop begins with.
            if not is_open(base):
                self.const += c * (base.low // part.by)
                self.digits.append(Digit(c, base.high // part.by - base.low // part.by + 1))
                return
        count, step, axes = self.number(base, parts)
        # Digits that have one value here are not in the offset, and yet tell what they are.
        single = {s for fact in self.facts for s in fact.terms if s.low == s.high}
        known_parts = [(part_of(s), s, 0) for s in single if part_of(s).base == base]
        parts = [*parts, *known_parts]
        if axes:
            self.step |= {(p, s.low) for p, s, _ in known_parts}
        last, first = 1, True
        for part, s, c in sorted(parts, key=lambda p: p[0].by):
            by, of, scale = part.by, part.of, 1
            if step > 1:
                if by % step == 0:
                    by //= step
                elif part.holds(step):
                    by, of, scale = 1, of and of * by // step, step // by
                else:
                    raise Unresolved(f"digits of {base}, which goes in steps of {step}")
            if not first and not self.demand.everywhere:
                count = -(-count // by) * by  # more places than there are
            if by < last or by % last or (of is not None and count % (by * of) and not first):
                raise Unresolved(f"digits of {base} that are not independent")
            if of is None and count % by and not first:
                self.split_at(base, count // by * by * step, count)
            if axes and by != last:
                axes = set()
            if s.high // scale > (count - 1) // by:
                raise Unresolved(f"a digit of {base}, which has {count} values: {s}")
            first = False
            last = by * of if of is not None else count
            owner = (base, by, of, c, s.low) if axes else None
            self.const += c * s.low
            self.digits.append(Digit(c * scale, (s.high - s.low) // scale + 1, owner))
        if last == count:
            self.axes |= axes

    def window(self, base: Any, parts: Parts) -> bool:
        """The digits of a sum that fills a window; False if it is none."""
        if isinstance(base, Symbol):
            return False
        windowed = self.dividend(base, parts).window(parts)
        if windowed is None:
            return False
        self.const += windowed.const
        self.digits += windowed.digits
        self.axes |= windowed.axes
        self.step |= windowed.step
        return True

    def dividend(self, base: Any, parts: Parts) -> Dividend:
        """The number that has a key."""
        if isinstance(base, Symbol):
            whole = Linear(0, {base: 1})
        else:
            whole = dividend_of(base, parts, self.joined)
        inner, windowed = self.inner.get(base, []), base in self.absorbed
        return Dividend(base, whole, self.demand, self.facts, inner, windowed)

    def split_at(self, base: Any, at: int, count: int) -> NoReturn:
        """Look at the numbers before one, which fill their digits, and the others apart."""
        if not isinstance(base, Symbol) or not at:
            raise Unresolved(f"digits of {base}, which has {count} values")
        below = Linear(at - 1, {base: -1})
        above = Linear(-at, {base: 1})
        raise InCases([([below], None, below), ([above], None, above)])

    def number(self, base: Any, parts: Parts) -> tuple[int, int, set[Symbol]]:
        """How many values a number has from 0 on, their step, and the grid axes it tells."""
        if not isinstance(base, Symbol) or is_open(base):
            return self.dividend(base, parts).number(parts)
        kind = base.origin[0] if base.origin else "data"
        low, count = base.low, base.count
        if not any(base in fact.terms for fact in self.facts):
            low, count = base.all  # what its digits are known to be bounded it
        # Remainders are the same from any multiple of what they are remainders of.
        periods = [p.by * p.of if p.of is not None else 0 for p, _, _ in parts]
        if low and all(periods) and not low % max(periods):
            low = 0
        if low or kind not in ("grid", "lane", "loop"):
            raise Unresolved(f"digits of {base}")
        return count, base.step, {base} & self.demand.grid


CHOICES = (("extreme",), ("select",))
