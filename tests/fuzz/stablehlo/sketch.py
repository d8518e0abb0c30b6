"""One drawn program being written: types, sizes and attributes from one random stream."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

F8 = "f8E4M3FN f8E5M2 f8E4M3 f8E3M4 f8E4M3B11FNUZ f8E5M2FNUZ f8E4M3FNUZ".split()
NARROWEST = "f8E8M0FNU f4E2M1FN f6E2M3FN f6E3M2FN".split()
FLOATS = ["bf16", "f16", "f32", "f64"]
SIGNED = ["i2", "i4", "i8", "i16", "i32", "i64"]
UNSIGNED = ["ui2", "ui4", "ui8", "ui16", "ui32", "ui64"]
INTS = SIGNED + UNSIGNED
COMPLEX = ["complex<f32>", "complex<f64>"]
PRED = ["i1"]
USUAL = ["f32", "f64", "bf16", "f16", "i32", "i64", "i8", "ui8", "ui32", "i1", "complex<f32>"]
ANY = FLOATS + F8 + INTS + PRED + COMPLEX
NUMBERS = FLOATS + F8 + INTS


@dataclass(frozen=True)
class Program:
    """MLIR text with a function main. `is_exact`: every right answer has the same bits."""

    name: str
    text: str
    is_exact: bool = True


def tensor(dims: Sequence[int | str], element: str) -> str:
    return f"tensor<{''.join(f'{d}x' for d in dims)}{element}>"


def array(values: Sequence[int | bool], element: str = "i64") -> str:
    """An attribute of integers."""
    words = ", ".join(str(v).lower() for v in values)
    return f"array<{element}: {words}>" if values else f"array<{element}>"


def pairs(rows: Sequence[Sequence[int]]) -> str:
    """A dense attribute of rows of two."""
    if not rows:
        return "dense<> : tensor<0x2xi64>"
    text = ", ".join(f"[{', '.join(map(str, row))}]" for row in rows)
    return f"dense<[{text}]> : tensor<{len(rows)}x{len(rows[0])}xi64>"


class Sketch:
    """Text of functions being written, and the random stream that decides."""

    def __init__(self, seed: int | str) -> None:
        self.rng = random.Random(seed)
        self.arguments: list[str] = []
        self.lines: list[str] = []
        self.types: dict[str, str] = {}
        self.functions: list[str] = []
        self.is_exact = True
        self.count = 0

    # -- drawing

    def pick(self, given: Sequence):
        return self.rng.choice(list(given))

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def whole(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def element(self, allowed: Sequence[str]) -> str:
        """An element type: half of the time one of those that programs use."""
        usual = [x for x in allowed if x in USUAL]
        return self.pick(usual if usual and self.chance(0.4) else allowed)

    def size(self) -> int:
        return self.pick([0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 17])

    def dims(self, least: int = 0, most: int = 4) -> list[int]:
        """Sizes: none, 1, odd ones, at times one that is larger."""
        rank = self.whole(least, most)
        dims = [self.size() for _ in range(rank)]
        if 0 in dims and self.chance(0.6):
            dims = [d or 1 for d in dims]
        if dims and self.chance(0.08):
            dims[self.whole(0, rank - 1)] = self.pick([31, 33, 64, 100, 257])
        while prod(dims) > 6000:
            dims[dims.index(max(dims))] = self.size()
        return dims

    def order(self, n: int) -> list[int]:
        found = list(range(n))
        self.rng.shuffle(found)
        return found

    def some(self, n: int, least: int = 0) -> list[int]:
        """Some of the numbers below n, in order."""
        return sorted(self.rng.sample(range(n), self.whole(min(least, n), n)))

    # -- writing

    def name(self, stem: str = "v") -> str:
        self.count += 1
        return f"%{stem}{self.count}"

    def argument(self, dims: Sequence[int | str], element: str) -> str:
        found = f"%arg{len(self.arguments)}"
        self.arguments.append(f"{found}: {tensor(dims, element)}")
        self.types[found] = tensor(dims, element)
        return found

    def constant(self, text: str, dims: Sequence[int], element: str) -> str:
        made, kind = self.name("c"), tensor(dims, element)
        self.lines.append(f"{made} = stablehlo.constant dense<{text}> : {kind}")
        self.types[made] = kind
        return made

    def op(
        self,
        name: str,
        operands: Sequence[str],
        results: Sequence[str] | str,
        attributes: str = "",
        regions: Sequence[str] = (),
    ) -> list[str]:
        """An operation in the general form; the names of its results."""
        results = [results] if isinstance(results, str) else list(results)
        made = [self.name() for _ in results]
        self.types.update(zip(made, results, strict=True))
        inside = f" ({', '.join(regions)})" if regions else ""
        of = ", ".join(self.types[x] for x in operands)
        full = name if "." in name else f"stablehlo.{name}"
        left = f"{', '.join(made)} = " if made else ""
        self.lines.append(
            f'{left}"{full}"({", ".join(operands)}){inside} '
            f"{{{attributes}}} : ({of}) -> ({', '.join(results)})"
        )
        return made

    def region(
        self, arguments: Sequence[str], body: Callable[[list[str]], Sequence[str]], end: str = ""
    ) -> str:
        """A region whose arguments have these types; `body` writes it and says what it returns."""
        outside, self.lines = self.lines, []
        names = [self.name("r") for _ in arguments]
        self.types.update(zip(names, arguments, strict=True))
        returned = list(body(names))
        of = ", ".join(self.types[x] for x in returned)
        kind = f" : ({of}) -> ()"
        self.lines.append(f'"{end or "stablehlo.return"}"({", ".join(returned)}){kind}')
        inside, self.lines = "\n".join(self.lines), outside
        head = ", ".join(f"{n}: {t}" for n, t in zip(names, arguments, strict=True))
        return f"{{\n^bb0({head}):\n{inside}\n}}" if names else f"{{\n{inside}\n}}"

    def program(self, name: str, returned: Sequence[str]) -> Program:
        of = ", ".join(self.types[x] for x in returned)
        body = "\n  ".join(self.lines)
        text = (
            f"module {{\nfunc.func public @main({', '.join(self.arguments)}) -> ({of}) {{\n"
            f"  {body}\n  return {', '.join(returned)}{' : ' if of else ''}{of}\n}}\n"
            + "\n".join(self.functions)
            + "\n}\n"
        )
        return Program(name, text, self.is_exact)


Family = Callable[[Sketch], Sequence[str]]
FAMILIES: dict[str, Family] = {}
"""Each writes a program and says what it returns."""
ROOMS: dict[str, str] = {}
"""The file of each family."""


def family(*names: str) -> Callable[[Callable[..., Sequence[str]]], Callable[..., Sequence[str]]]:
    """Register a function of a sketch; with several names it is told which."""

    def add(function: Callable[..., Sequence[str]]) -> Callable[..., Sequence[str]]:
        for name in names:
            ROOMS[name] = function.__module__.rpartition(".")[2]
            if len(names) == 1:
                FAMILIES[name] = function
            else:
                FAMILIES[name] = partial(function, name=name)
        return function

    return add


def drawn(name: str, seed: int) -> Program:
    """The program of a family and a number, always the same."""
    sketch = Sketch(f"{name} {seed}")
    returned = FAMILIES[name](sketch)
    return sketch.program(f"{name} {seed}", returned)
