"""Reductions, scans and matrix products as machine code against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from hloom.codegen.llvm.lower import lower_kernel
from hloom.codegen.llvm.machine import Machine, assembly_text
from hloom.codegen.llvm.module import kernel_module
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import FOLDS, Kernel, Value
from hloom.kernel.verify_ops import ADMITS, CLASS
from hloom.types.dtype import BY_NAME, DType
from tests.codegen.llvm.lowering import Array, check_all, drawn, machines

TYPES = ["pred", "s4", "u8", "s16", "s32", "u64", "bf16", "f32", "f64", "c64"]
SHAPES = [(37,), (3, 16), (8, 8), (8, 4), (3, 37), (5, 3, 9), (1, 1), (40, 1), (2, 2, 16)]


def tame(t: DType, count: int, seed: int = 0) -> Array:
    """Values whose sums and products are finite and nowhere near zero by cancellation."""
    rng = np.random.default_rng(seed)
    if t.is_floating:
        return rng.uniform(0.9, 1.1, count).astype(t.numpy)
    if t.is_complex:  # products of 100 of them have not turned by a quarter
        return (rng.uniform(0.9, 1.1, count) + 0.005j * (1 + rng.random(count))).astype(t.numpy)
    return drawn(t, count, seed)


def dense(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a row-major array."""
    return tuple(int(np.prod(shape[k + 1 :], dtype=int)) for k in range(len(shape)))


def folding(t: DType, shape: tuple[int, ...], opcode: str) -> list[Kernel]:
    """Kernels that reduce or scan along each axis by each kind."""
    made = []
    for axis in range(len(shape)):
        for number, kind in enumerate(sorted(FOLDS)):
            if CLASS[t] not in ADMITS[kind]:
                continue
            count = int(np.prod(shape, dtype=int))
            b = KernelBuilder(f"{opcode}_{kind}_{axis}_{t}_{shape}", ())
            x = b.load(b.param("x", t, count, "in"), b.index(0), shape, dense(shape))
            reverse = number % 2 == axis % 2
            y = b.reduce(x, axis, kind) if opcode == "reduce" else b.scan(x, axis, kind, reverse)
            size = int(np.prod(y.shape, dtype=int))
            out = b.param("out", t, size, "out")
            b.store(out, b.index(0), y, dense(y.shape))
            made.append(b.finish())
    return made


@pytest.mark.parametrize("machine", machines())
@pytest.mark.parametrize("opcode", ["reduce", "scan"])
def test_folds(opcode: str, machine: str) -> None:
    kernels: list[Kernel] = []
    shift = list(machines()).index(machine)
    for number, name in enumerate(TYPES):
        for k, shape in enumerate(SHAPES):
            if (number + k + shift) % (3 if machine == "host" else 6) == 0:
                kernels += folding(BY_NAME[name], shape, opcode)
    given, limits = [], []
    for k, kernel in enumerate(kernels):
        t, size = kernel.params[0].value.dtype, kernel.params[0].size
        out = np.zeros(kernel.params[1].size, t.numpy)
        extremes = "imum" in kernel.name
        given.append([drawn(t, size, k) if extremes else tame(t, size, k), out])
        limits.append(0.0 if extremes else {16: 2.0**-7, 32: 2e-6, 64: 2e-6}.get(t.bits, 0.0))
    check_all(kernels, given, machine, limits)


@pytest.mark.parametrize("machine", machines())
def test_bits_that_lie_apart_are_scanned_without_their_neighbours(machine: str) -> None:
    """What lies behind eight bits of a mask is not moved into them."""
    kernels, given = [], []
    for reverse in (False, True):
        b = KernelBuilder(f"apart_{reverse}", ())
        x = b.load(b.param("x", BY_NAME["pred"], 72, "in"), b.index(0), (3, 8), (24, 3))
        out = b.param("out", BY_NAME["pred"], 24, "out")
        b.store(out, b.index(0), b.scan(x, 1, "or", reverse), (8, 1))
        kernels.append(b.finish())
        apart = np.arange(72) % 24 == 0
        given.append([apart, np.ones(24, bool)])
    check_all(kernels, given, machine)


