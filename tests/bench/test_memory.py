"""The measurement of peak memory: what a block of code really takes is what is measured."""

import numpy as np
import pytest

from bench.memory import CLEAR_REFS, Rise, ours, ratio
from bench.native import EXAMPLES

pytestmark = pytest.mark.skipif(not CLEAR_REFS.exists(), reason="no /proc")


def test_rise_is_the_peak_not_the_end():
    with Rise() as rise:
        big = np.ones(40_000_000, np.uint8)
        del big
        small = np.ones(10_000_000, np.uint8)
    assert 39e6 < rise.bytes < 55e6
    del small
    with Rise() as rise:
        pass
    assert rise.bytes < 2e6


def test_ratio():
    row = {"hloom": {"planned": 4096}, "xla": {"planned": 0}}
    assert ratio(row, "planned") == 2.0
    assert ratio({"hloom": {"planned": 1}}, "planned") is None


def test_a_small_program(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HLOOM_CACHE_DIR", "")  # set by what is tested, and put back afterwards
    found = ours(EXAMPLES / "softmax.hlo")
    assert 0 < found["planned"] < 1e6
    assert found["measured"] < 30e6
