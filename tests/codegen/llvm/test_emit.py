"""The builder: text of constants, numbering of values, hoisting, loops, lanes, memory."""

import math

import numpy as np
import pytest

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.emit import Emit, module_text
from hloom.codegen.llvm.values import constant, constant_vector, float_bits
from tests.codegen.llvm.machine_code import HOST, MACHINES, NUMPY, Code, run
from tests.processor_time import at_most

FLAT = [HOST, MACHINES["sse2"]]


def emitter(*args):
    return Emit("f", HOST, [(kind, f"a{k}") for k, kind in enumerate(args)])


@pytest.mark.parametrize(
    ("kind", "value", "lanes", "text"),
    [
        ("f32", 1.0, 1, "0x3FF0000000000000"),
        ("f32", 0.1, 1, "0x3FB99999A0000000"),
        ("f32", 1e300, 1, "0x7FF0000000000000"),
        ("f32", -1e-50, 1, "0x8000000000000000"),
        ("f64", 0.1, 4, "splat (double 0x3FB999999999999A)"),
        ("f16", 1e6, 1, "0xH7C00"),
        ("f16", 1.5, 1, "0xH3E00"),
        ("bf16", 1 + 2**-8, 1, "0xR3F80"),
        ("bf16", 1 + 3 * 2**-8, 1, "0xR3F82"),
        ("bf16", math.nan, 1, "0xR7FC0"),
        ("i8", 255, 2, "splat (i8 -1)"),
        ("i64", -(2**63), 1, "-9223372036854775808"),
        ("i1", 1, 8, "splat (i1 true)"),
        ("ptr", 0, 1, "null"),
    ],
)
def test_constants_are_exact(kind, value, lanes, text):
    assert constant(kind, value, lanes).name == text


def test_float_bits_round_as_numpy():
    values = np.random.default_rng(0).integers(0, 2**64, 500, dtype=np.uint64).view(np.float64)
    values = np.concatenate([values, np.random.default_rng(1).standard_normal(500)])
    with np.errstate(all="ignore"):
        for kind, narrow, word in (("f32", np.float32, np.uint32), ("f16", np.float16, np.uint16)):
            want = values.astype(narrow).view(word)
            got = np.array([float_bits(kind, v) for v in values.tolist()], word)
            assert np.array_equal(got[~np.isnan(values)], want[~np.isnan(values)])


def test_vectors_of_constants():
    assert constant_vector("i32", [1, -2]).name == "<i32 1, i32 -2>"
    assert constant_vector("f32", [2.0]).lanes == 1
    with pytest.raises(HloError, match="no LLVM type"):
        constant("f80", 1.0)


def test_equal_instructions_are_one():
    e = emitter("f32", "f32")
    a, b = e.args
    assert e.fadd(a, b) is e.fadd(b, a)
    assert e.fsub(a, b) is not e.fsub(b, a)
    assert len(e.lines) == 3


def test_integer_constants_are_folded():
    e = emitter("i64")
    (a,) = e.args
    c = e.const
    assert e.add(c("i64", 3), c("i64", 4)).value == 7
    assert e.mul(c("i32", 2**31), c("i32", 2)).value == 0
    assert e.add(a, c("i64", 0)) is a and e.mul(c("i64", 1), a) is a
    assert e.mul(a, c("i64", 0)).value == 0 and e.sub(a, c("i64", 0)) is a
    assert e.zext(c("i8", -1), "i64").value == 255 and e.sext(c("i1", 1), "i8").value == -1
    assert e.lines == []


def test_branches_forget_their_values():
    e = emitter("i1", "f32")
    with e.branch(e.args[0]):
        inside = e.fneg(e.args[1])
    assert e.fneg(e.args[1]) is not inside
    assert e.depth == 0


def test_blocks_forget_unless_dominated():
    e = emitter("f32")
    first = e.fneg(e.args[0])
    e.br("next")
    e.block("next", dominated=True)
    assert e.fneg(e.args[0]) is first
    e.br("other")
    e.block("other")
    assert e.fneg(e.args[0]) is not first


