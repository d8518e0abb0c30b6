"""Draws random programs that a pattern matches: leaves are fresh parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isinf
from random import Random
from typing import Any

import numpy as np

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.values.padding import Padding, PaddingDimension
from hloom.ir.values.slices import SliceDimension, Slices
from hloom.ir.values.window import Window, WindowDimension
from hloom.rewrite.pattern import Pattern
from hloom.types.literal import Literal
from hloom.types.shape import Shape, shape, tuple_shape
from tests.types.random_literal import random_literal

TYPES = ["f32", "s32", "pred", "u8", "bf16", "f64", "s8", "u32"]
SAME_TYPE = frozenset(
    "add subtract multiply divide remainder power maximum minimum and or xor compare "
    "shift-left shift-right-logical shift-right-arithmetic".split()
)


JOINED = Pattern(frozenset(["concatenate"]))


class CannotDraw(Exception):
    """This choice of types or shapes does not suit the pattern; another seed may."""


@dataclass
class Drawing:
    """One random instance in the making."""

    rng: Random
    into: Computation
    known: dict[str, Instruction] = field(default_factory=dict)

    def parameter(self, of: Shape) -> Instruction:
        number = len(self.into.parameters)
        return self.into.add("parameter", number=number, shape=of, name=f"p{number}")

    def value(self, pattern: Pattern, wanted: Shape) -> Instruction:
        """An instance of `pattern`, of the wanted shape where the operation leaves a choice."""
        if pattern.name in self.known:
            return self.known[pattern.name]
        if pattern.opcodes is None:
            made = self.parameter(wanted)
        elif pattern.opcodes == {"constant"}:
            made = self.literal(wanted)
        elif pattern.value is not None:
            made = self.constant(pattern.value, wanted)
        else:
            made = self.operation(pattern, wanted)
        if pattern.name is not None:
            self.known[pattern.name] = made
        if pattern.where is not None and not pattern.where(made):
            raise CannotDraw
        return made

    def literal(self, wanted: Shape) -> Instruction:
        literal = random_literal(wanted, np.random.default_rng(self.rng.randrange(2**32)))
        return self.into.add("constant", literal=literal, shape=wanted)

    def constant(self, value: float, wanted: Shape) -> Instruction:
        if value < 0 and (wanted.dtype.is_unsigned_int or wanted.dtype.is_pred):
            raise CannotDraw
        if isinf(value) and not (wanted.dtype.is_floating and wanted.dtype.has_infinity):
            raise CannotDraw
        scalar = Literal.of(value, wanted.dtype)
        made = self.into.add("constant", literal=scalar, shape=scalar.shape)
        if wanted.rank == 0:
            return made
        return self.into.add("broadcast", made, dimensions=(), shape=wanted)

    def operation(self, pattern: Pattern, wanted: Shape) -> Instruction:
        assert pattern.opcodes
        opcode = self.rng.choice(sorted(pattern.opcodes))
        if opcode.startswith(("shift-", "mulhi")) and not wanted.dtype.is_integral:
            raise CannotDraw
        if opcode == "tuple":
            return self.tuple_of_one(wanted)
        wants = self.operand_shapes(opcode, wanted, pattern)
        patterns = pattern.operands or (Pattern(),) * len(wants)
        if opcode == "concatenate" and pattern.where is not None:
            patterns = [self.rng.choice([Pattern(), JOINED]) for _ in wants]
        operands: list[Instruction] = []
        for p, want in zip(patterns, wants, strict=True):
            if operands and opcode in SAME_TYPE:
                want = operands[0].shape
            operands.append(self.value(p, want))
        if opcode.startswith("dynamic-") and self.rng.random() < 0.5:
            operands[0] = self.constant(0, wants[0])
        if opcode == "select" and pattern.where is not None:
            operands = [operands[0], *chosen_of(*operands[1:])]
        attributes, given = self.attributes(opcode, operands, wanted)
        try:
            return self.into.add(opcode, *operands, shape=given, **attributes)
        except Exception as error:
            raise CannotDraw from error

    def tuple_of_one(self, wanted: Shape) -> Instruction:
        """A tuple, often of all the elements of another one."""
        count = self.rng.randint(1, 3)
        source = self.parameter(tuple_shape((wanted,) * count))
        order = list(range(count))
        if self.rng.random() < 0.3:
            self.rng.shuffle(order)
        parts = [self.into.add("get-tuple-element", source, index=k) for k in order]
        return self.into.add("tuple", *parts)

    def operand_shapes(self, opcode: str, wanted: Shape, pattern: Pattern) -> list[Shape]:
        rng = self.rng
        if opcode == "select":
            return [shape("pred", wanted.dims), wanted, wanted]
        if opcode == "broadcast" and pattern.where is not None:
            return [wanted.with_dims(())]
        if opcode == "broadcast":
            return [wanted.with_dims(wanted.dims[: rng.randint(0, wanted.rank)])]
        if opcode == "convert":
            return [wanted.with_dtype(rng.choice(TYPES))]
        if opcode == "compare":
            return [wanted, wanted]
        if opcode == "pad":
            return [wanted, wanted.with_dims(())]
        if opcode == "concatenate":
            empty = wanted.with_dims((0, *wanted.dims[1:]))
            return rng.choice([[wanted], [wanted, empty], [empty, wanted, wanted]])
        if opcode == "tuple":
            return [wanted] * rng.randint(1, 3)
        if opcode == "iota":
            return []
        if opcode in ("reduce", "reduce-window"):
            return [wanted, wanted.with_dims(())]
        if opcode == "dynamic-slice":
            return [wanted] + [shape("s32")] * wanted.rank
        if opcode == "dynamic-update-slice":
            part = wanted.with_dims(tuple(rng.randint(1, n) for n in wanted.dims))
            return [wanted, rng.choice([wanted, part])] + [shape("s32")] * wanted.rank
        count = OPS[opcode].operand_count
        return [wanted] * (count or 1)

    def attributes(
        self, opcode: str, operands: list[Instruction], wanted: Shape
    ) -> tuple[dict[str, Any], Shape | None]:
        rng = self.rng
        x = operands[0].shape if operands else wanted
        if opcode == "transpose":
            order = list(range(x.rank))
            rng.shuffle(order)
            if rng.random() < 0.3:
                order.sort()
            return {"dimensions": tuple(order)}, None
        if opcode == "reverse":
            return {
                "dimensions": tuple(sorted(rng.sample(range(x.rank), rng.randint(0, x.rank))))
            }, None
        if opcode == "slice":
            return {"slice": Slices(tuple(self.slice_of(n) for n in x.dims))}, None
        if opcode == "broadcast":
            return self.broadcast(x, wanted)
        if opcode == "reshape":
            size = x.size
            dims = rng.choice([(size,), (1, size), x.dims, (*x.dims, 1)])
            return {}, x.with_dims(dims)
        if opcode == "convert":
            return {}, x.with_dtype(rng.choice([*TYPES, x.dtype.name]))
        if opcode == "compare":
            return {"direction": rng.choice(["EQ", "NE", "LT", "LE", "GT", "GE"])}, None
        if opcode == "pad":
            none = tuple(PaddingDimension(0, 0, rng.randint(0, 1) * (n <= 1)) for n in x.dims)
            return {"padding": Padding(none)}, None
        if opcode == "concatenate":
            return {"dimensions": (0,)}, None
        if opcode == "reduce":
            folded = sorted(rng.sample(range(x.rank), rng.randint(0, x.rank)))
            return {"dimensions": tuple(folded), "called": (self.combiner(x),)}, None
        if opcode == "reduce-window":
            return {"window": self.window(x), "called": (self.combiner(x),)}, None
        if opcode == "iota":
            if not wanted.rank:
                raise CannotDraw
            return {"iota_dimension": rng.randrange(wanted.rank)}, wanted
        if opcode == "get-tuple-element":
            return {"index": rng.randrange(len(x.elements))}, None
        if opcode == "dynamic-slice":
            sizes = x.dims if rng.random() < 0.5 else tuple(rng.randint(0, n) for n in x.dims)
            return {"dynamic_slice_sizes": sizes}, None
        return {}, None

    def combiner(self, x: Shape) -> Computation:
        """One operation of two scalars."""
        module = self.into.module
        assert module is not None
        combiner = module.add_computation("combine")
        a, b = (combiner.add("parameter", number=k, shape=x.with_dims(())) for k in range(2))
        folds = ["add", "multiply", "maximum", "minimum"]
        if not x.dtype.is_floating:
            folds += ["and", "or", "xor"]
        combiner.root = combiner.add(self.rng.choice(folds), a, b)
        return combiner

    def window(self, x: Shape) -> Window:
        """One that fits into what is folded, padded on either side."""
        rng = self.rng
        return Window(
            tuple(
                WindowDimension(
                    rng.randint(1, max(1, min(3, n))),
                    rng.randint(1, 2),
                    rng.randint(0, 2),
                    rng.randint(0, 2),
                )
                for n in x.dims
            )
        )

    def slice_of(self, size: int) -> SliceDimension:
        rng = self.rng
        if rng.random() < 0.3:
            return SliceDimension(0, size, 1)
        start = rng.randint(0, size)
        return SliceDimension(start, rng.randint(start, size), rng.randint(1, 3))

    def broadcast(self, x: Shape, wanted: Shape) -> tuple[dict[str, Any], Shape | None]:
        rng = self.rng
        if rng.random() < 0.5:
            return {"dimensions": tuple(range(x.rank))}, wanted.with_dtype(x.dtype.name)
        rank = x.rank + rng.randint(0, 2)
        dimensions = tuple(sorted(rng.sample(range(rank), x.rank)))
        dims = [rng.randint(1, 3) for _ in range(rank)]
        for k, d in enumerate(dimensions):
            dims[d] = x.dims[k]
        return {"dimensions": dimensions}, x.with_dims(tuple(dims))


def chosen_of(one: Instruction, other: Instruction) -> list[Instruction]:
    """What a select chooses from: where one of the two has a part written, the other is what that
    is a part of."""
    parts = [x for x in (one, other) if x.opcode == "dynamic-update-slice"]
    return (
        [x if x in parts else parts[0].operands[0] for x in (one, other)] if parts else [one, other]
    )


def drawn(pattern: Pattern, seed: int) -> Module:
    """A module whose root is a random instance of the pattern; raises `CannotDraw`."""
    rng = Random(seed)
    module = Module("law")
    into = module.add_computation("law", entry=True)
    rank = rng.randint(0, 3)
    wanted = shape(rng.choice(TYPES), tuple(rng.choice([1, 2, 3, 5]) for _ in range(rank)))
    into.root = Drawing(rng, into).value(pattern, wanted.with_default_layouts())
    for i in into.instructions:
        i.shape = i.shape.with_default_layouts()
    return module