def dot(
    types: tuple[str, str, str], sizes: tuple[int, int, int], strides: tuple[int, ...]
) -> Kernel:
    """acc[m,n] + a[m,k] b[k,n]; the second is added to itself if strides ask for registers."""
    height, width, depth = sizes
    acc_type, a_type, b_type = (BY_NAME[n] for n in types)
    b = KernelBuilder(f"dot_{types}_{sizes}_{strides}", ())
    a = b.param("a", a_type, height * depth, "in")
    other = b.param("b", b_type, depth * width, "in")
    acc = b.param("acc", acc_type, height * width, "inout")
    zero = b.index(0)
    left = b.load(a, zero, (height, depth), (depth, 1) if strides[0] else (1, height))
    right = b.load(other, zero, (depth, width), (width, 1) if strides[1] else (1, depth))
    if len(strides) > 2:
        left, right = (b.binary("add", x, x) for x in (left, right))
    first = b.load(acc, zero, (height, width), (width, 1))
    b.store(acc, zero, b.dot(first, left, right), (width, 1))
    return b.finish()


@pytest.mark.parametrize("machine", machines())
def test_dot(machine: str) -> None:
    kinds = [
        ("f32", "f32", "f32"),
        ("f64", "f32", "f64"),
        ("f32", "bf16", "bf16"),
        ("bf16", "bf16", "bf16"),
        ("s32", "s8", "s8"),
        ("s32", "u8", "s8"),
        ("u16", "u4", "u8"),
        ("s64", "s64", "s64"),
        ("c64", "c64", "c64"),
    ]
    sizes = [(6, 32, 8), (1, 5, 3), (3, 1, 17), (4, 16, 1), (2, 1, 1)]
    layouts = [(1, 1), (0, 1), (1, 0), (1, 1, 1)]
    kernels = [
        dot(kind, size, layouts[(k + j) % 4])
        for k, kind in enumerate(kinds)
        for j, size in enumerate(sizes)
    ]
    given, limits = [], []
    for kernel in kernels:
        given.append([tame(p.value.dtype, p.size, 3) for p in kernel.params])
        t = kernel.params[2].value.dtype
        limits.append({16: 2.0**-7, 32: 1e-5, 64: 1e-5}[t.bits] if not t.is_integral else 0.0)
    check_all(kernels, given, machine, limits)


GROUPED = [
    ("f32", "bf16", "bf16", 2),
    ("s32", "u8", "s8", 4),
    ("s32", "s8", "s8", 4),
    ("s32", "s16", "s16", 2),
]


def grouped(types: tuple[str, str, str], group: int, height: int, width: int) -> Kernel:
    """A dot of neighbours along K, each operand as the instructions for it read it."""
    acc_type, a_type, b_type = (BY_NAME[n] for n in types)
    b = KernelBuilder(f"grouped_{types}_{height}_{width}", ())
    a = b.param("a", a_type, height * group, "in")
    other = b.param("b", b_type, group * width, "in")
    acc = b.param("acc", acc_type, height * width, "inout")
    zero = b.index(0)
    left = b.load(a, zero, (height, group), (group, 1))
    right = b.load(other, zero, (group, width), (1, group))
    first = b.load(acc, zero, (height, width), (width, 1))
    b.store(acc, zero, b.dot(first, left, right), (width, 1))
    return b.finish()


@pytest.mark.parametrize("machine", machines())
def test_grouped_dot(machine: str) -> None:
    shapes = [(6, 64), (1, 16), (3, 48), (2, 8), (4, 20)]
    kernels = [
        grouped((acc, a, b), group, height, width)
        for acc, a, b, group in GROUPED
        for height, width in shapes
    ]
    given = [[tame(p.value.dtype, p.size, 5) for p in kernel.params] for kernel in kernels]
    limits = [1e-5 if k.params[2].value.dtype.is_floating else 0.0 for k in kernels]
    check_all(kernels, given, machine, limits)


