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
            store = f"  {self.compared}\n  if %c {{\n  {store}  }} else {{\n  }}\n"
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
                if self.condition is None or self.condition(values):
                    by.setdefault(values[self.place], set()).add(step)
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

    def times(self, x: str, n: int) -> str:
        return x if n == 1 else self.binary("multiply", x, self.constant(n))

    def whole(self) -> str:
        """All indices as one number, in an order of their own."""
        sizes = {"%i0": self.d.steps}
        sizes |= {f"%i{k + 1}": n for k, n in enumerate(self.d.extents)}
        order = list(sizes)
        self.rng.shuffle(order)
        total, stride = "", 1
        for name in order:
            part = self.times(name, stride)
            total = part if not total else self.binary("add", total, part)
            stride *= sizes[name]
        self.d.size = stride
        return total

    def some(self) -> None:
        """One more number made of others."""
        x, y = self.rng.choice(self.pool), self.rng.choice(self.pool)
        n = self.rng.choice([2, 2, 3, 4, 5, 6, 8, 12])
        kind = self.rng.choice(["divide", "remainder", "minimum", "maximum", "add", "times"])
        if kind == "times":
            made = self.times(x, n)
        elif kind == "add" or (kind in ("minimum", "maximum") and self.rng.random() < 0.5):
            made = self.binary(kind, x, y)
        else:
            made = self.binary(kind, x, self.constant(n))
        self.pool.append(made)

    def place(self, whole: str) -> str:
        """The number itself, taken apart and put together again, or almost."""
        rng = self.rng
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
        return d


def drawn(seed: int) -> Drawn:
    """The kernel of a number."""
    return _Drawer(random.Random(seed)).drawn()
