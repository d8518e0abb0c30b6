"""`preserves_values` against converting every value of every narrow type there and back."""

import warnings

import numpy as np
import pytest

from hloom.types.casts import preserves_values
from hloom.types.convert import converted
from hloom.types.dtype import BY_NAME, DType

NARROW = [t for t in BY_NAME.values() if t.is_array_element and (t.bits <= 8 or t.bits == 16)]
TARGETS = NARROW + [BY_NAME[n] for n in ("f32", "s32", "u32", "f64", "s64")]


def every_value(t: DType) -> np.ndarray:
    if t.is_pred:
        return np.array([False, True])
    if t.bits == 16:
        return np.arange(65536, dtype=np.uint16).view(t.numpy)
    codes = np.arange(2**t.bits, dtype=np.uint8)
    return codes.astype(t.numpy) if t.is_integral else codes.view(t.numpy)


@pytest.mark.parametrize("source", NARROW, ids=str)
def test_every_value_survives_exactly_when_said(source):
    values = every_value(source)
    before = np.asarray(values).astype(np.float64)
    for target in TARGETS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            there = converted(values, source, target)
            back = converted(there, target, source)
            after = [np.asarray(x).astype(np.float64) for x in (there, back)]
        nan = np.isnan(before)
        kept = all(np.array_equal(before[~nan], x[~nan]) for x in after)
        kept &= bool(np.isnan(after[0][nan]).all())
        kept &= bool((np.signbit(before) == np.signbit(after[0]))[~nan].all())
        if source is not target and (target.name == "f8e8m0fnu" or target.is_pred):
            kept = False
        assert preserves_values(source, target) == kept, f"{source.name} to {target.name}"
