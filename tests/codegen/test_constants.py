"""Constants that fusions hold."""

import numpy as np

import hloom

NAN_IN_A_FUSION = """HloModule m

fused {
  p = f32[5] parameter(0)
  zero = f32[5] constant({0, 0, 0, 0, 0})
  none = f32[5] constant({nan, nan, nan, nan, nan})
  small = pred[5] compare(p, zero), direction=LT
  ROOT chosen = f32[5] select(small, none, p)
}

ENTRY e {
  p = f32[5] parameter(0)
  ROOT f = f32[5] fusion(p), kind=kLoop, calls=fused
}
"""


def test_an_array_of_one_nan_is_one_number():
    given = np.array([-1, 0, 1, -2, 3], np.float32)
    run = hloom.compile(NAN_IN_A_FUSION)
    np.testing.assert_array_equal(np.asarray(run(given)), np.where(given < 0, np.nan, given))