def test_invariants_leave_loops():
    e = emitter("ptr", "f32")
    p, x = e.args
    zero, one, ten = (e.const("i64", k) for k in (0, 1, 10))
    with e.loop(zero, ten, one) as outer, e.loop(zero, ten, one) as inner:
        square = e.fmul(x, x)
        row = e.mul(outer.index, e.const("i64", 40))
        at = e.add(row, e.mul(inner.index, e.const("i64", 4)))
        e.store(square, e.gep(p, at))
    e.ret()
    assert (square.depth, row.depth, at.depth) == (0, 1, 2)
    text = e.body_text()
    assert text.index("fmul") < text.index("loop1:") < text.index("mul i64") < text.index("loop6:")
    x = np.zeros((10, 10), np.float32)
    # A float argument cannot be passed as an address: read it from memory instead.
    e = Emit("f", HOST, [("ptr", "p"), ("ptr", "q")])
    factor = e.load(e.args[1], "f32")
    with e.loop(zero, ten, one) as outer, e.loop(zero, ten, one) as inner:
        at = e.add(e.mul(outer.index, e.const("i64", 40)), e.mul(inner.index, e.const("i64", 4)))
        value = e.sitofp(e.add(outer.index, inner.index), "f32")
        e.store(e.fmul(value, e.fmul(factor, factor)), e.gep(e.args[0], at))
    e.ret()
    three = np.array([3.0], np.float32)
    Code(module_text([e], HOST)).function("f", 2)(x.ctypes.data, three.ctypes.data)
    assert np.array_equal(x, 9.0 * np.add.outer(np.arange(10), np.arange(10)))


@pytest.mark.parametrize("nonempty", [False, True])
@pytest.mark.parametrize("count", [0, 1, 7])
def test_loops_carry_values(count, nonempty):
    e = Emit("f", HOST, [("ptr", "p"), ("i64", "n")])
    start = e.load(e.args[0], "i64")
    zero, one = e.const("i64", 0), e.const("i64", 1)
    with e.loop(zero, e.args[1], one, [start, one], nonempty=nonempty) as loop:
        total, factor = loop.carried
        loop.next([e.add(total, e.mul(factor, loop.index)), e.mul(factor, e.const("i64", 3))])
    e.store(e.add(*loop.results), e.args[0])
    e.ret()
    data = np.array([5], np.int64)
    Code(module_text([e], HOST)).function("f", 2)(data.ctypes.data, count)
    total, factor = 5, 1
    for k in range(max(count, int(nonempty))):
        total, factor = total + factor * k, factor * 3
    assert data[0] == total + factor


def test_a_loop_refuses_other_types():
    e = emitter()
    zero = e.const("i64", 0)
    with pytest.raises(HloError, match="a loop carries"), e.loop(zero, zero, zero, [zero]) as it:
        it.next([e.const("f32", 1.0)])


def test_flags_let_multiply_and_add_fuse():
    e = emitter("f32", "f32")
    a, b = e.args
    plain = e.fadd(e.fmul(a, b), b)
    e.flags = "contract "
    assert e.fadd(e.fmul(a, b), b) is not plain
    assert "fmul contract float" in e.body_text() and "fadd contract" in e.body_text()