@pytest.mark.parametrize(
    "triple, features, width, found",
    [
        ("x86_64-linux-gnu", "+avx512f,+avx512bw,+avx512bf16", 16, ["vdpbf16ps", "vpmaddwd"]),
        ("x86_64-linux-gnu", "+avx512f,+avx512bw,+avx512vnni", 16, ["vpdpbusd", "vpdpwssd"]),
        ("x86_64-linux-gnu", "+avx2,+fma,+avxvnni", 8, ["vpdpbusd", "vpdpwssd"]),
        ("aarch64-linux-gnu", "+neon,+bf16,+dotprod", 4, ["bfdot", "sdot"]),
        ("x86_64-linux-gnu", "+avx2,+fma", 8, ["vpmaddwd"]),
    ],
)
def test_grouped_dots_are_one_instruction(
    triple: str, features: str, width: int, found: list[str]
) -> None:
    machine = Machine.of(triple, "", features)
    words = {"vdpbf16ps", "vpdpbusd", "vpdpwssd", "vpmaddwd", "bfdot", "sdot"}
    text = ""
    for acc, a, b, group in GROUPED:
        kernel = grouped((acc, a, b), group, 4, width)
        text += assembly_text(kernel_module([kernel], machine).text, machine)
    assert {word for word in words if word in text} == set(found)


def test_a_load_is_not_moved_past_a_store() -> None:
    # `a` is loaded, overwritten, and only then used: the product takes the old numbers.
    f32 = BY_NAME["f32"]
    b = KernelBuilder("dot", ())
    a = b.param("a", f32, 4, "inout")
    out = b.param("out", f32, 4, "out")
    zero = b.index(0)
    left = b.load(a, zero, (2, 2), (2, 1))
    b.store(a, zero, b.constant(f32, 100.0, (4,)), (1,))
    one = b.constant(f32, 1.0, (2, 2))
    b.store(out, zero, b.dot(b.constant(f32, 0.0, (2, 2)), left, one), (2, 1))
    given = [np.array([1, 2, 3, 4], np.float32), np.zeros(4, np.float32)]
    made = check_all([b.finish()], [given])[0]
    assert made[1].tolist() == [3, 3, 7, 7]


def test_a_product_in_a_loop_keeps_its_sum_in_registers() -> None:
    f32 = BY_NAME["f32"]
    b = KernelBuilder("gemm", ())
    a = b.param("a", f32, 6 * 50, "in")
    other = b.param("b", f32, 50 * 32, "in")
    out = b.param("out", f32, 6 * 32, "out")

    def body(k: Value, acc: Value) -> list[Value]:
        left = b.load(a, k, (6, 2), (50, 1))
        return [
            b.dot(acc, left, b.load(other, b.binary("multiply", k, b.index(32)), (2, 32), (32, 1)))
        ]

    (acc,) = b.for_(0, 50, 2, [b.constant(f32, 0.0, (6, 32))], body)
    b.store(out, b.index(0), acc, (32, 1))
    kernel = b.finish()
    given = [tame(f32, 300, 1), tame(f32, 1600, 2), np.zeros(192, np.float32)]
    check_all([kernel], [given], "host", [1e-5])
    text = lower_kernel(kernel, machines()["host"])
    assert text.count("phi <32 x float>") == 6
    assert "alloca" not in text


def three_registers_wide(t: DType, wide: int) -> Kernel:
    """Products of 8 rows summed up in a loop, then three times that."""
    b = KernelBuilder(f"loop_{t}", ())
    a, other = b.param("a", t, 8 * 6, "in"), b.param("b", t, 6 * wide, "in")
    out = b.param("out", t, 8 * wide, "inout")

    def body(k: Value, acc: Value) -> list[Value]:
        at = b.binary("multiply", k, b.index(wide))
        right = b.load(other, at, (1, wide), (wide, 1))
        return [b.dot(acc, b.load(a, k, (8, 1), (6, 1)), right)]

    first = b.load(out, b.index(0), (8, wide), (wide, 1))
    (acc,) = b.for_(0, 6, 1, [first], body)
    twice = b.binary("multiply", acc, b.constant(t, 2, (8, wide)))
    b.store(out, b.index(0), b.binary("add", twice, acc), (wide, 1))
    return b.finish()


def test_rows_of_three_registers_are_not_widened_to_four() -> None:
    # LLVM would compute 48 lanes as 64 and spill the sums of 8 rows: 20 times slower.
    machine = machines()["host"]
    wide = 3 * machine.lanes(32)
    kernels = [three_registers_wide(BY_NAME[name], wide) for name in ("f32", "s32", "c64")]
    given = [[tame(p.value.dtype, p.size, 5) for p in k.params] for k in kernels]
    check_all(kernels, given, "host", [1e-5, 0.0, 1e-5])
    assert f"phi <{wide} x" not in lower_kernel(kernels[0], machine)
