"""Elementwise ops as machine code against the interpreter: every opcode, type and machine."""

from __future__ import annotations

import numpy as np
import pytest

from hloom.ir.elementwise import BINARY, UNARY
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import PRED, Kernel, TileType
from hloom.kernel.verify_ops import ADMITS, CLASS
from hloom.types.dtype import ALL, BY_NAME, DType
from tests.codegen.llvm.lowering import (
    Array,
    Native,
    check_all,
    drawn,
    machines,
)

LANES = (16, 1, 37, 3)
STEPS = 3
EXACT = frozenset(
    """abs add ceil clamp complex divide floor imag is-finite maximum minimum multiply negate real
    remainder round-nearest-afz round-nearest-even sign sqrt subtract""".split()
)
EXACT_COMPLEX = ("add", "subtract", "multiply", "negate", "real", "imag")
ELEMENTS = [t for t in ALL if CLASS[t] != "-"]


def result_type(opcode: str, t: DType, shape: tuple[int, ...]) -> TileType:
    """What an elementwise opcode makes of tiles of a type."""
    if opcode == "is-finite":
        return TileType(PRED, shape)
    if opcode in ("abs", "real", "imag"):
        return TileType(t.component, shape)
    if opcode == "complex":
        return TileType(BY_NAME["c64" if t.bits == 32 else "c128"], shape)
    return TileType(t, shape)


def of_opcode(opcode: str, t: DType, lanes: int, excess: bool = False) -> Kernel:
    """A kernel that applies an opcode to rows of a number of lanes."""
    b = KernelBuilder(f"{opcode}_{t}_{lanes}", (STEPS,))
    count = 1 if opcode in UNARY else 3 if opcode in ("clamp", "fma") else 2
    params = [b.param(f"p{i}", t, STEPS * lanes, "in") for i in range(count)]
    shape, strides = ((lanes,), (1,)) if lanes > 1 else ((), ())
    offset = b.binary("multiply", b.grid_indices[0], b.index(lanes))
    tiles = tuple([b.load(p, offset, shape, strides) for p in params])
    made = b.add(opcode, tiles, result_type(opcode, t, shape))
    out = b.param("out", made.dtype, STEPS * lanes, "out")
    b.store(out, offset, made, strides)
    kernel = b.finish()
    kernel.excess_precision = excess
    return kernel


def arguments(kernel: Kernel) -> list[Array]:
    """Drawn inputs, and zeros for the output."""
    arrays = [drawn(p.value.dtype, p.size, i) for i, p in enumerate(kernel.params[:-1])]
    if kernel.name.startswith("fma"):  # without cancellation, rounding twice is close to once
        arrays = [np.abs(a) for a in arrays]
    t = kernel.params[0].value.dtype
    if t.is_complex and not kernel.name.startswith(EXACT_COMPLEX):
        rng = np.random.default_rng(1)
        for a in arrays:  # away from cuts and cancellation, which tests of the functions visit
            a[:] = (rng.uniform(0.2, 0.8, (a.size, 2)) @ [1, 1j]).astype(a.dtype)
    out = kernel.params[-1]
    return [*arrays, np.zeros(out.size, out.value.dtype.numpy)]


def opcodes_of(t: DType) -> list[str]:
    """The elementwise opcodes that are defined for a type."""
    kind = CLASS[t]
    found = [o for o in sorted(UNARY | BINARY) if kind in ADMITS.get(o, "")]
    if kind == "f" and t.bits < 32:
        found.remove("complex")
    if kind == "f":
        found.append("fma")
    return found if kind == "c" else [*found, "clamp"]


EVERYWHERE = frozenset(["f16", "bf16", "f8e4m3fn", "f32", "f64", "s4", "pred"])


def opcodes_to_try(t: DType, machine: str) -> list[str]:
    """The opcodes to try: functions are tested by themselves, so a few do for most types."""
    found = opcodes_of(t)
    if t.is_integral or t.is_pred or (machine == "host" and t.bits in (32, 64, 128)):
        return found
    if t.name in EVERYWHERE and machine == "host":
        return found
    return [o for o in found if o in EXACT or o == "exponential"]


