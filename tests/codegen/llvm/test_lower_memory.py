"""Loads, stores, gathers, scatters and rearranged tiles as machine code against numpy."""

from __future__ import annotations

import ctypes
import mmap
import re

import numpy as np
import pytest

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.lower import lower_kernel
from hloom.codegen.llvm.machine import Machine, assembly_text
from hloom.codegen.llvm.module import KernelOptions, kernel_module
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import PRED, S32, S64, Kernel
from hloom.types.dtype import BY_NAME, DType
from tests.codegen.llvm.lowering import Array, Native, check, check_all, drawn, machines

F32 = BY_NAME["f32"]
SOME = ["pred", "s4", "u8", "s16", "s32", "u64", "f64", "f32", "bf16", "c64", "c128"]


def span(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """The offset of the first element so that all are at 0 or above, and how many there are."""
    ends = [(n - 1) * s for n, s in zip(shape, strides)]
    least = sum(min(0, x) for x in ends)
    return -least, sum(max(0, x) for x in ends) - least + 1


def copies(
    t: DType, shape: tuple[int, ...], strides: tuple[int, ...], masked: bool
) -> list[Kernel]:
    """A kernel that loads with these strides, and one that stores with them."""
    first, size = span(shape, strides)
    count = int(np.prod(shape, dtype=int))
    dense = tuple(int(np.prod(shape[k + 1 :], dtype=int)) for k in range(len(shape)))
    made = []
    for loads in (True, False):
        b = KernelBuilder(f"{'load' if loads else 'store'}_{shape}_{strides}_{masked}", ())
        x = b.param("x", t, size if loads else count, "in")
        m = b.param("m", PRED, count, "in") if masked else None
        out = b.param("out", t, count if loads else size, "inout")
        mask = b.load(m, b.index(0), shape, dense) if m else None
        there, here = (strides, dense) if loads else (dense, strides)
        at, to = (b.index(first if flag else 0) for flag in (loads, not loads))
        if loads and mask:
            other = b.load(out, b.index(0), shape, dense)
            tile = b.load(x, at, shape, there, mask, other)
            b.store(out, to, tile, here)
        else:
            b.store(out, to, b.load(x, at, shape, there), here, mask)
        made.append(b.finish())
    return made


def arguments(kernel: Kernel) -> list[Array]:
    return [drawn(p.value.dtype, p.size, k) for k, p in enumerate(kernel.params)]


LAYOUTS = [
    ((2, 48), (1, 2)),
    ((4, 37), (1, 4)),
    ((3, 2, 8), (40, 1, 2)),
    ((3, 4, 16), (64, 1, 4)),
    ((), ()),
    ((1,), (5,)),
    ((37,), (1,)),
    ((16,), (-1,)),
    ((16,), (2,)),
    ((9,), (3,)),
    ((32,), (2,)),
    ((16,), (3,)),
    ((8,), (4,)),
    ((37,), (-2,)),
    ((16,), (-4,)),
    ((5,), (4,)),
    ((7,), (11,)),
    ((3, 16), (20, 1)),
    ((3, 1), (7, 1)),
    ((2, 3, 5), (40, 1, 3)),
    ((2, 8, 16), (300, 1, 9)),
    ((16, 16), (1, 17)),
    ((5, 16), (1, 5)),
    ((7, 8), (1, 7)),
    ((12, 4), (1, 12)),
    ((5, 6), (1, -8)),
]


@pytest.mark.parametrize("machine", machines())
@pytest.mark.parametrize("masked", [False, True])
def test_strides(masked: bool, machine: str) -> None:
    types = [BY_NAME[n] for n in SOME]
    kernels = []
    for number, (shape, strides) in enumerate(LAYOUTS):
        chosen = types[number % 3 :: 3 if machine == "host" else 6]
        for t in chosen:
            kernels += copies(t, shape, strides, masked)
    check_all(kernels, [arguments(k) for k in kernels], machine)


def test_a_stride_of_zero_is_one_element() -> None:
    for t in (F32, BY_NAME["c64"], PRED):
        kernel = copies(t, (4, 9), (1, 0), False)[0]
        check(kernel, arguments(kernel))


def test_nothing_outside_of_a_strided_row_is_read() -> None:
    # The row ends with the last element before a page that may not be read.
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(start + page), page, 0) == 0
    words = np.frombuffer(memory, np.float32, page // 4)
    for stride in (2, 3, 4):
        size = 15 * stride + 1
        kernel = copies(F32, (16,), (stride,), False)[0]
        x = words[-size:]
        out = np.zeros(16, np.float32)
        Native([kernel], machines()["host"]).run(0, [x, out], 0, 1)
        np.testing.assert_array_equal(out, x[::stride])
        kernel = copies(F32, (16,), (stride,), True)[0]
        mask = np.arange(16) % 5 != 1
        out = np.full(16, 7, np.float32)
        Native([kernel], machines()["host"]).run(0, [x, mask, out], 0, 1)
        np.testing.assert_array_equal(out, np.where(mask, x[::stride], 7))
    assert libc.mprotect(ctypes.c_void_p(start + page), page, 3) == 0


@pytest.mark.parametrize("machine", machines())
@pytest.mark.parametrize("masked", [False, True])
def test_gather_and_scatter(masked: bool, machine: str) -> None:
    kernels = []
    for number, name in enumerate(SOME):
        t, index = BY_NAME[name], (S32, S64)[number % 2]
        for shape in ((), (16,), (3, 5)):
            count = int(np.prod(shape, dtype=int))
            b = KernelBuilder(f"gather_{t}_{shape}", ())
            x = b.param("x", t, 50, "in")
            at = b.param("at", index, count, "in")
            mask_buffer = b.param("m", PRED, count, "in")
            to = b.param("to", t, count, "inout")
            far = b.param("far", t, 50, "inout")
            dense = tuple(int(np.prod(shape[k + 1 :], dtype=int)) for k in range(len(shape)))
            zero = b.index(0)
            offsets = b.load(at, zero, shape, dense)
            mask = b.load(mask_buffer, zero, shape, dense) if masked else None
            other = b.load(to, zero, shape, dense) if masked else None
            found = b.gather(x, offsets, mask, other)
            b.store(to, zero, found, dense)
            b.scatter(far, offsets, found, mask)
            kernels.append(b.finish())
    given = []
    for kernel in kernels:
        arrays = arguments(kernel)
        places = np.random.default_rng(1).integers(0, 50, arrays[1].size)
        arrays[1] = places.astype(arrays[1].dtype)
        given.append(arrays)
    check_all(kernels, given, machine)


def test_masked_offsets_may_be_anywhere() -> None:
    b = KernelBuilder("gather", ())
    x, at = b.param("x", F32, 8, "in"), b.param("at", S64, 8, "in")
    out = b.param("out", F32, 8, "inout")
    offsets = b.load(at, b.index(0), (8,), (1,))
    inside = b.compare("LT", offsets, b.constant(S64, 8, (8,)))
    found = b.gather(x, offsets, inside, b.constant(F32, -1.0, (8,)))
    b.store(out, b.index(0), found, (1,))
    places = np.array([0, 1 << 60, 7, 1 << 40, 3, 3, 1 << 50, 2])
    made = check(b.finish(), [np.arange(8, dtype=np.float32), places, np.zeros(8, np.float32)])
    assert made[2].tolist() == [0, -1, 7, -1, 3, 3, -1, 2]


@pytest.mark.parametrize("name", SOME)
def test_rearranged_tiles(name: str) -> None:
    t = BY_NAME[name]
    kernels = []

    def add(what: str, shape: tuple[int, ...], change: object) -> None:
        b = KernelBuilder(f"{what}_{t}_{shape}", ())
        count = int(np.prod(shape, dtype=int))
        x, out = b.param("x", t, count, "in"), b.param("out", t, 4000, "inout")
        flat = b.load(x, b.index(0), (count,), (1,))
        tile = change(b, b.reshape(flat, shape))  # type: ignore[operator]
        total = int(np.prod(tile.shape, dtype=int))
        b.store(out, b.index(0), b.reshape(tile, (total,)), (1,))
        kernels.append(b.finish())

    for order in ((1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0)):
        add(f"transpose{order}", (3, 4, 5), lambda b, x, o=order: b.transpose(x, o))
    for shape in ((16, 16), (8, 8), (4, 16), (37, 5), (5, 1), (1, 9), (18, 12)):
        add("turn", shape, lambda b, x: b.transpose(x, (1, 0)))
    add("reshape", (4, 6), lambda b, x: b.reshape(x, (3, 8)))
    add("reshape", (4, 6), lambda b, x: b.reshape(x, (2, 2, 3, 2)))
    add("stretch", (3, 1, 4), lambda b, x: b.broadcast(x, (2, 3, 5, 4)))
    add("stretch", (3, 1), lambda b, x: b.broadcast(x, (3, 7)))
    add("stretch", (), lambda b, x: b.broadcast(x, (2, 7)))
    for axis in range(3):
        add(f"slice{axis}", (3, 4, 5), lambda b, x, a=axis: b.slice(x, a, 1, 2))
        add(f"join{axis}", (3, 4, 5), lambda b, x, a=axis: b.concatenate([x, x, x], a))
    check_all(kernels, [arguments(k) for k in kernels])


@pytest.mark.parametrize(
    "name", ["s4", "u2", "s8", "s32", "u64", "f32", "f64", "bf16", "f8e4m3fn", "c64"]
)
def test_constants_and_iota(name: str) -> None:
    t = BY_NAME[name]
    b = KernelBuilder(f"numbers_{t}", ())
    out = b.param("out", t, 60, "out")
    number = 1.3 if t.is_floating else 1.5 - 2.25j if t.is_complex else 1
    b.store(out, b.index(0), b.constant(t, number, (2, 10)), (10, 1))
    for axis in range(2):
        b.store(out, b.index(20 + 20 * axis), b.iota(t, (2, 10), axis), (10, 1))
    kernel = b.finish()
    kernel.excess_precision = False
    check(kernel, [np.zeros(60, t.numpy)])


def test_scratch_memory() -> None:
    b = KernelBuilder("scratch", (4,))
    x, out = b.param("x", F32, 64, "in"), b.param("out", F32, 64, "out")
    at = b.binary("multiply", b.grid_indices[0], b.index(16))
    scratch = b.alloc(F32, 16)
    b.store(scratch, b.index(0), b.load(x, at, (16,), (1,)), (1,))
    b.store(out, at, b.load(scratch, b.index(15), (16,), (-1,)), (1,))
    check(b.finish(), [np.arange(64, dtype=np.float32), np.zeros(64, np.float32)])


def test_too_much_scratch_memory_is_refused() -> None:
    b = KernelBuilder("scratch", ())
    for _ in range(2):
        b.alloc(F32, 150_000)
    with pytest.raises(HloError, match=r"1200000 bytes of stack.*\n.*use smaller tiles") as caught:
        lower_kernel(b.finish(), machines()["host"])
    assert caught.value.rule == "llvm-lower"


@pytest.mark.parametrize(
    "grid", [(), (7,), (1, 7), (3, 1, 4), (2, 3, 5), (3, 2, 1, 4), (2, 3, 2, 3)]
)
def test_every_part_of_a_grid(grid: tuple[int, ...]) -> None:
    b = KernelBuilder("steps", grid)
    steps = int(np.prod(grid, dtype=int))
    out = b.param("out", S64, steps * max(1, len(grid)), "inout")
    at = b.index(0)
    for index, extent in zip(b.grid_indices, grid):
        at = b.binary("add", b.binary("multiply", at, b.index(extent)), index)
    at = b.binary("multiply", at, b.index(max(1, len(grid))))
    for axis, index in enumerate(b.grid_indices):
        place = b.binary("add", at, b.index(axis))
        b.store(out, place, b.binary("add", b.load(out, place), b.binary("add", index, b.index(1))))
    code = Native([b.finish()], machines()["host"])
    expected = np.array(list(np.ndindex(*grid)), np.int64).reshape(steps, -1) + 1
    for begin in range(steps + 1):
        for end in range(begin, steps + 1):
            made = np.zeros((steps, max(1, len(grid))), np.int64)
            code.run(0, [made], begin, end)
            if grid:
                np.testing.assert_array_equal(made[begin:end], expected[begin:end])
                assert not made[:begin].any() and not made[end:].any()


@pytest.mark.parametrize("machine", machines())
@pytest.mark.parametrize("name", ["f32", "s32", "f64", "s16", "u8", "bf16", "pred", "c64"])
def test_squares_of_every_size_are_turned(name: str, machine: str) -> None:
    """Between stages LLVM is kept from joining shuffles: the bits stay, NaNs' too."""
    t, kernels = BY_NAME[name], []
    for n in (2, 4, 8, 16, 24, 32):
        b = KernelBuilder(f"turn{n}")
        x, out = b.param("x", t, n * n, "in"), b.param("out", t, n * n, "out")
        tile = b.load(x, b.index(0), (n, n), (n, 1))
        b.store(out, b.index(0), b.transpose(tile, (1, 0)), (n, 1))
        kernels.append(b.finish())
    check_all(kernels, [arguments(k) for k in kernels], machine)
    text = kernel_module(kernels[3:4], machines()[machine]).text
    is_wide = machine == "host" and machines()[machine].vector_bytes == 64
    if name in ("f32", "s32") and is_wide:
        assert "@llvm.arithmetic.fence.v16f32" in text


@pytest.mark.parametrize("machine", machines())
def test_a_mask_that_lets_nothing_through(machine: str) -> None:
    """What stands there instead is a row known by its parts, where no vectors have 7 lanes."""
    kernels = []
    for name in SOME:
        for allowed in (False, True):
            b = KernelBuilder(f"masked_{name}_{allowed}", (2,))
            [step] = b.grid_indices
            at = b.binary("multiply", step, b.index(7))
            x, y = b.param("x", BY_NAME[name], 14, "in"), b.param("y", BY_NAME[name], 16, "in")
            out = b.param("out", BY_NAME[name], 14, "out")
            other = b.load(y, at, (1, 7), (8, 1))
            mask = b.constant(PRED, allowed, (1, 7))
            b.store(out, at, b.load(x, at, (1, 7), (7, 1), mask, other), (7, 1))
            kernels.append(b.finish())
    check_all(kernels, [arguments(k) for k in kernels], machine)


@pytest.mark.parametrize("machine", ["avx2", "host"])
@pytest.mark.parametrize("few", [1, 2, 3, 7])
@pytest.mark.parametrize("stride", [2, 3, 4])
def test_a_mask_of_few_lanes_reads_no_more_than_those(stride: int, few: int, machine: str) -> None:
    """A masked load and a shuffle became one instruction, which read whole vectors: past the end of
    `s32[12]`; also where the mask lets through none of what the vector holds."""
    b = KernelBuilder(f"lanes_{stride}_{few}", (100,))
    p, r = b.param("p", S32, 4 * stride * few, "in"), b.param("r", S32, 1600, "out")
    (step,) = b.kernel.body.arguments
    lanes = b.compare("LT", b.iota(S32, (16,), 0), b.constant(S32, few, (16,)))
    early = b.broadcast(b.compare("LT", step, b.index(4)), (16,))
    at = b.binary("multiply", step, b.index(stride * few))
    x = b.load(p, at, (16,), (stride,), b.binary("and", early, lanes), b.constant(S32, 0, (16,)))
    b.store(r, b.binary("multiply", step, b.index(16)), x, (1,))
    b.finish()
    text = lower_kernel(b.kernel, machines()[machine])
    declared = "declare <16 x i32> @llvm.masked.load.v16i32.p0(ptr, <16 x i1>, <16 x i32>)\n"
    code = assembly_text(declared + text, machines()[machine])
    assert not re.search(r"v(perm|pblend|pand|punpck|pshuf)\S+\s+[^,]*\(%r(?!ip)", code)


@pytest.mark.parametrize("machine", machines())
@pytest.mark.parametrize("name", ["u8", "bf16", "f32", "c64"])
def test_long_rows_are_stored_in_order(name: str, machine: str) -> None:
    """LLVM takes a vector of several registers apart and writes its parts in any order; each half
    of a line was a write of its own where rows straddle lines."""
    of, width = BY_NAME[name], machines()[machine].vector_bytes
    lanes = 4 * width // of.size_bytes
    kernel = copies(of, (lanes,), (1,), False)[0]
    check(kernel, arguments(kernel), machine)
    text = lower_kernel(kernel, machines()[machine])
    starts = dict(re.findall(r"(%v\d+) = getelementptr i8, ptr %v\d+, i64 (\d+)", text))
    stores = re.findall(r"store <(\d+) x (\w+)> %v\d+, ptr (%v\d+)", text)
    assert [int(starts.get(place, 0)) for _, _, place in stores] == [k * width for k in range(4)]


@pytest.mark.parametrize("machine", machines())
@pytest.mark.parametrize("name", ["u8", "s16", "f32", "pred"])
def test_short_rows_are_read_as_one(name: str, machine: str) -> None:
    """Seven rows of which elements take turns: whole registers are read, not pieces of each turn,
    whose last element is one of its own."""
    lanes = machines()[machine].vector_bytes // 4
    kernel = copies(BY_NAME[name], (7, lanes), (1, 7), False)[0]
    text = lower_kernel(kernel, machines()[machine])
    registers = 7 * lanes * BY_NAME[name].size_bytes // machines()[machine].vector_bytes
    # Rows of no power of two are read in powers of two.
    assert len(re.findall("= load <", text)) <= registers + 4


def rows_of_forty() -> Kernel:
    """Copies rows in a loop over their parts: what is added to an address moves or stays."""
    b = KernelBuilder("rows", (3,))
    x, out = b.param("x", F32, 130, "in"), b.param("out", F32, 130, "inout")
    start = b.binary("multiply", b.kernel.body.arguments[0], b.index(40))

    def body(i):
        at = b.binary("add", b.binary("add", i, b.index(5)), start)
        b.store(out, at, b.load(x, at, (8,), (1,)), (1,))
        return ()

    b.for_(0, 40, 8, [], body)
    return b.finish()


@pytest.mark.parametrize("is_split", [False, True])
def test_what_stays_of_an_address_is_computed_before_the_loop(is_split: bool):
    kernel = rows_of_forty()
    option = KernelOptions(split_addresses=is_split)
    text = kernel_module([kernel], Machine.host("SSE4_2"), [option]).text
    outside, loop = text.rsplit("\nloop", 1)
    [(sum_, moved)] = re.findall(r"(%v\d+) = getelementptr i8, ptr (%v\d+), i64 %v\d+\n", loop)[:1]
    if is_split:
        assert f"{sum_}, i64 20\n" in loop  # what is constant comes last
    [address] = re.findall(rf"{moved} = (\w+).*\n", outside)
    assert address == ("getelementptr" if is_split else "load")
    check(kernel, arguments(kernel))
