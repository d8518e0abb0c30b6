"""Instances of elementwise operations: for each opcode the types it admits."""

from __future__ import annotations

from hloom.interp.draw import (
    ANY,
    COMPLEX,
    DRAW,
    FLOATS,
    INTEGERS,
    NARROW,
    NUMBERS,
    SIGNED,
    SMALL_FLOATS,
    Sketch,
)
from hloom.ir.elementwise import BINARY, CLASSES, UNARY, result_type
from hloom.ir.instruction import Instruction
from hloom.types.dtype import BY_NAME, PRED
from hloom.types.shape import shape

_ALL_FLOATS = f"{FLOATS} {SMALL_FLOATS}"
_BITS = f"{INTEGERS} {NARROW}"
_TYPES_OF_CLASS = {"f": _ALL_FLOATS, "c": COMPLEX, "i": _BITS, "p": "pred"}

_FEWER = {
    "abs": f"{FLOATS} {SIGNED} {COMPLEX}",
    "add": ANY,
    "atan2": FLOATS,
    "divide": f"{NUMBERS} {COMPLEX} {SMALL_FLOATS}",
    "imag": COMPLEX,
    "maximum": f"{NUMBERS} {COMPLEX} {SMALL_FLOATS} pred",
    "minimum": f"{NUMBERS} {COMPLEX} {SMALL_FLOATS} pred",
    "mulhi": INTEGERS,
    "multiply": ANY,
    "negate": f"{_ALL_FLOATS} {SIGNED} {COMPLEX}",
    "power": f"{FLOATS} {COMPLEX} s32 s64",
    "real": COMPLEX,
    "remainder": f"{NUMBERS}",
    "shift-left": _BITS,
    "shift-right-arithmetic": _BITS,
    "shift-right-logical": _BITS,
    "sign": f"{FLOATS} {SIGNED} {COMPLEX}",
    "subtract": f"{NUMBERS} {COMPLEX} {SMALL_FLOATS} {NARROW}",
}
"""Opcodes that are not drawn of all types of the classes that their shape rules admit: such where
the result says little, or that shape rules admit without a meaning."""


def _types(opcode: str) -> str:
    """Names of the types that an opcode is drawn of, with spaces between them."""
    return _FEWER.get(opcode) or " ".join([_TYPES_OF_CLASS[c] for c in CLASSES[opcode]])


def _unary(opcode: str, types: str):
    def draw(s: Sketch) -> Instruction:
        x = s.array(types, smallest=0)
        dtype = x.shape.dtype
        return s.add(opcode, x, shape=x.shape.with_dtype(result_type(opcode, dtype)))

    return draw


def _binary(opcode: str, types: str):
    def draw(s: Sketch) -> Instruction:
        x = s.array(types, smallest=0)
        return s.add(opcode, x, x if s.chance(0.1) else s.like(x), shape=x.shape)

    return draw


for _opcode in sorted(UNARY):
    DRAW.add(_opcode, _unary(_opcode, _types(_opcode)))
for _opcode in sorted(BINARY - {"complex"}):
    DRAW.add(_opcode, _binary(_opcode, _types(_opcode)))


@DRAW.of("reduce-precision")
def reduce_precision(s: Sketch) -> Instruction:
    x = s.array(FLOATS)
    exponent, mantissa = s.integer(1, 11), s.integer(0, 23)
    return s.add(
        "reduce-precision", x, shape=x.shape, exponent_bits=exponent, mantissa_bits=mantissa
    )


@DRAW.of("complex")
def complex_(s: Sketch) -> Instruction:
    x = s.array("f32 f64")
    complex_type = BY_NAME["c64" if x.shape.dtype.bits == 32 else "c128"]
    return s.add("complex", x, s.like(x), shape=x.shape.with_dtype(complex_type))


@DRAW.of("compare")
def compare(s: Sketch) -> Instruction:
    x = s.array(ANY, smallest=0)
    directions = ("EQ", "NE", "GE", "GT", "LE", "LT")
    order = "TOTALORDER" if x.shape.dtype.is_floating and s.chance(0.3) else None
    return s.add(
        "compare",
        x,
        s.like(x),
        shape=x.shape.with_dtype(PRED),
        direction=s.pick(directions),
        type=order,
    )


@DRAW.of("clamp")
def clamp(s: Sketch) -> Instruction:
    x = s.array(f"{NUMBERS} {COMPLEX} {SMALL_FLOATS}")
    ends = [s.scalar(x.shape.dtype) if s.chance() else s.like(x) for _ in range(2)]
    return s.add("clamp", ends[0], x, ends[1], shape=x.shape)


@DRAW.of("select")
def select(s: Sketch) -> Instruction:
    x = s.array(ANY)
    predicate = s.scalar(PRED) if s.chance(0.3) else s.like(x, PRED)
    return s.add("select", predicate, x, s.like(x), shape=x.shape)


@DRAW.of("convert")
def convert(s: Sketch) -> Instruction:
    x = s.array(ANY)
    # A complex number has no order to convert to a real one by.
    types = COMPLEX if x.shape.dtype.is_complex else ANY
    return s.add("convert", x, shape=x.shape.with_dtype(s.dtype(types)))


@DRAW.of("bitcast-convert")
def bitcast_convert(s: Sketch) -> Instruction:
    """The same width, or a minor dimension that appears or goes."""
    names = s.pick(("f32 s32 u32", "f64 s64 u64", "f16 bf16 s16 u16", "s8 u8 f8e5m2"))
    dims = s.dims()
    wide, other = s.dtype(names), s.dtype(names)
    if s.chance():
        return s.add("bitcast-convert", s.parameter(shape(wide, dims)), shape=shape(other, dims))
    narrow = s.dtype({8: "s4 u4", 16: "u8 s8", 32: "u16 f16 u8", 64: "u32 f32 s8"}[wide.bits])
    split = (*dims, wide.bits // narrow.bits)
    if s.chance():
        return s.add("bitcast-convert", s.parameter(shape(wide, dims)), shape=shape(narrow, split))
    return s.add("bitcast-convert", s.parameter(shape(narrow, split)), shape=shape(wide, dims))


@DRAW.of("stochastic-convert")
def stochastic_convert(s: Sketch) -> Instruction:
    x = s.array("f32 f16 bf16")
    random = s.like(x, BY_NAME[f"u{x.shape.dtype.bits}"])
    to = s.dtype("s8 s16 s32") if x.shape.dtype.bits == 32 else s.dtype("s8 s16")
    return s.add("stochastic-convert", x, random, shape=x.shape.with_dtype(to))
