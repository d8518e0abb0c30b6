"""How long programs are expected to take, before they have run."""

import math

import hloom
from hloom.program.thunks.thunk import sequence_ns


def expected(text: str) -> float:
    executable = hloom.compile(text, threads=1)
    return sequence_ns(executable.program.thunks, executable.target.device.costs)


ADD = "HloModule m\nENTRY %m {{ %p = f32[{n}] parameter(0) ROOT %r = f32[{n}] add(%p, %p) }}"


def test_more_takes_longer():
    small, large = (expected(ADD.format(n=n)) for n in (8, 8_000_000))
    assert 0 <= small < 10_000 < 500_000 < large < math.inf


LOOP = """
HloModule m
%cond {{ %c = (s32[], f32[64]) parameter(0)  %n = s32[] get-tuple-element(%c), index=0
  %e = s32[] constant({n})  ROOT %l = pred[] compare(%n, %e), direction={direction} }}
%body {{ %c = (s32[], f32[64]) parameter(0)  %n = s32[] get-tuple-element(%c), index=0
  %x = f32[64] get-tuple-element(%c), index=1  %s = f32[64] sine(%x)  %o = s32[] constant(1)
  %k = s32[] add(%n, %o)  ROOT %t = (s32[], f32[64]) tuple(%k, %s) }}
ENTRY %m {{ %x = f32[64] parameter(0)  %z = s32[] {start}
  %i = (s32[], f32[64]) tuple(%z, %x)
  %w = (s32[], f32[64]) while(%i), condition=%cond, body=%body
  ROOT %r = f32[64] get-tuple-element(%w), index=1 }}
"""


def test_loops():
    def loop(n: int, start: str = "constant(0)") -> float:
        return expected(LOOP.format(n=n, direction="LT", start=start))

    assert loop(100_000) > 50 * loop(100)
    assert loop(100, "parameter(1)") > 1e6
