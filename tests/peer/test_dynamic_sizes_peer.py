"""Run-time sizes of elementwise operations, as XLA has them."""

from itertools import product

import numpy as np
import pytest

pytest.importorskip("jaxlib")

from hloom.interp import evaluate
from hloom.ir.text import parse_module
from tests.peer.xla_op import run_module

TEXT = """HloModule m
ENTRY e {
  a = s32[4] parameter(0)
  b = s32[4] parameter(1)
  n = s32[] parameter(2)
  m = s32[] parameter(3)
  x = s32[<=4] set-dimension-size(a, n), dimensions={0}
  y = s32[<=4] set-dimension-size(b, m), dimensions={0}
  r = s32[<=4] OPERATION
  g = s32[] get-dimension-size(r), dimensions={0}
  ROOT t = (s32[], s32[<=4]) tuple(g, r)
}
"""


@pytest.mark.parametrize("operation", ["add(x, y)", "multiply(x, b)", "subtract(b, y)"])
def test_sizes_and_elements(operation):
    """XLA's arrays come as their bound; only the first elements mean something."""
    text = TEXT.replace("OPERATION", operation)
    a, b = np.arange(1, 5, dtype=np.int32), 10 * np.arange(1, 5, dtype=np.int32)
    module = parse_module(text)
    for n, m in product((0, 1, 2, 3, 4), repeat=2):
        size, elements = run_module(text, a, b, np.int32(n), np.int32(m))
        ours = evaluate(module, a, b, np.int32(n), np.int32(m)).elements
        assert ours[0].array == size
        np.testing.assert_array_equal(ours[1].array, elements[: int(size)])
