"""How long programs are expected to take, before they have run."""

import math

import pytest

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


LESS = """less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
"""
CALLED = """called { a = f32[] parameter(0)
  b = f32[] parameter(1)
  s = f32[] abs(a)
  ROOT r = pred[] compare(s, b), direction=LT }
"""
FFT = "{s}[{0}] parameter(0)\n ROOT y = {t}[{1}] fft(x), fft_type={2}, fft_length={{{3}}}"
SORT = "f32[{0}] parameter(0)\n ROOT y = f32[{0}] sort(x), dimensions={{1}}, to_apply=less"
CHOLESKY = "{t}[{0},{1},{1}] parameter(0)\n ROOT y = {t}[{0},{1},{1}] cholesky(x), lower=true"
SOLVE = """f32[{0},{1},{1}] parameter(0)
  b = f32[{0},{1},{2}] parameter(1)
  ROOT y = f32[{0},{1},{2}] triangular-solve(x, b), left_side=true, lower=true,
    unit_diagonal=false, transpose_a=NO_TRANSPOSE"""
TOPK = """f32[{0},{1}] parameter(0)
  ROOT y = (f32[{0},{2}], s32[{0},{2}]) topk(x), k={2}, largest=true"""
EIGH = """f32[{0},{0}] parameter(0)
  ROOT y = (f32[{0},{0}], f32[{0}], s32[]) custom-call(x), custom_call_target="lapack_ssyevd_ffi",
    api_version=API_VERSION_TYPED_FFI, backend_config="{{mode = 86 : ui8, uplo = 76 : ui8}}\""""
TOOK_US = [
    (FFT.format("256,1024", "256,1024", "FFT", "1024", s="c64", t="c64"), 490),
    (FFT.format("4,65536", "4,65536", "FFT", "65536", s="c64", t="c64"), 740),
    (FFT.format("64,997", "64,997", "FFT", "997", s="c64", t="c64"), 520),
    (FFT.format("64,4096", "64,4096", "FFT", "4096", s="c128", t="c128"), 1280),
    (FFT.format("64,4096", "64,2049", "RFFT", "4096", s="f32", t="c64"), 420),
    (FFT.format("256,256", "256,256", "FFT", "256,256", s="c64", t="c64"), 160),
    (CHOLESKY.format(1, 128, t="f32"), 52),
    (CHOLESKY.format(16, 64, t="f64"), 220),
    (CHOLESKY.format(1, 1024, t="f32"), 8_500),
    (CHOLESKY.format(1, 256, t="c64"), 490),
    (SOLVE.format(1, 256, 256), 290),
    (SOLVE.format(1, 512, 1), 80),
    (SOLVE.format(1, 1024, 64), 930),
    (SORT.format("64,1000"), 175),
    (SORT.format("1,1000000"), 6_400),
    (SORT.format("100,100").replace("less", "called"), 400),
    (SORT.format("1,10000").replace("less", "called"), 780),
    (TOPK.format(64, 1000, 10), 75),
    (TOPK.format(1, 1_000_000, 10), 200),
    (EIGH.format(64), 190),
    (EIGH.format(512), 18_000),
]
"""On one core of a Zen 4 with OpenBLAS, CPU time."""


@pytest.mark.parametrize(("body", "took_us"), TOOK_US)
def test_routines_are_expected_to_take_about_what_they_took(body, took_us):
    text = f"HloModule m\n{LESS}{CALLED}ENTRY e {{ x = {body} }}"
    guess_us = expected(text) / 1000
    assert took_us / 2 < guess_us < 2 * took_us
