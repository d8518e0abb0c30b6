"""Small drawn kernels whose writes are counted: what the proof says of them must be so.

A step of the grid stores in one or two loops, at a place made of quotients, remainders, extremes
and choices of the indices, under a condition on any of them. Numbers are so small that every store
can be enumerated.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from hloom.kernel.proof.prove import prove
from hloom.kernel.text import parse_kernel

Env = dict[str, int]
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "LT": lambda x, y: x < y,
    "GE": lambda x, y: x >= y,
    "EQ": lambda x, y: x == y,
    "NE": lambda x, y: x != y,
    "GT": lambda x, y: x > y,
    "LE": lambda x, y: x <= y,
}


@dataclass
class Drawn:
    """A kernel as text, and what it computes."""

    steps: int
    extents: list[int]
    size: int
    role: str = "out"
    lines: list[str] = field(default_factory=list)
    made: list[tuple[str, Callable[[Env], int]]] = field(default_factory=list)
    condition: Callable[[Env], bool] | None = None
    place: str = ""
    compared: str = ""
    other: str = ""
    """Where is written if the condition does not hold; nowhere if empty."""

    @property
    def text(self) -> str:
        """The kernel's text."""
        head = f"kernel @k(%o: buffer<f32>[{self.size}] {self.role}) grid(%i0: {self.steps}) {{\n"
        head += "  %z = constant 0 : s64[]\n  %v = constant 1.0 : f32[]\n"
        head += "".join([f"  %n{k} = constant {n} : s64[]\n" for k, n in enumerate(self.extents)])
        tail = ""
        for k in range(len(self.extents)):
            head += f"  for %i{k + 1} = %z to %n{k} step 1 {{\n"
            tail += "  }\n"
        store = f"  store %o[{self.place}], %v\n"
        if self.compared:
            other = f"    store %o[{self.other}], %v\n" if self.other else ""
            store = f"  {self.compared}\n  if %c {{\n  {store}  }} else {{\n{other}  }}\n"
        return head + "".join([f"  {line}\n" for line in self.lines]) + store + tail + "}"

    def is_right(self) -> bool:
        """Whether all stores are inside, no two steps write one element, and all of an output is
        written."""
        by: dict[int, set[int]] = {}
        for step in range(self.steps):
            for env in self._iterations(step):
                values = dict(env)
                for name, run in self.made:
                    values[name] = run(values)
                holds = self.condition is None or self.condition(values)
                if place := self.place if holds else self.other:
                    by.setdefault(values[place], set()).add(step)
        if any(not 0 <= at < self.size or len(steps) > 1 for at, steps in by.items()):
            return False
        return self.role == "inout" or len(by) == self.size

    def _iterations(self, step: int) -> list[Env]:
        found = [{"%i0": step, "%z": 0}]
        for k, n in enumerate(self.extents):
            found = [{**env, f"%i{k + 1}": x} for env in found for x in range(n)]
        return found

    def is_proved(self) -> bool:
        """Whether the proof finds nothing to say against it."""
        found = prove(parse_kernel(self.text))
        return not found.accesses and not found.writes


