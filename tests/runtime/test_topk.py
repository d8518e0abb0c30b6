"""hl_topk against a stable sort of the same keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hloom.runtime import ffi
from hloom.runtime.call_frame import CallFrame, typed
from hloom.types.dtype import DType
from tests.runtime.native_call import NativeCall, native
from tests.runtime.test_sort import DESCENDING, KEY_TYPES, NANS, ZEROS, drawn, order_of, same_bits


@pytest.fixture(scope="module", params=[1, 2])
def call(request: pytest.FixtureRequest) -> Any:
    with native(request.param) as opened:
        yield opened


def check(call: NativeCall, x: np.ndarray, dtype: DType, k: int, flags: int) -> None:
    rows, n = x.shape
    values, indices = np.empty((rows, k), x.dtype), np.empty((rows, k), np.int32)
    call("hl_topk", rows, n, k, dtype.number, flags, x, values, indices)
    order = order_of(x, dtype, flags, 1)[:, :k]
    np.testing.assert_array_equal(indices, order)
    assert same_bits(values, np.take_along_axis(x, order, 1))


@pytest.mark.parametrize("flags", [0, DESCENDING, DESCENDING | ZEROS | NANS])
@pytest.mark.parametrize("dtype", KEY_TYPES, ids=lambda d: d.name)
def test_every_type(call: NativeCall, dtype: DType, flags: int):
    for rows, n, k in [(3, 700, 7), (2, 5000, 1), (4, 130, 129), (1, 1, 1), (2, 9001, 600)]:
        check(call, drawn(dtype, (rows, n), n), dtype, k, flags)


@pytest.mark.parametrize("flags", [0, DESCENDING, DESCENDING | ZEROS | NANS])
@pytest.mark.parametrize("dtype", KEY_TYPES, ids=lambda d: d.name)
def test_few_of_short_rows(call: NativeCall, dtype: DType, flags: int):
    """Lanes of rows and what is left of them, rows too long for that, all that there is."""
    for rows, n, k in [(16, 3, 3), (37, 100, 5), (8, 17, 16), (19, 64, 1), (35, 65, 1), (40, 7, 2)]:
        check(call, drawn(dtype, (rows, n), n), dtype, k, flags)
        equal = np.repeat(drawn(dtype, (rows, 1), n), n, 1)
        check(call, equal, dtype, k, flags)


@pytest.mark.parametrize("order", ["rising", "falling", "equal"])
def test_rows_that_defeat_the_filter(call: NativeCall, order: str):
    x = {"rising": np.arange(300000), "falling": -np.arange(300000), "equal": np.zeros(300000)}
    for kind, number in ((np.float32, 11), (np.int64, 5)):
        data = x[order].astype(kind)[None]
        for k in (1, 10, 1000):
            indices = np.empty(k, np.int32)
            call("hl_topk", 1, 300000, k, number, DESCENDING, data, None, indices)
            expected = np.argsort(-data[0], kind="stable")[:k]
            np.testing.assert_array_equal(indices, expected)


@pytest.mark.parametrize("flags", [0, DESCENDING, DESCENDING | ZEROS | NANS])
@pytest.mark.parametrize("dtype", KEY_TYPES, ids=lambda d: d.name)
def test_values_without_places(call: NativeCall, dtype: DType, flags: int):
    """Much and little of rows, both sides of where parts are split and where threads work."""
    sizes = [(3, 700, 600), (1, 1025, 513), (2, 5000, 4999), (1, 70001, 30000), (1, 140000, 9000)]
    for rows, n, k in [*sizes, (1, 140000, 139999), (2, 4000, 100)]:
        x = drawn(dtype, (rows, n), n)
        for y in (x, np.sort(x), np.repeat(x[:, :1], n, 1)):
            values = np.empty((rows, k), y.dtype)
            call("hl_topk", rows, n, k, dtype.number, flags, y, values, None)
            order = order_of(y, dtype, flags, 1)[:, :k]
            assert same_bits(values, np.take_along_axis(y, order, 1))
            check(call, y, dtype, k, flags)


def test_sizes_of_nothing_and_wrong_sizes(call: NativeCall):
    x, none = np.zeros((2, 3), np.float32), np.empty((2, 0), np.float32)
    call("hl_topk", 2, 3, 0, 11, 1, x, none, None)
    call("hl_topk", 0, 3, 2, 11, 1, x, none, None)
    with pytest.raises(RuntimeError, match="cannot take 4 elements of rows of 3"):
        call("hl_topk", 2, 3, 4, 11, 1, x, none, None)
    with pytest.raises(RuntimeError, match="no order for type 15"):
        call("hl_topk", 2, 3, 1, 15, 1, x, none, None)


def test_the_custom_call(call: NativeCall):
    x = np.random.default_rng(3).standard_normal((2, 3, 50)).astype(np.float32)
    for largest, order in ((True, np.argsort(-x)), (False, np.argsort(x))):
        values, indices = np.zeros((2, 3, 4), np.float32), np.zeros((2, 3, 4), np.int32)
        frame = CallFrame([x], [values, indices], {"largest": typed(largest, "pred")})
        assert ffi.call(call.context, "TopK", frame) == 0
        np.testing.assert_array_equal(indices, order[..., :4])
        np.testing.assert_array_equal(values, np.take_along_axis(x, order[..., :4], -1))
