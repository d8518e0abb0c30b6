"""Random instances of any opcode: small modules with one legal use of it.

For law tests, fuzzing and tests of the verifier. An instance is correct by construction (shapes,
types, attributes, called computations) and varied: ranks 0 to 3 with sizes down to 0 or 1, every
element type the opcode admits, optional attributes present and absent. Its inputs are parameters
of the entry, so `random_arguments` can fill them in.

    @DRAW.of("reverse")
    def reverse(s: Sketch) -> Instruction:
        x = s.array()
        return s.add("reverse", x, shape=x.shape, dimensions=s.some_axes(x))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeVar

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.base.registry import Registry, load_room
from hloom.interp.sample import random_array
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.types import limits
from hloom.types.dtype import BY_NAME, PRED, DType
from hloom.types.literal import Literal
from hloom.types.shape import TOKEN_SHAPE, Shape, shape

T = TypeVar("T")

FLOATS = "f32 f64 f16 bf16"
SMALL_FLOATS = "f8e5m2 f8e4m3fn f8e4m3 f8e4m3b11fnuz f8e3m4 f8e5m2fnuz f8e4m3fnuz"
COMPLEX = "c64 c128"
SIGNED = "s8 s16 s32 s64"
UNSIGNED = "u8 u16 u32 u64"
NARROW = "s4 u4 s2 u2"
INTEGERS = f"{SIGNED} {UNSIGNED}"
NUMBERS = f"{FLOATS} {INTEGERS}"
ANY = f"{NUMBERS} {COMPLEX} {SMALL_FLOATS} {NARROW} pred"

DRAW: Registry[str, Callable[[Sketch], Instruction]] = Registry("drawer")
"""From an opcode to the function that draws an instance of it."""


def draw_instance(opcode: str, rng: np.random.Generator | int) -> Module:
    """A random small module whose entry holds one legal instance of an opcode.

    The instance is the root, or the root is what makes it legal: the done of a start, a tuple
    around it. Programs for several devices say so in `replica_count` and `num_partitions`.
    """
    load_drawers()
    draw = DRAW.get(opcode)
    if draw is None:
        raise UsageError(f"no instance of {opcode!r} can be drawn: there is no such opcode")
    sketch = Sketch(np.random.default_rng(rng))
    sketch.entry.root = draw(sketch)
    return sketch.finished()


@cache
def load_drawers() -> None:
    """Import every file of this room, so that each has registered what it draws."""
    load_room("hloom.interp")


class Sketch:
    """A module in the making, and its random numbers."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.module = Module("instance")
        self.entry = Computation("main", self.module)

    def finished(self) -> Module:
        """The module, its entry last as in text, with layouts on every shape."""
        self.entry.id = self.module.new_id()
        self.module.computations[self.entry] = None
        self.module.entry = self.entry
        for i in self.module.instructions():
            i.shape = i.shape.with_default_layouts()
        return self.module

    # -- random choices

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, probability: float = 0.5) -> bool:
        return bool(self.rng.random() < probability)

    def integer(self, low: int, high: int) -> int:
        """Both ends included."""
        return int(self.rng.integers(low, high, endpoint=True))

    def integers(self, count: int, low: int, high: int) -> tuple[int, ...]:
        return tuple(self.integer(low, high) for _ in range(count))

    def dtype(self, names: str = ANY) -> DType:
        """One of the types named."""
        return BY_NAME[self.pick(names.split())]

    def dims(self, least: int = 0, most: int = 3, smallest: int = 1, largest: int = 4):
        """Sizes of `least` to `most` dimensions."""
        return self.integers(self.integer(least, most), smallest, largest)

    def axis(self, x: Instruction) -> int:
        return self.integer(0, x.shape.rank - 1)

    def some(self, items: Sequence[T], least: int = 0, most: int | None = None) -> tuple[T, ...]:
        """A few of the items, in their order."""
        count = self.integer(least, len(items) if most is None else min(most, len(items)))
        chosen = sorted(self.rng.permutation(len(items))[:count].tolist())
        return tuple(items[k] for k in chosen)

    def some_axes(self, x: Instruction, least: int = 0) -> tuple[int, ...]:
        return self.some(range(x.shape.rank), least)

    def shuffled(self, items: Sequence[T]) -> tuple[T, ...]:
        return tuple(items[int(k)] for k in self.rng.permutation(len(items)))

    # -- the graph

    def add(self, opcode: str, *operands: Instruction, **rest: Any) -> Instruction:
        """Append to the entry; `shape=`, `called=` and attributes as for `Computation.add`."""
        return self.entry.add(opcode, *operands, **rest)

    def parameter(self, of: Shape) -> Instruction:
        """The next parameter of the entry."""
        number = len(self.entry.parameters)
        return self.entry.add("parameter", shape=of, number=number, name=f"p{number}")

    def array(self, types: str = ANY, least: int = 0, most: int = 3, **sizes: int) -> Instruction:
        """A parameter of a random array shape."""
        return self.parameter(shape(self.dtype(types), self.dims(least, most, **sizes)))

    def like(self, x: Instruction, dtype: DType | None = None) -> Instruction:
        """A parameter of the same sizes, and type unless given."""
        return self.parameter(shape(dtype or x.shape.dtype, x.shape.dims))

    def scalar(self, dtype: DType) -> Instruction:
        return self.parameter(shape(dtype))

    def index(self) -> Instruction:
        """A scalar parameter of an index type."""
        return self.scalar(self.dtype("s32 s64 u32"))

    def constant(self, value: Any, of: Shape) -> Instruction:
        return self.add("constant", shape=of, literal=Literal.of(value, of))

    def random_literal(self, of: Shape) -> Literal:
        return Literal.owning(random_array(of.dtype, of.dims, self.rng), of)

    def token(self) -> Instruction:
        return self.add("after-all", shape=TOKEN_SHAPE)

    # -- called computations

    def computation(self, name: str, *parameters: Shape) -> Computation:
        """An empty computation with these parameters; its root has to be set."""
        new = self.module.add_computation(name)
        for number, of in enumerate(parameters):
            new.add("parameter", shape=of, number=number, name=f"a{number}")
        return new

    def combiner(self, dtype: DType, *choices: str) -> Computation:
        """A scalar computation of two parameters that is one associative operation."""
        if not choices:
            choices = ("add", "multiply", "maximum", "minimum")
            if dtype.is_complex:
                choices = choices[:2]
            elif dtype.is_pred:
                choices = ("and", "or", "xor")
        fold = self.computation("combine", shape(dtype), shape(dtype))
        fold.root = fold.add(self.pick(choices), *fold.parameters, shape=shape(dtype))
        return fold

    def identity(self, combiner: Computation) -> Instruction:
        """The value that a combiner's operation changes nothing with: what reductions start from,
        as HLO leaves open how often an initial value enters."""
        dtype = combiner.root.shape.dtype
        value = {
            "add": limits.zero,
            "or": limits.zero,
            "xor": limits.zero,
            "multiply": limits.multiplicative_identity,
            "maximum": limits.min_value,
            "minimum": limits.max_value,
        }.get(combiner.root.opcode)
        if value is None:  # and
            neutral = np.array(-1 if dtype.is_integral else 1).astype(dtype.numpy)
        else:
            neutral = value(dtype)
        return self.constant(neutral, shape(dtype))

    def comparator(self, *dtypes: DType) -> Computation:
        """a0 < a1 (or >) of the first pair; two parameters per type."""
        pairs = [shape(t) for t in dtypes for _ in range(2)]
        body = self.computation("compare", *pairs)
        body.root = body.add(
            "compare",
            *body.parameters[:2],
            shape=shape(PRED),
            direction=self.pick(("LT", "GT")),
            type="TOTALORDER" if dtypes[0].is_floating and self.chance() else None,
        )
        return body

    def mapped(self, x: Shape, opcode: str = "") -> Computation:
        """A computation of one parameter that returns its shape: one elementwise operation."""
        body = self.computation("body", x)
        opcode = opcode or ("not" if x.dtype.is_pred else self.pick(("negate", "copy")))
        if opcode == "negate" and x.dtype.is_unsigned_int:
            opcode = "copy"
        body.root = body.add(opcode, body.parameters[0], shape=x)
        return body
