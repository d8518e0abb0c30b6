"""Machine code of kernels does what they mean: replayed finds, and new random kernels."""

from pathlib import Path

import pytest

from hloom.interp.draw_kernel import draw_kernel
from hloom.kernel.text import show_kernel
from tests.fuzz.check_kernel import NUMERIC, as_text, difference, from_text
from tests.fuzz.run_kernel import batch, in_child, kind_of
from tests.fuzz.shrink_kernel import shrunk

FOUND = sorted((Path(__file__).parent / "found_kernels").glob("*.kernel"))


@pytest.mark.parametrize("path", FOUND, ids=lambda p: p.stem)
def test_what_was_found_once_is_no_longer_so(path: Path):
    drawn, where = from_text(path.read_text())
    assert in_child(difference, drawn, where) == ""


@pytest.mark.parametrize("start", [0, 1000, 2000])
def test_random_kernels(start: int):
    assert in_child(batch, range(start, start + 20)) == ""


@pytest.mark.parametrize("where", NUMERIC)
def test_a_wrong_result_would_be_noticed(where: str):
    """A kernel whose text is changed between the two ways of running it."""
    import tests.fuzz.check_kernel as check

    drawn = from_text(SMALL)[0]
    assert difference(drawn, where) == ""
    real = check.run_kernel
    try:
        check.run_kernel = lambda kernel, buffers, races: real(  # type: ignore[assignment]
            from_text(SMALL.replace("add", "subtract"))[0].kernel, buffers
        )
        assert "%y: 4 of 4: [0]" in difference(drawn, where)
    finally:
        check.run_kernel = real


SMALL = """\
// machine avx2
// buffer x 0.0 0000803f000000400000404000008040
// buffer y 0.0 00000000000000000000000000000000
kernel @small(%x: buffer<f32>[4] in, %y: buffer<f32>[4] out) {
  %0 = constant 0 : s64[]
  %1 = load %x[%0] strides(1) : f32[4]
  %2 = add %1, %1 : f32[4]
  store %y[%0], %2 strides(1)
}
"""


def test_finds_survive_the_disk():
    for seed in range(20):
        drawn = draw_kernel(seed)
        again, where = from_text(as_text(drawn, "sse", "what was wrong"))
        assert where == "sse"
        assert show_kernel(again.kernel) == show_kernel(drawn.kernel)
        for a, b in zip(again.buffers, drawn.buffers, strict=True):
            assert a.dtype == b.dtype
            assert a.tobytes() == b.tobytes()
        assert {k: v for k, v in again.loose.items() if v} == drawn.loose


def test_shrinking_keeps_what_matters():
    drawn = draw_kernel(3)
    opcodes = [op.opcode for op in drawn.kernel.ops()]
    assert len(opcodes) > 30
    assert "scatter" in opcodes

    small = shrunk(drawn, lambda d: any(op.opcode == "scatter" for op in d.kernel.ops()), 2000)
    left = [op.opcode for op in small.kernel.ops()]
    assert left.count("scatter") == 1
    assert len(left) < 12


def test_kinds_of_finds():
    assert kind_of("%p0: 3 of 4: [0] is 1, not 2") == "differs"
    assert kind_of("%p0: wrote byte 16 of 16") == "wrote"
    assert kind_of("HloError: x\ny") == "HloError: x"
    assert in_child(lambda: "text") == "text"
    assert in_child(lambda: 1 // 0).startswith("crash")
