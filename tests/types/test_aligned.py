"""Memory at whole lines of a cache."""

import numpy as np
import pytest

from hloom.interp.values import to_literal
from hloom.types.aligned import aligned_copy, is_aligned
from hloom.types.shape import shape


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_copies_are_in_order_and_aligned(order):
    array = np.arange(1200, dtype=np.int16).reshape(30, 40).transpose(order)
    copy = aligned_copy(array)
    assert copy.flags.c_contiguous and is_aligned(copy) and copy.ctypes.data % 64 == 0
    np.testing.assert_array_equal(copy, array)


def test_folded_values_are_aligned():
    kept = [to_literal(np.ones((64, n), np.float32), shape("f32", (64, n))) for n in range(1, 9)]
    assert all(x.array.ctypes.data % 64 == 0 for x in kept)