def tolerance(opcode: str, t: DType) -> float:
    """The relative error that a result may have."""
    if opcode in EXACT and not t.is_complex:
        return 0.0
    if t.is_floating and t.bits < 32:
        return 2.0**-(t.mantissa_bits)
    return 1e-6 if t.bits in (32, 64) and t.component.bits == 32 else 1e-14


CASES = [
    (t.name, machine)
    for t in ELEMENTS
    for machine in machines()
    if machine == "host" or t.name in EVERYWHERE or t.bits in (16, 32, 64)
]


@pytest.mark.parametrize(("name", "machine"), CASES)
def test_every_opcode(name: str, machine: str) -> None:
    t = BY_NAME[name]
    shift = list(machines()).index(machine)
    opcodes = opcodes_to_try(t, machine)
    kernels = [of_opcode(o, t, LANES[(k + shift) % 4]) for k, o in enumerate(opcodes)]
    limits = [tolerance(o, t) for o in opcodes]
    check_all(kernels, [arguments(k) for k in kernels], machine, limits)


@pytest.mark.parametrize(
    "name", ["s4", "u8", "s16", "s32", "s64", "u64", "f32", "bf16", "f8e4m3fn"]
)
def test_every_number_of_lanes(name: str) -> None:
    t = BY_NAME[name]
    exact = [o for o in opcodes_of(t) if t.is_integral or o in EXACT]
    kernels = [of_opcode(o, t, lanes) for o in exact for lanes in LANES]
    check_all(kernels, [arguments(k) for k in kernels], "host", [0.0] * len(kernels))


def of_compare(t: DType, order: str) -> Kernel:
    """All directions, on all pairs of a few numbers."""
    b = KernelBuilder(f"compare_{t}_{order}", ())
    x, y = (b.param(n, t, 64, "in") for n in "xy")
    zero = b.index(0)
    first, second = (b.load(p, zero, (64,), (1,)) for p in (x, y))
    directions = ("EQ", "NE") if t.is_complex else ("EQ", "NE", "LT", "LE", "GT", "GE")
    for direction in directions:
        out = b.param(direction, PRED, 64, "out")
        b.store(out, zero, b.compare(direction, first, second, order), (1,))
    return b.finish()


@pytest.mark.parametrize("order", ["", "total"])
def test_compare(order: str) -> None:
    kernels = [of_compare(t, order) for t in ELEMENTS if not order or t.is_floating]
    given = []
    for kernel in kernels:
        t = kernel.params[0].value.dtype
        few = drawn(t, 64)[:8]
        outs = [np.zeros(64, bool) for _ in kernel.params[2:]]
        given.append([np.repeat(few, 8), np.tile(few, 8), *outs])
    check_all(kernels, given, "host", [0.0] * len(kernels))


def of_convert(source: DType, target: DType, opcode: str = "convert") -> Kernel:
    """A conversion of four rows of 9 elements."""
    b = KernelBuilder(f"{opcode}_{source}_{target}", (4,))
    x, out = b.param("x", source, 36, "in"), b.param("out", target, 36, "out")
    at = b.binary("multiply", b.grid_indices[0], b.index(9))
    b.store(out, at, b.unary(opcode, b.load(x, at, (9,), (1,)), target), (1,))
    return b.finish()


def converted_values(source: DType, seed: int) -> Array:
    """Numbers of which some are beyond the range of narrower types."""
    values = drawn(source, 36, seed)
    if source.is_floating and source.bits >= 16:
        with np.errstate(all="ignore"):
            scale = 2.0 ** np.arange(-20, 16)
            values = (values.astype(np.float64) * scale).astype(source.numpy)
    return values


@pytest.mark.parametrize("machine", machines())
def test_convert_between_all_pairs(machine: str) -> None:
    pairs = [(s, t) for s in ELEMENTS for t in ELEMENTS if s is not t]
    if machine != "host":
        pairs = pairs[list(machines()).index(machine) :: 5]
    kernels = [of_convert(s, t) for s, t in pairs]
    given = [[converted_values(s, k), np.zeros(36, t.numpy)] for k, (s, t) in enumerate(pairs)]
    check_all(kernels, given, machine, [0.0] * len(kernels))


