"""Values of expanded rng lie in their ranges, have their distributions, and differ."""

import numpy as np
import pytest

from hloom.interp import EvalOptions, evaluate
from hloom.ir.text import parse_module
from hloom.passes import pass_named
from hloom.passes.expand.expansion import ExpandError
from hloom.passes.expand.rng_expander import key_of

COUNT = 20_000


def values(dtype, first, second, kind, count=COUNT):
    """Two draws of one program, from one random state."""
    module = parse_module(f"""
HloModule m
ENTRY e {{
  a = {dtype}[] constant({first})
  b = {dtype}[] constant({second})
  x = {dtype}[{count}] rng(a, b), distribution={kind}
  y = {dtype}[{count}] rng(a, b), distribution={kind}
  ROOT t = ({dtype}[{count}], {dtype}[{count}]) tuple(x, y)
}}""")
    assert pass_named("rng-expander").run(module).changed
    assert not any(i.opcode == "rng" for i in module.instructions())
    one, two = (
        [e.array for e in evaluate(module, options=EvalOptions(rng_state=s)).elements]
        for s in (1, 1 << 70)
    )
    assert not np.array_equal(one[0], one[1])
    assert not np.array_equal(one[0], two[0])
    return one[0]


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
def test_uniform_floats(dtype):
    x = values(dtype, -1, 3, "rng_uniform").astype(np.float64)
    assert x.min() >= -1 and x.max() < 3
    assert abs(x.mean() - 1) < 0.05
    counts = np.histogram(x, 16, (-1, 3))[0]
    expected = COUNT / 16
    assert ((counts - expected) ** 2 / expected).sum() < 45  # chi-square of 15, p about 1e-4


def test_a_narrow_range_never_reaches_its_end():
    for first, second in ((1, 1.03125), (-1.03125, -1), (-0.001, 0)):
        x = values("bf16", first, second, "rng_uniform", 500).astype(np.float64)
        low, high = (float(np.float32(v)) for v in (first, second))
        assert x.max() < high and x.min() >= low - 1e-4


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
def test_normal(dtype):
    x = values(dtype, 1, 2, "rng_normal", COUNT + 1).astype(np.float64)
    assert abs(x.mean() - 1) < 0.06 and abs(x.std() - 2) < 0.06
    inside = (np.abs(x - 1) < 2).mean()
    assert abs(inside - 0.6827) < 0.02
    assert np.isfinite(x).all()


@pytest.mark.parametrize("dtype", ["s8", "u8", "s32", "u64"])
def test_uniform_integers(dtype):
    x = values(dtype, 3, 10, "rng_uniform").astype(np.int64)
    assert set(x) == set(range(3, 10))
    assert abs((x == 5).mean() - 1 / 7) < 0.02


def test_keys_are_not_zero_and_differ():
    keys = [key_of(k) for k in range(1000)]
    assert 0 not in keys and len(set(keys)) == 1000


def test_what_has_no_values_is_refused():
    module = parse_module(
        "HloModule m\nENTRY e {\n a = s32[] constant(0)\n"
        " ROOT x = s32[3] rng(a, a), distribution=rng_normal\n}"
    )
    with pytest.raises(ExpandError, match="no values of type s32"):
        pass_named("rng-expander").run(module)


def test_half_a_word_is_no_random_state():
    module = parse_module(
        "HloModule m\nENTRY e {\n s = u32[1] parameter(0)\n"
        " ROOT r = (u32[1], u32[9]) rng-bit-generator(s), algorithm=rng_default\n}"
    )
    with pytest.raises(ExpandError, match="1 words of 32 bits"):
        pass_named("rng-bit-generator-expander").run(module)
