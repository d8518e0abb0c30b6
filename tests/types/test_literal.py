"""Literals: making, comparing, bytes, predicates, made-up values, packing and bitcasts."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hloom.base.diagnostics import UsageError
from hloom.types.dtype import (
    ARRAY_TYPES,
    BF16,
    C64,
    C128,
    F4E2M1FN,
    F6E2M3FN,
    F16,
    F32,
    F64,
    PRED,
    S1,
    S4,
    S8,
    S32,
    S64,
    U1,
    U2,
    U4,
    U8,
    U16,
    U32,
)
from hloom.types.literal import Literal
from hloom.types.packing import bitcast_array, bits_of, pack, packed_size, same_bits, unpack
from hloom.types.shape import TOKEN_SHAPE, shape, tuple_shape
from hloom.types.text import shape_from_text
from tests.types.random_literal import random_literal


def test_types_of_plain_values():
    assert Literal.of(True).dtype is PRED and Literal.of(3).dtype is S32
    assert Literal.of(2**40).dtype is S64 and Literal.of(0.5).dtype is F32
    assert Literal.of(1j).dtype is C64 and Literal.of([0.5, 1]).shape is shape("f32", (2,))
    assert Literal.of(np.float64(0.5)).dtype is F64 and Literal.of(np.int8([1])).dtype is S8
    assert Literal.of([[1, 2], [3, 4]], "bf16").shape is shape(BF16, (2, 2))
    assert Literal.of(0.1, F16).array == np.float16(0.1)
    assert Literal.of(7, "s32[2,3]").array.tolist() == [[7] * 3] * 2
    assert Literal.of(Literal.of(3), F32) == Literal.of(3.0)


def test_tuples():
    both = Literal.of((np.zeros(2, np.float32), np.int32(3)))
    assert both.shape is tuple_shape([shape("f32", (2,)), shape("s32")]) and both.is_tuple
    assert both == Literal.of(([0, 0], 3), "(f32[2], s32[])")
    assert both == Literal.tuple([Literal.of([0.0, 0.0]), Literal.of(3)])
    assert Literal.of((None, 1), "(token[], s8[])").elements[0].is_token
    assert Literal.token().shape is TOKEN_SHAPE
    with pytest.raises(UsageError):
        Literal.of([1], "(s32[], s32[])")
    with pytest.raises(UsageError):
        _ = both.array


@pytest.mark.parametrize(
    ("value", "which"),
    [
        ("text", None),
        ([[1], [2, 3]], None),
        (object(), None),
        (300, "s8"),
        (-1, "u32"),
        (8, "s4"),
        ([1, 2, 3], "f32[2]"),
        ([[1, 2]], "f32[2]"),
        (1, "f33"),
        (2**70, None),
        (np.array(["a"]), None),
    ],
)
def test_wrong_values(value, which):
    with pytest.raises(UsageError):
        Literal.of(value, which)


def test_literals_do_not_change():
    source = np.zeros(3, np.float32)
    one = Literal.of(source)
    source[0] = 1
    assert one.array[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        one.array[0] = 1
    with pytest.raises(AttributeError):
        one.is_elided = True
    assert pickle.loads(pickle.dumps(one)) == one and copy.deepcopy(one) is one
    assert Literal.owning(source).array is source and not source.flags.writeable
    with pytest.raises(UsageError):
        Literal.owning(np.zeros(3), shape("f32", (3,)))


def test_equality_is_bitwise():
    assert Literal.of(0.0) != Literal.of(-0.0)
    quiet, other = (np.uint32([n]).view(np.float32) for n in (0x7FC00000, 0x7FC00001))
    assert Literal.of(quiet) == Literal.of(quiet.copy()) != Literal.of(other)
    assert Literal.of([1, 2]) != Literal.of([[1, 2]]) and Literal.of(1) != Literal.of(1.0)
    assert hash(Literal.of([1, 2])) == hash(Literal.of([1, 2]))
    assert Literal.of(1) != 1 and Literal.of(1j) == Literal.of(1j)
    transposed = Literal.of([1, 2], shape_from_text("s32[2]{0}"))
    assert transposed == Literal.of([1, 2])
    assert transposed.with_shape(shape("s32", (2,))).shape.layout is None
    with pytest.raises(UsageError):
        transposed.with_shape(shape("s32", (3,)))


@pytest.mark.parametrize("which", ARRAY_TYPES, ids=str)
def test_bytes_of_every_type(which):
    one = random_literal(shape(which, (3, 5)), np.random.default_rng(3))
    data = one.to_bytes()
    assert len(data) == one.shape.size_bytes
    assert Literal.from_bytes(one.shape, data) == one
    loose = one.to_bytes(packed=False)
    assert len(loose) == 15 * which.size_bytes
    assert Literal.from_bytes(one.shape, loose, packed=False) == one
    for wrong in (data + b"\0", data[:-1], b""):
        with pytest.raises(UsageError):
            Literal.from_bytes(one.shape, wrong)


def test_packed_sizes_as_specified():
    assert len(Literal.of(0, "s4[9]").to_bytes()) == 5
    assert len(Literal.of(0, "f4e2m1fn[5]").to_bytes()) == 3
    assert Literal.of([1, -2, 3], S4).to_bytes() == bytes([0xE1, 0x03])
    assert Literal.of([1, 0, 0, 1, 0, 0, 0, 0, 1], U1).to_bytes() == bytes([0b1001, 1])
    assert Literal.of([1, 2, 3, 0, 2], U2).to_bytes() == bytes([0b00111001, 2])
    assert Literal.of([1, -2, 6], F4E2M1FN).to_bytes(packed=False) == bytes([2, 12, 7])


def test_dynamic_sizes():
    one = Literal.owning(np.float32([1, 2]), shape_from_text("f32[<=3]"))
    assert one.sizes == (2,) and one.shape.dims == (3,)
    assert np.frombuffer(one.to_bytes(), np.float32).tolist() == [1, 2, 0]
    for wrong in (np.zeros(4, np.float32), np.zeros((2, 1), np.float32)):
        with pytest.raises(UsageError):
            Literal.owning(wrong, shape_from_text("f32[<=3]"))
    free = Literal.owning(np.zeros(7, np.float32), shape_from_text("f32[?]"))
    assert free.sizes == (7,)


@pytest.mark.parametrize("which", ARRAY_TYPES, ids=str)
def test_elided_literals_make_up_sensible_values(which):
    one, again = (Literal.elided(shape(which, (4, 64))) for _ in range(2))
    assert one == again and hash(one) == hash(again) and one.is_elided
    assert same_bits(one.array, again.array)
    assert one != Literal.owning(one.array.copy(), one.shape)
    values = one.array.astype(np.complex128 if which.is_complex else np.float64)
    assert np.isfinite(values).all() and np.abs(values).max() <= 9 and len(np.unique(values)) > 1
    assert which.is_floating or which.is_complex or which.is_signed_int or values.real.min() >= 0
    assert not one.is_all_equal and not one.is_zero


def test_elided_values_depend_on_the_shape_and_wait():
    huge = Literal.elided(shape("f32", (2**40,)))
    assert huge.is_elided and huge == Literal.elided(huge.shape)  # nothing was allocated
    a, b = Literal.elided(shape("f32", (8,))), Literal.elided(shape("f32", (4, 2)))
    assert a.array.tolist() != b.array.reshape(-1).tolist()
    pair = Literal.elided(shape_from_text("(f32[2], token[])"))
    assert pair.elements[0].is_elided and pair.elements[1].is_token
    assert not pair.elements[1].is_elided and pair == Literal.elided(pair.shape)
    plain = Literal.of(([1, 2], 3), "(s32[2], s32[])")
    laid_out = plain.with_shape(shape_from_text("(s32[2]{0}, s32[])"))
    assert laid_out == plain and laid_out.elements[0].shape.has_layout


def test_predicates():
    assert Literal.of([0.0, -0.0]).is_zero and not Literal.of([0.0, -0.0]).is_all_equal
    assert Literal.of([2, 2]).is_all(2) and not Literal.of([2, 3]).is_all(2)
    assert Literal.of([np.nan, np.nan]).is_all_equal and not Literal.of([np.nan]).is_all(np.nan)
    assert not Literal.of([0.1]).is_all(0.1) and Literal.of([0.1]).is_all(np.float32(0.1))
    assert Literal.of([1.5, 1.5], "f8e5m2").is_all(1.5) and Literal.of([-1], S1).is_all(-1)
    assert Literal.of([2j]).is_all(2j) and Literal.of(True).is_all(1)
    assert not Literal.of(np.zeros(0)).is_zero and not Literal.of(300).is_all(44)
    assert not Literal.of(0, "f8e8m0fnu[2]").is_zero and Literal.of(5).first() == 5
    assert Literal.of([1j, 1j], C128).is_all_equal and not Literal.of([1j, 1], C128).is_all_equal
    for k in range(9):  # whichever element is another, in whatever order they stand
        values = np.ones((3, 3), np.float32)
        values.flat[k] = 2
        assert not Literal.owning(values.T).is_all_equal
    assert not Literal.token().is_zero
    with pytest.raises(UsageError):
        Literal.of(np.zeros(0)).first()


def test_converted():
    assert Literal.of([1.7, -1.7]).converted("s8") == Literal.of([1, -1], S8)
    assert Literal.of([1], "s32[1]{0}").converted("f32").shape.text == "f32[1]{0}"


def test_random_literals():
    random = np.random.default_rng(0)
    for which in ARRAY_TYPES:
        one = random_literal(shape(which, (50,)), random)
        values = one.array.astype(np.complex128)
        assert np.isfinite(values).all() and len(np.unique(values)) > 1
    bounded = random_literal(shape("s32", (1000,)), random, 2, 5).array
    assert set(bounded.tolist()) == {2, 3, 4, 5}
    floats = random_literal(shape("f32", (1000,)), random, -2, -1).array
    assert -2 <= floats.min() < floats.max() <= -1
    nested = random_literal(shape_from_text("(f32[2], (s8[], token[]), ())"), random)
    assert nested.shape.text == "(f32[2], (s8[], token[]), ())"
    assert nested.elements[1].elements[1].is_token
    again = [random_literal(shape("f32", (4,)), np.random.default_rng(1)) for _ in range(2)]
    assert again[0] == again[1]
    for wrong in ("f32[?]", "opaque[]"):
        with pytest.raises(UsageError):
            random_literal(shape_from_text(wrong), random)
    with pytest.raises(UsageError):
        random_literal(shape("u8"), random, 300, 400)


@given(hnp.arrays(np.uint8, st.integers(0, 40)), st.sampled_from([1, 2, 4]))
def test_packing_follows_the_definition(values, bits):
    values &= (1 << bits) - 1
    packed = pack(values, bits)
    number = sum(int(v) << (k * bits) for k, v in enumerate(values))
    assert packed.tobytes() == number.to_bytes(packed_size(values.size, bits), "little")
    assert unpack(packed, bits, values.size).tolist() == values.tolist()


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_packing_of_large_arrays(bits):
    random = np.random.default_rng(bits)
    for size in (1 << 17, (1 << 17) + 1, 300_007):
        bytes_ = random.integers(0, 256, 2 * size).astype(np.uint8)
        for values in (bytes_[:size], bytes_[::2], bytes_[size::-1]):
            low = values & ((1 << bits) - 1)
            ones = (low[:, None] >> np.arange(bits, dtype=np.uint8)) & 1
            want = np.packbits(ones.reshape(-1), bitorder="little")
            np.testing.assert_array_equal(pack(values, bits), want)


def test_packing_refuses():
    with pytest.raises(UsageError):
        pack(np.zeros(2, np.uint8), 6)
    with pytest.raises(UsageError):
        unpack(np.zeros(2, np.uint8), 3, 2)
    with pytest.raises(UsageError):
        unpack(np.zeros(2, np.uint8), 4, 5)


BITCASTS = [
    (F32, U32), (F32, U16), (F32, U8), (F32, S4), (F32, U1), (F64, C64), (C64, U8), (S8, U4),
    (U8, U1), (S4, U2), (U4, U1), (U2, U1), (S4, F4E2M1FN), (U4, S4), (BF16, F16), (C128, F32),
]  # fmt: skip


@settings(max_examples=20)
@given(st.sampled_from(BITCASTS), st.integers(0, 2**32 - 1))
def test_bitcasts_keep_the_bits(pair, seed):
    wide, narrow = pair
    one = random_literal(shape(wide, (3, 2)), np.random.default_rng(seed))
    there = bitcast_array(one.array, wide, narrow)
    ratio = wide.bits // narrow.bits
    assert there.shape == ((3, 2, ratio) if ratio > 1 else (3, 2)) and there.dtype == narrow.numpy
    before, after = (Literal.owning(a.copy()).to_bytes() for a in (one.array, there))
    assert before == after
    assert same_bits(bitcast_array(there, narrow, wide), one.array)


def test_bitcasts():
    assert bitcast_array(np.float32([1.0]), F32, U32).tolist() == [0x3F800000]
    assert bitcast_array(np.uint32(0x04030201), U32, U8).tolist() == [1, 2, 3, 4]
    assert bitcast_array(np.uint8([[0, 2]]), U8, PRED).tolist() == [[False, True]]
    assert bits_of(np.float32([[-0.0]])).tolist() == [0x80000000]
    assert bitcast_array(np.zeros((0, 2), np.uint16), U16, U32).shape == (0,)
    for array, source, target in (
        (np.zeros(3, np.uint8), U8, U16),
        (np.zeros((), np.uint8), U8, U16),
        (np.zeros(4, np.uint8), U8, F6E2M3FN),
    ):
        with pytest.raises(UsageError):
            bitcast_array(array, source, target)


def test_repr_is_short():
    assert repr(Literal.of([1, 2])) == "<Literal s32[2] {1, 2}>"
    assert repr(Literal.of(0, "f32[1000]")) == "<Literal f32[1000] {...}>"