def test_bitcast_convert_between_equal_widths() -> None:
    pairs = [
        (s, t)
        for s in ELEMENTS
        for t in ELEMENTS
        if s is not t and s.bits == t.bits and not s.is_complex and not t.is_complex
    ]
    kernels = [of_convert(s, t, "bitcast-convert") for s, t in pairs]
    given = [[drawn(s, 36, 5), np.zeros(36, t.numpy)] for s, t in pairs]
    check_all(kernels, given, "host", [0.0] * len(kernels))


@pytest.mark.parametrize("name", ["f32", "f64", "bf16", "f16", "f8e5m2"])
def test_reduce_precision(name: str) -> None:
    t = BY_NAME[name]
    kernels = []
    for exponents, mantissas in ((8, 7), (5, 10), (5, 2), (4, 3), (8, 23), (11, 3), (2, 0)):
        b = KernelBuilder(f"reduce_precision_{exponents}_{mantissas}", ())
        x, out = b.param("x", t, 36, "in"), b.param("out", t, 36, "out")
        tile = b.load(x, b.index(0), (36,), (1,))
        attrs = {"exponent_bits": exponents, "mantissa_bits": mantissas}
        b.store(out, b.index(0), b.add("reduce-precision", (tile,), tile.type, attrs), (1,))
        kernels.append(b.finish())
    given = [[converted_values(t, 3), np.zeros(36, t.numpy)] for _ in kernels]
    check_all(kernels, given, "host", [0.0] * len(kernels))


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_remainder_of_numbers_far_apart(name: str) -> None:
    t = BY_NAME[name]
    kernel = of_opcode("remainder", t, 37)
    rng = np.random.default_rng(4)
    least, most = (-149, 127) if name == "f32" else (-1074, 1023)
    x, y = (
        np.ldexp(rng.uniform(1, 2, 111), rng.integers(least, most, 111)).astype(t.numpy)
        for _ in range(2)
    )
    check_all([kernel], [[x, y, np.zeros(111, t.numpy)]], "host", [0.0])


@pytest.mark.parametrize("name", ["s8", "u16", "s32", "u32", "s64"])
def test_operands_that_are_constants(name: str) -> None:
    t = BY_NAME[name]
    kernels = []
    for opcode in ("divide", "remainder", "power", "shift-left", "shift-right-arithmetic"):
        for number in (0, 1, 3, 7, t.bits, 2 ** (t.bits - 1) - 1, -1):
            if number < 0 and not t.is_signed_int:
                continue
            b = KernelBuilder(f"{opcode}_{number}", ())
            x, out = b.param("x", t, 37, "in"), b.param("out", t, 37, "out")
            tile = b.load(x, b.index(0), (37,), (1,))
            b.store(out, b.index(0), b.binary(opcode, tile, b.constant(t, number, (37,))), (1,))
            kernels.append(b.finish())
    given = [[drawn(t, 37), np.zeros(37, t.numpy)] for _ in kernels]
    check_all(kernels, given, "host", [0.0] * len(kernels))


def test_excess_precision_keeps_digits_until_the_store() -> None:
    t = BY_NAME["bf16"]
    made = []
    for excess in (False, True):
        b = KernelBuilder("sum", ())
        x, out = b.param("x", t, 16, "in"), b.param("out", t, 16, "out")
        tile = b.load(x, b.index(0), (16,), (1,))
        tiny = b.constant(t, 2.0**-8, (16,))
        twice = b.binary("add", b.binary("add", tile, tiny), tiny)
        b.store(out, b.index(0), twice, (1,))
        kernel = b.finish()
        kernel.excess_precision = excess
        arrays = [np.ones(16, t.numpy), np.zeros(16, t.numpy)]
        Native([kernel], machines()["host"]).run(0, arrays, 0, 1)
        made.append(arrays[1].astype(np.float32))
    # 1 + 2^-8 is halfway to the next bf16 and rounds to 1; 1 + 2^-7 is that next one.
    assert set(made[0].tolist()) == {1.0}
    assert set(made[1].tolist()) == {1.0 + 2.0**-7}