@pytest.mark.parametrize("machine", FLAT, ids=["host", "sse2"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_rounding_on_every_machine(machine, kind):
    x = np.concatenate(
        [
            np.arange(-9, 9, 0.25),
            [
                0.49999997,
                -0.49999997,
                0.5 - 2**-54,
                2.0**23 + 0.5,
                2.0**22 + 0.5,
                2.0**52 + 1,
                1e30,
            ],
            [-0.0, np.inf, -np.inf, np.nan, 8388607.5, -4503599627370495.5, 1e-40],
        ]
    ).astype(NUMPY[kind])
    body = lambda e, v: (e.ffloor(v), e.fceil(v), e.ftrunc(v), e.fround_even(v))  # noqa: E731
    made = run(body, [x], [kind], [kind] * 4, 4, machine)
    for got, f in zip(made, (np.floor, np.ceil, np.trunc, np.rint)):
        assert np.array_equal(got, f(x), equal_nan=True)
        known = ~np.isnan(x)
        assert np.array_equal(np.signbit(got[known]), np.signbit(f(x)[known]))


def test_minimum_and_maximum():
    x = np.array([0.0, -0.0, 1, np.nan, 2, -np.inf], np.float32)
    a, b = (v.ravel().copy() for v in np.meshgrid(x, x))
    body = lambda e, v, w: (e.fminimum(v, w), e.fmaximum(v, w), e.fmin_raw(v, w))  # noqa: E731
    low, high, raw = run(body, [a, b], ["f32"] * 2, ["f32"] * 3, 4)
    assert np.array_equal(low, np.minimum(a, b), equal_nan=True)
    assert np.array_equal(high, np.maximum(a, b), equal_nan=True)
    assert np.array_equal(raw, np.where(a < b, a, b), equal_nan=True)
    assert all(np.signbit(low[(a == 0) & (b == 0) & (np.signbit(a) | np.signbit(b))]))


def test_lanes_are_cut_joined_and_moved():
    def body(e, x):
        parts = [e.slice(x, 0, 3), e.slice(x, 3, 4), e.extract(x, 7)]
        whole = e.concat(parts)
        back = e.shuffle(x, None, [7, 6, 5, 4, 3, 2, 1, 0])
        inserted = e.insert(x, e.extract(x, e.const("i64", 5)), 0)
        return whole, back, inserted, e.splat(e.extract(x, 2), 8)

    x = np.arange(1, 17, dtype=np.float32)
    whole, back, inserted, splat = run(body, [x], ["f32"], ["f32"] * 4, 8)
    assert np.array_equal(whole, x)
    assert np.array_equal(back, x.reshape(2, 8)[:, ::-1].ravel())
    assert inserted.tolist()[:3] == [6, 2, 3] and splat.tolist() == [3] * 8 + [11] * 8


@pytest.mark.parametrize("lanes", [1, 5, 8])
def test_reductions(lanes):
    def body(e, x, k):
        kinds = ("fadd", "fmul", "fmaximum", "fmin")
        floats = [e.splat(e.reduce(word, x), lanes) for word in kinds]
        return *floats, *(e.splat(e.reduce(word, k), lanes) for word in ("add", "smax", "xor"))

    x, k = np.arange(1, lanes + 1, dtype=np.float64) / 4, np.arange(3, lanes + 3, dtype=np.int32)
    made = run(body, [x, k], ["f64", "i32"], ["f64"] * 4 + ["i32"] * 3, lanes)
    want = [x.sum(), x.prod(), x.max(), x.min(), k.sum(), k.max(), np.bitwise_xor.reduce(k)]
    assert [v[0] for v in made] == want


@pytest.mark.parametrize("machine", FLAT, ids=["host", "sse2"])
def test_masks_gathers_and_scatters(machine):
    e = Emit("f", machine, [("ptr", "p"), ("ptr", "q")])
    p, q = e.args
    lanes = 8
    mask = e.icmp("slt", e.iota("i32", lanes), e.const("i32", 5, lanes))
    x = e.masked_load(p, mask, e.const("f32", -1.0, lanes))
    e.masked_store(x, q, mask)
    where = e.gep(p, e.mul(e.iota("i64", lanes), e.const("i64", 8, lanes)))
    picked = e.gather(where, mask, x)
    e.store(picked, e.gep(q, 32))
    e.scatter(x, e.gep(q, e.vector("i64", [92, 88, 84, 80, 76, 72, 68, 64])), mask)
    e.ret()
    data, out = np.arange(16, dtype=np.float32), np.full(24, 99, np.float32)
    Code(module_text([e], machine), machine).function("f", 2)(data.ctypes.data, out.ctypes.data)
    assert out.tolist()[:8] == [0, 1, 2, 3, 4, 99, 99, 99]
    assert out.tolist()[8:16] == [0, 2, 4, 6, 8, -1, -1, -1]
    assert out.tolist()[16:] == [99, 99, 99, 4, 3, 2, 1, 0]


def test_what_a_mask_leaves_out_is_not_chosen_twice():
    e = emitter("ptr", "i32")
    mask = e.icmp("slt", e.iota("i32", 8), e.splat(e.args[1], 8))
    zero, one = e.const("f32", 0.0, 8), e.const("f32", 1.0, 8)
    x = e.masked_load(e.args[0], mask, zero)
    assert e.select(mask, x, zero) is x
    y = e.select(mask, x, one)
    assert y is not x
    assert e.select(mask, y, one) is y
    assert e.select(e.icmp("sgt", e.iota("i32", 8), e.splat(e.args[1], 8)), x, zero) is not x


def test_stack_and_bits():
    e = Emit("f", HOST, [("ptr", "p")])
    x = e.load(e.args[0], "f32", 4)
    room = e.alloca(16)
    e.store(e.bitcast(x, "i64"), room)
    y = e.load(room, "i32", 4)
    e.store(e.add(e.popcnt(y), e.clz(y)), e.args[0])
    e.ret()
    data = np.array([1, 0, 0xFFFFFFFF, 0x00F0], np.uint32)
    Code(module_text([e], HOST)).function("f", 1)(data.ctypes.data)
    assert data.tolist() == [1 + 31, 32, 32, 4 + 24]


def test_building_is_fast():
    """Two thousand instructions, no two alike, in well under a tenth of a second."""
    e = emitter("f32")
    with at_most(0.2):
        x = e.splat(e.args[0], 16)
        for k in range(1000):
            x = e.fadd(e.fmul(x, x), e.like(x, float(k)))
        e.ret()
        e.text()
