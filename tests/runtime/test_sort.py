"""hl_sort_keys and hl_sort_compare against numpy's stable sorts, every type and every way in."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from hloom.interp.sort_keys import ascending
from hloom.types.dtype import ARRAY_TYPES, DType
from tests.runtime.native_call import NativeCall, native, pointers, sizes

DESCENDING, ZEROS, NANS = 1, 2, 4
KEY_TYPES = [d for d in ARRAY_TYPES if not d.is_complex and d.size_bytes <= 8]
LESS = ctypes.CFUNCTYPE(ctypes.c_int8, ctypes.POINTER(ctypes.c_void_p))


@pytest.fixture(scope="module", params=[1, 2])
def call(request: pytest.FixtureRequest) -> Any:
    with native(request.param) as opened:
        yield opened


def drawn(dtype: DType, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Random bit patterns of a type: every NaN and both zeros occur in the narrow ones."""
    rng = np.random.default_rng(seed)
    kind = dtype.numpy
    if dtype.is_pred:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.bits < 8:
        return (
            rng.integers(0, 1 << dtype.bits, shape).astype(np.uint8).astype(np.int8).view(kind)
            if dtype.is_floating
            else rng.integers(0, 2, shape).astype(kind)
        )
    bits = rng.integers(0, 256, (*shape, kind.itemsize), dtype=np.uint8)
    x = bits.view(kind)[..., 0].copy()
    if dtype.is_floating and dtype.bits >= 16:
        flat = x.reshape(-1)
        special = np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf], np.float64).astype(kind)
        at = rng.integers(0, max(1, flat.size), min(flat.size, 3 + flat.size // 9))
        flat[at] = special[rng.integers(0, 6, at.size)]
    return x


def sorted_natively(
    call: NativeCall, arrays: list[Any], axis: int, keys: list[tuple[int, int, int]],
    outs: list[Any], shape: tuple[int, ...],
) -> None:  # fmt: skip
    """Calls hl_sort_keys; an array of None is an iota, an out of None is not written."""
    outer = int(np.prod(shape[:axis], dtype=int))
    inner = int(np.prod(shape[axis + 1 :], dtype=int))
    widths = [o.itemsize if a is None else a.itemsize for a, o in zip(arrays, outs)]
    flat = [n for key in keys for n in key]
    call("hl_sort_keys", outer, shape[axis], inner, len(arrays), pointers(arrays), pointers(outs),
         sizes(widths), len(keys), sizes(flat), 1)  # fmt: skip


def order_of(x: np.ndarray, dtype: DType, flags: int, axis: int) -> np.ndarray:
    if flags & ZEROS and dtype.is_floating:
        x = (
            np.where(x.astype(np.float32) == 0, np.zeros((), x.dtype), x)
            if dtype.bits < 64
            else np.where(x == 0, 0.0, x)
        )
    if flags & NANS and dtype.is_floating and dtype.has_nan:
        x = np.where(np.isnan(x), np.array(np.nan, x.dtype), x)
        # numpy and ml_dtypes give the positive NaN, the largest of the total order... of one kind.
    numbers = ascending(x, dtype, bool(flags & DESCENDING), total=True)
    assert numbers is not None
    return np.argsort(numbers, axis=axis, kind="stable")


def same_bits(x: np.ndarray, y: np.ndarray) -> bool:
    return x.tobytes() == y.tobytes()


@pytest.mark.parametrize("flags", [0, DESCENDING, ZEROS | NANS, ZEROS | NANS | DESCENDING])
@pytest.mark.parametrize("dtype", KEY_TYPES, ids=lambda d: d.name)
def test_every_type_alone_and_with_places(call: NativeCall, dtype: DType, flags: int):
    for shape, axis in [((3, 301), 1), ((2, 37, 19), 1), ((5,), 0), ((1, 1), 1)]:
        x = drawn(dtype, shape)
        order = order_of(x, dtype, flags, axis)
        expected = np.take_along_axis(x, order, axis)
        alone, values = np.empty_like(x), np.empty_like(x)
        places = np.empty(shape, np.int32)
        key = [(0, dtype.number, flags)]
        sorted_natively(call, [x], axis, key, [alone], shape)
        sorted_natively(call, [x, None], axis, key, [values, places], shape)
        assert same_bits(alone, expected)
        assert same_bits(values, expected)
        np.testing.assert_array_equal(places, order)


@pytest.mark.parametrize("n", [0, 1, 2, 15, 16, 17, 255, 256, 257, 1000, 4096, 70001, 200000])
def test_lengths(call: NativeCall, n: int):
    rng = np.random.default_rng(n)
    for kind in (np.float32, np.int64, np.uint16, np.float64, np.int32):
        number = {"f4": 11, "i8": 5, "u2": 7, "f8": 12, "i4": 4}[np.dtype(kind).str[1:]]
        x = (rng.standard_normal(n) * 1000).astype(kind)
        out, places = np.empty_like(x), np.empty(n, np.int64)
        sorted_natively(call, [x], 0, [(0, number, 0)], [out], (n,))
        np.testing.assert_array_equal(out, np.sort(x))
        sorted_natively(call, [x, None], 0, [(0, number, 0)], [None, places], (n,))
        np.testing.assert_array_equal(places, np.argsort(x, kind="stable"))


def close_by(rng: np.random.Generator, n: int) -> np.ndarray:
    """Keys of 64 bits of which few differ in the low ones only, which do not fit beside a place."""
    return np.nextafter(np.round(rng.standard_normal(n), 4), rng.choice([-9, 9], n))


def all_close(rng: np.random.Generator, n: int) -> np.ndarray:
    """The same of all but one."""
    return 1 + rng.integers(0, 1 << 20, n) * 2.0**-52 - (np.arange(n) == 7) * 1e30


LONG = {
    "random": lambda rng, n: rng.standard_normal(n),
    "equal": lambda rng, n: np.ones(n),
    "few values": lambda rng, n: rng.integers(0, 5, n).astype(np.float64),
    "mostly one": lambda rng, n: np.where(rng.random(n) < 0.01, rng.standard_normal(n), 0.5),
    "descending": lambda rng, n: np.arange(n, 0, -1).astype(np.float64),
    "close by": close_by,
    "all close": all_close,
}


@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize("n", [65537, 300_000])
def test_long_rows(call: NativeCall, kind: str, n: int):
    """Long enough for threads, counts of 16 bits, and ties that were left out at first."""
    values = LONG[kind](np.random.default_rng(n), n)
    for of, number in ((np.float32, 11), (np.float64, 12), (np.int16, 3)):
        x = (values if of != np.int16 else np.clip(values, -30, 30) * 1000).astype(of)
        out, places, payload = np.empty_like(x), np.empty(n, np.int32), np.empty(n, np.int8)
        given = np.arange(n).astype(np.int8)
        key = [(0, number, ZEROS | NANS)]
        order = np.argsort(x, kind="stable")
        sorted_natively(call, [x], 0, key, [out], (n,))
        assert same_bits(out, x[order])
        sorted_natively(call, [x, None, given], 0, key, [out, places, payload], (n,))
        np.testing.assert_array_equal(places, order)
        assert same_bits(payload, given[order])
        assert same_bits(out, x[order])


def test_payloads_of_every_size_and_in_place(call: NativeCall):
    rng = np.random.default_rng(5)
    x = rng.integers(-50, 50, (4, 333)).astype(np.int32)
    loads = [rng.integers(0, 2**62, (4, 333, 2)).astype(np.int64).view(np.complex128)[..., 0]]
    loads += [rng.integers(0, 100, (4, 333)).astype(k) for k in ("i1", "i2", "f4", "f8", "c8")]
    order = np.argsort(x, axis=1, kind="stable")
    for axis, turn in ((1, lambda a: a.copy()), (0, lambda a: np.ascontiguousarray(a.T))):
        arrays = [turn(a) for a in (x, *loads)]
        expected = [turn(np.take_along_axis(a, order, 1)) for a in (x, *loads)]
        outs = [np.empty_like(a) for a in arrays]
        sorted_natively(call, arrays, axis, [(0, 4, 0)], outs, arrays[0].shape)
        for got, want in zip(outs, expected):
            assert same_bits(got, want)
        sorted_natively(call, arrays, axis, [(0, 4, 0)], arrays, arrays[0].shape)
        for got, want in zip(arrays, expected):
            assert same_bits(got, want)


SHORT = [(200, 2), (17, 3), (63, 5), (130, 8), (64, 33), (65, 64), (16, 65), (40, 100), (40, 101)]
"""Sequences and their length: one in each lane of vectors, and on both sides of where that ends."""


@pytest.mark.parametrize("flags", [0, DESCENDING, ZEROS | NANS])
@pytest.mark.parametrize("name", ["s8", "bf16", "f32", "s32", "f64", "u64", "f8e5m2"])
def test_many_short_sequences(call: NativeCall, name: str, flags: int):
    dtype = next(d for d in KEY_TYPES if d.name == name)
    key = [(1, dtype.number, flags)]
    for rows, n in SHORT:
        few = drawn(dtype, (7,), n)  # so that places decide
        for shape, axis in (((rows, n), 1), ((n, rows), 0), ((3, n, rows), 1), ((rows, n, 2), 1)):
            for x in (drawn(dtype, shape, n), few[np.random.default_rng(n).integers(0, 7, shape)]):
                order = order_of(x, dtype, flags, axis)
                alone = np.empty_like(x)
                sorted_natively(call, [x], axis, [(0, dtype.number, flags)], [alone], shape)
                assert same_bits(alone, np.take_along_axis(x, order, axis))
                load = np.arange(x.size, dtype=np.int64).reshape(shape)
                arrays = [load.copy(), x.copy(), None]
                outs = [arrays[0], arrays[1], np.empty(shape, np.int32)]
                sorted_natively(call, arrays, axis, key, outs, shape)
                np.testing.assert_array_equal(outs[2], order)
                np.testing.assert_array_equal(outs[0], np.take_along_axis(load, order, axis))
                assert same_bits(outs[1], np.take_along_axis(x, order, axis))


def test_several_keys(call: NativeCall):
    rng = np.random.default_rng(6)
    a = rng.integers(0, 3, 5000).astype(np.int8)
    b = rng.integers(0, 4, 5000).astype(np.float64)
    c = rng.integers(-5, 5, 5000).astype(np.int32)
    d = rng.standard_normal(5000)
    keys = [(0, 2, 0), (1, 12, DESCENDING), (2, 4, 0), (3, 12, 0)]
    places = np.empty(5000, np.int32)
    sorted_natively(call, [a, b, c, d, None], 0, keys, [None] * 4 + [places], (5000,))
    np.testing.assert_array_equal(places, np.lexsort((d, c, -b, a)))
    sorted_natively(
        call, [a, b, c, d, None], 0, [(0, 2, 0), (4, 4, 0)], [None] * 4 + [places], (5000,)
    )
    np.testing.assert_array_equal(places, np.argsort(a, kind="stable"))


@pytest.mark.parametrize("axis", [0, 1])
def test_comparators(call: NativeCall, axis: int):
    x = np.random.default_rng(7).integers(0, 40, (57, 23)).astype(np.int32)

    @LESS
    def by_last_digit(elements):
        left = ctypes.c_int32.from_address(elements[0]).value
        return ctypes.c_int32.from_address(elements[1]).value % 10 > left % 10

    out, places = np.empty_like(x), np.empty(x.shape, np.int32)
    outer, inner = (1, 23) if axis == 0 else (57, 1)
    call("hl_sort_compare", outer, x.shape[axis], inner, 2, pointers([x, None]),
         pointers([out, places]), sizes([4, 4]), by_last_digit, 1)  # fmt: skip
    order = np.argsort(x % 10, axis=axis, kind="stable")
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(out, np.take_along_axis(x, order, axis))


@pytest.mark.parametrize("answer", ["true", "random", "nan"])
def test_comparators_that_are_no_order_give_a_permutation(call: NativeCall, answer: str):
    x = np.random.default_rng(8).standard_normal(777).astype(np.float32)
    x[::5] = np.nan
    rng = np.random.default_rng(9)

    @LESS
    def less(elements):
        if answer != "nan":
            return 1 if answer == "true" else int(rng.integers(0, 2))
        left, right = (ctypes.c_float.from_address(elements[k]).value for k in (0, 1))
        return left < right

    places = np.empty(777, np.int32)
    call("hl_sort_compare", 1, 777, 1, 2, pointers([x, None]), pointers([None, places]),
         sizes([4, 4]), less, 1)  # fmt: skip
    np.testing.assert_array_equal(np.sort(places), np.arange(777))


def test_wrong_keys_are_refused(call: NativeCall):
    x = np.zeros(4, np.complex64)
    with pytest.raises(RuntimeError, match="no order for type 15"):
        sorted_natively(call, [x], 0, [(0, 15, 0)], [x], (4,))
    with pytest.raises(RuntimeError, match="key 0 is of operand 3"):
        sorted_natively(call, [x], 0, [(3, 4, 0)], [x], (4,))
