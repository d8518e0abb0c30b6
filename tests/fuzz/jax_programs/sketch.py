"""A JAX program in the making: sizes, types and arguments drawn from a generator.

Sizes are those of `SizesSketch`: common ones, a few elements beside a threshold of the compiler or
a multiple of a block, and dimensions of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tests.fuzz.sketch_sizes import SizesSketch

BLOCKS = (8, 16, 64, 512, 4096)
BUDGETS = tuple(1 << bits for bits in (9, 12, 14, 16, 16, 17, 18, 18, 19, 20, 20, 20, 21, 22, 22))
RARE_BUDGET = 1 << 24
FLOATS = ("float32",) * 10 + ("bfloat16", "float16")
INTEGERS = ("int32", "int32", "int8", "int16", "uint8", "uint16", "uint32")
WIDE = ("float64", "float64", "int64", "uint64", "complex128", "float32", "int32")


class Unfit(Exception):
    """A step cannot go on from this array."""


class Step(NamedTuple):
    """A way to go on: what it is called, how, and from which kinds of types (f, i, b, c)."""

    name: str
    draw: Callable[[Sketch, Any], Callable[..., Any]]
    kinds: str
    weight: float
    fresh: bool
    keeps_shape: bool


STEPS: dict[str, Step] = {}


def step(
    kinds: str = "f", weight: float = 1.0, *, fresh: bool = False, keeps_shape: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds a function to the table. `fresh`: it needs no array to go on from."""

    def added(draw: Callable[..., Any]) -> Callable[..., Any]:
        name = draw.__name__.strip("_")
        STEPS[name] = Step(name, draw, kinds, weight, fresh, keeps_shape)
        return draw

    return added


def add_table(
    table: dict[str, Callable[..., Any]], kinds: str, weight: float, *, keeps_shape: bool = True
) -> None:
    """Steps that are functions of the array alone."""
    for name, f in table.items():
        draw = lambda d, x, f=f: lambda env, x: f(x)  # noqa: E731
        STEPS[f"{name}_{kinds}"] = Step(name, draw, kinds, weight, False, keeps_shape)


def kind_of_type(dtype: Any) -> str:
    """f, i, b or c; bf16 is f too."""
    if jnp.issubdtype(dtype, jnp.floating):
        return "f"
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return "c"
    return "b" if dtype == np.bool_ else "i"


class Sketch:
    """What has been drawn so far: the arguments of the program, and what its steps need."""

    def __init__(self, number: int) -> None:
        self.rng = np.random.default_rng(number)
        self.sizer = SizesSketch(self.rng)
        self.args: list[np.ndarray] = []
        self.x64 = self.chance(0.12)
        self.budget = RARE_BUDGET if self.chance(0.04) else self.pick(BUDGETS)
        self.has_bits = False
        """Whether f64 would compute something else: random bits, bits of floats."""
        self.main = self.pick(WIDE) if self.x64 else self._narrow()
        self.floating = self.main if kind_of_type(self.dtype(self.main)) == "f" else "float32"

    def _narrow(self) -> str:
        roll = float(self.rng.random())
        if roll < 0.8:
            return self.pick(FLOATS)
        return self.pick(INTEGERS) if roll < 0.93 else self.pick(("bool", "complex64"))

    # -- chances

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, choices: Sequence[Any]) -> Any:
        return choices[int(self.rng.integers(len(choices)))]

    def between(self, low: int, high: int) -> int:
        """An integer, both ends among them."""
        return int(self.rng.integers(low, max(low, high) + 1))

    def need(self, fits: Any) -> None:
        if not fits:
            raise Unfit

    # -- sizes

    def size(self, most: int) -> int:
        """One size of at most so many."""
        most = max(1, most)
        if self.chance(0.1):
            return 1
        if self.chance(0.4):
            block = self.pick([b for b in BLOCKS if b <= most] or [1])
            found = block * self.between(1, max(1, most // block)) + self.pick((-1, 0, 0, 1, 3, 7))
            return min(max(1, found), most)
        return min(most, max(1, *self.sizer.sizes(1, most)))

    def shape(self, rank: int, room: int = 0) -> tuple[int, ...]:
        """Sizes with at most about so many elements."""
        self.sizer.budget = room = room or self.budget
        dims = self.sizer.sizes(rank, room) if rank else ()
        while prod(dims) > 2 * room:
            dims = tuple(max(1, n // 2) if n == max(dims) else n for n in dims)
        return tuple(int(n) for n in dims)

    def part(self, total: int, most: int = 4096) -> int:
        """A size that leaves something of a total for others."""
        return self.size(min(most, max(1, int(total ** float(self.rng.uniform(0.2, 0.7))))))

    def axis(self, x: Any) -> int:
        self.need(x.ndim)
        return self.between(0, x.ndim - 1)

    def axes(self, x: Any) -> tuple[int, ...]:
        """Some axes, in order, at least one."""
        self.need(x.ndim)
        found = tuple(k for k in range(x.ndim) if self.chance(0.5))
        return found or (self.axis(x),)

    def broadcastable(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """A shape that spreads to the given one."""
        if self.chance(0.5):
            return shape
        found = tuple(1 if self.chance(0.4) else n for n in shape)
        return found[self.between(0, len(found)) :] if self.chance(0.3) else found

    # -- arguments

    def dtype(self, name: str) -> np.dtype:
        return np.dtype(jnp.dtype(name))

    def arg(self, shape: Sequence[int], dtype: Any = None, kind: str = "normal") -> int:
        """A new argument's number. Kinds: normal, positive, unit (0 to 1), index:N, sorted."""
        dtype = self.dtype(self.floating if dtype is None else dtype)
        shape = tuple(int(n) for n in shape)
        self.need(prod(shape) <= 1 << 24)
        self.args.append(self._values(shape, dtype, kind))
        return len(self.args) - 1

    def _values(self, shape: tuple[int, ...], dtype: np.dtype, kind: str) -> np.ndarray:
        rng, of = self.rng, kind_of_type(dtype)
        if kind.startswith("index:"):
            most = int(kind.partition(":")[2])
            return rng.integers(0, max(1, most), shape).astype(dtype)
        if kind.startswith("wild:"):  # some of them outside
            most = int(kind.partition(":")[2])
            return rng.integers(-most - 3, most + 4, shape).astype(dtype)
        if of == "b":
            return np.asarray(rng.random(shape) < 0.5)
        if of == "i":
            info = np.iinfo(dtype)
            low, high = (0 if info.min == 0 else -100), 100
            if self.chance(0.15):
                low, high = int(info.min), int(info.max)
            return rng.integers(low, high, shape, dtype=dtype)
        values = rng.standard_normal(shape, np.float32).astype(np.float64)
        if of == "c":
            return (values + 1j * rng.standard_normal(shape, np.float32)).astype(dtype)
        if kind == "positive":
            values = np.abs(values) + 0.1
        elif kind == "unit":
            values = rng.random(shape)
        elif kind == "sorted":
            values = np.sort(values, axis=-1)
        return np.asarray(values).astype(dtype)

    def index(self, shape: Sequence[int], most: int, wild: bool = False) -> int:
        """Integers below a size; wild ones lie outside too."""
        dtype = "int32" if most > 120 or wild else self.pick(("int32", "int32", "uint8", "int8"))
        return self.arg(shape, dtype, f"{'wild' if wild else 'index'}:{most}")

    def aval(self, k: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(self.args[k].shape, self.args[k].dtype)
