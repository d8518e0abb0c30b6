"""A topk of which only the values are read is found without places."""

import numpy as np
import pytest

import hloom
from hloom.program.thunks.sort import TopK

HEAD = "HloModule m\nENTRY e {\n  x = f32[2,3000] parameter(0)\n"
TOPK = "  t = (f32[2,3000], s32[2,3000]) topk(x), k=3000, largest=true\n"
VALUES = "  v = f32[2,3000] get-tuple-element(t), index=0\n"
PLACES = "  p = s32[2,3000] get-tuple-element(t), index=1\n"
READERS = {
    "values": (VALUES + "  ROOT r = f32[2,3000] negate(v)\n}", 1),
    "both": (VALUES + PLACES + "  ROOT r = (f32[2,3000], s32[2,3000]) tuple(v, p)\n}", 2),
    "places": (PLACES + "  ROOT r = s32[2,3000] negate(p)\n}", 2),
}


def check(text: str, written: int):
    module = hloom.parse(text)
    executable = hloom.compile(module)
    steps = [t for t in executable.thunks if isinstance(t, TopK)]
    assert [len(t.writes) for t in steps] == [written]
    x = np.random.default_rng(1).integers(-50, 50, (2, 3000)).astype(np.float32)
    ours, meant = executable(x), hloom.evaluate(module, x)
    pairs = zip(ours, meant.elements, strict=True) if meant.shape.is_tuple else [(ours, meant)]
    for a, b in pairs:
        np.testing.assert_array_equal(np.asarray(a), b.array)


@pytest.mark.parametrize("readers", READERS)
def test_only_what_is_read_is_written(readers: str):
    text, written = READERS[readers]
    check(HEAD + TOPK + text, written)


def test_what_a_program_returns_is_read():
    check(HEAD + TOPK.replace("  t", "  ROOT t") + "}", 2)