class _Drawer:
    def __init__(self, rng: random.Random) -> None:
        self.rng, self.number = rng, 0
        extents = [rng.randint(1, 12) for _ in range(rng.choice([1, 1, 2]))]
        self.d = Drawn(rng.choice([1, 1, 2, 3]), extents, 0)
        self.pool = ["%i0", *[f"%i{k + 1}" for k in range(len(extents))]]

    def add(self, text: str, run: Callable[[Env], int]) -> str:
        name = f"%e{self.number}"
        self.number += 1
        self.d.lines.append(f"{name} = {text}")
        self.d.made.append((name, run))
        return name

    def constant(self, n: int) -> str:
        return self.add(f"constant {n} : s64[]", lambda env: n)

    def binary(self, opcode: str, x: str, y: str) -> str:
        run: dict[str, Callable[[int, int], int]] = {
            "add": lambda a, b: a + b,
            "multiply": lambda a, b: a * b,
            "divide": lambda a, b: a // b,
            "remainder": lambda a, b: a % b,
            "minimum": min,
            "maximum": max,
        }
        made = run[opcode]
        return self.add(f"{opcode} {x}, {y} : s64[]", lambda env: made(env[x], env[y]))

    def select(self, x: str, direction: str, y: str, a: str, b: str) -> str:
        """One of two numbers."""
        choice = f"%c{self.number}"
        self.d.lines.append(f"{choice} = compare {x}, {y} direction({direction}) : pred[]")
        compare = COMPARE[direction]
        return self.add(
            f"select {choice}, {a}, {b} : s64[]",
            lambda env: env[a] if compare(env[x], env[y]) else env[b],
        )

    def times(self, x: str, n: int) -> str:
        return x if n == 1 else self.binary("multiply", x, self.constant(n))

    def whole(self) -> str:
        """All indices as one number, in an order of their own."""
        sizes = {"%i0": self.d.steps}
        sizes |= {f"%i{k + 1}": n for k, n in enumerate(self.d.extents)}
        order = list(sizes)
        self.rng.shuffle(order)
        total, stride = "", 1
        self.strides: dict[str, int] = {}
        for name in order:
            self.strides[name] = stride
            part = self.times(name, stride)
            total = part if not total else self.binary("add", total, part)
            stride *= sizes[name]
        self.d.size = stride
        if len(order) > 1 and self.rng.random() < 0.3:
            return self.moved_back(order, sizes)
        return total

    def moved_back(self, order: list[str], sizes: dict[str, int]) -> str:
        """Windows one behind the other, of which those that would reach over the end begin
        earlier."""
        lane, *others = order
        tile = others[0]
        for name in others[1:]:
            tile = self.binary("add", self.times(tile, sizes[name]), name)
        total = max(sizes[lane], self.d.size - self.rng.randint(0, sizes[lane]))
        self.d.size = total
        first, most = self.times(tile, sizes[lane]), self.constant(total - sizes[lane])
        if self.rng.random() < 0.7:
            first = self.binary("minimum", first, most)
        else:
            first = self.select(first, "LE", most, first, most)
        self.pool += [tile, first]
        return self.binary("add", first, lane)

    def some(self) -> None:
        """One more number made of others."""
        x, y = self.rng.choice(self.pool), self.rng.choice(self.pool)
        n = self.rng.choice([2, 2, 3, 4, 5, 6, 8, 12])
        kind = self.rng.choice(
            ["divide", "remainder", "minimum", "maximum", "add", "times", "select"]
        )
        if kind == "times":
            made = self.times(x, n)
        elif kind == "select":
            by, bound = self.rng.choice(self.pool), self.constant(n)
            made = self.select(by, self.rng.choice(list(COMPARE)), bound, x, y)
        elif kind == "add" or (kind in ("minimum", "maximum") and self.rng.random() < 0.5):
            made = self.binary(kind, x, y)
        else:
            made = self.binary(kind, x, self.constant(n))
        self.pool.append(made)

    def taken_out(self) -> str:
        """All indices as one number of which whole multiples were taken out before it was taken
        apart, or almost."""
        n = self.rng.choice([2, 3, 4, 6, 8])
        rest = above = self.constant(0)
        for name, stride in self.strides.items():
            stride += self.rng.choice([0, 0, 0, 0, 0, 0, 0, 1])
            if stride // n:
                above = self.binary("add", above, self.times(name, stride // n))
            if stride % n:
                rest = self.binary("add", rest, self.times(name, stride % n))
        low = self.binary("remainder", rest, self.constant(n))
        high = self.binary("add", above, self.binary("divide", rest, self.constant(n)))
        self.pool += [rest, low, high]
        return self.binary("add", low, self.times(high, n + self.rng.choice([0, 0, 0, 0, 1])))

    def place(self, whole: str) -> str:
        """The number itself, taken apart and put together again, or almost."""
        rng = self.rng
        if rng.random() < 0.15:
            return self.taken_out()
        kind = rng.random()
        if kind < 0.3:
            return whole
        if kind < 0.75:
            n = rng.choice([2, 3, 4, 6, 8])
            low = self.binary("remainder", whole, self.constant(n))
            high = self.binary("divide", whole, self.constant(n))
            self.pool += [low, high]
            if rng.random() < 0.4:
                m = rng.choice([2, 3, 4])
                middle = self.binary("remainder", high, self.constant(m))
                top = self.binary("divide", high, self.constant(m))
                self.pool += [middle, top]
                high = self.binary("add", middle, self.times(top, m))
            return self.binary("add", low, self.times(high, n))
        x = self.rng.choice(self.pool)
        return self.binary("add", whole, x) if kind < 0.85 else x

    def drawn(self) -> Drawn:
        """The kernel."""
        rng, d = self.rng, self.d
        whole = self.whole()
        self.pool.append(whole)
        for _ in range(rng.randint(0, 4)):
            self.some()
        d.place = self.place(whole)
        d.size = max(1, d.size + rng.choice([-1, 0, 0, 0, 0, 1]))
        d.role = rng.choice(["out", "out", "inout"])
        if rng.random() < 0.75:
            for _ in range(rng.randint(0, 2)):
                self.some()
            x, n = rng.choice(self.pool), rng.randint(0, 12)
            y = self.constant(n) if rng.random() < 0.8 else rng.choice(self.pool)
            direction = rng.choice(list(COMPARE))
            d.compared = f"%c = compare {x}, {y} direction({direction}) : pred[]"
            d.condition = lambda env: COMPARE[direction](env[x], env[y])
            if rng.random() < 0.3:
                d.other = self.place(whole)
        return d


def drawn(seed: int) -> Drawn:
    """The kernel of a number."""
    return _Drawer(random.Random(seed)).drawn()
