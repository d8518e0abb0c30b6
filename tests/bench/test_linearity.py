"""The programs whose compile time is measured against their size."""

import pytest

import hloom
from bench.linearity import SHAPES, stage_times


@pytest.mark.parametrize("shape", SHAPES)
def test_programs_have_the_size_that_is_asked(shape):
    for size in (100, 1000):
        module = hloom.parse(SHAPES[shape](size))
        hloom.verify(module)
        assert 0.9 * size < module.instruction_count < 1.1 * size + 10


def test_every_stage_is_timed():
    count, times = stage_times(SHAPES["loops"](60))
    assert count > 50
    assert {"parse", "verify", "passes", "schedule", "buffers", "llvm text"} <= set(times)
