"""Where what moves elements stands in a kernel of its own: turned in tiles, or in whole rows."""

import numpy as np
import pytest

import hloom
from hloom.ir.text import parse_module
from hloom.passes.fuse.explain import fusion_decisions

MOVED = """HloModule m
ENTRY e {{
  x = {t}[{n},{m}] parameter(0)
  z = {t}[] constant(0)
  {rest}
}}"""
PADDED_BEHIND = """t = {t}[{m},{n}] transpose(x), dimensions={{1,0}}
  ROOT r = {t}[{m},{more}] pad(t, z), padding=0_0x0_5"""
PADDED_BEFORE = """t = {t}[{more},{m}] pad(x, z), padding=0_5x0_0
  ROOT r = {t}[{m},{more}] transpose(t), dimensions={{1,0}}"""
READ_IN_PART = """t = {t}[{m},{n}] transpose(x), dimensions={{1,0}}
  ROOT r = {t}[7,{more}] pad(t, z), padding={left}_0x0_5"""


def decision(text: str, name: str) -> str | None:
    [found] = [d for d in fusion_decisions(parse_module(text)) if d.producer.name == name]
    return found.reason


def moved(rest: str, t: str, n: int, m: int) -> str:
    sizes = {"t": t, "n": n, "m": m, "more": n + 5, "left": 7 - m}
    return MOVED.format(rest=rest.format(**sizes), **sizes)


@pytest.mark.parametrize("rest", [PADDED_BEHIND, PADDED_BEFORE])
def test_a_transpose_beside_a_pad_is_turned_in_tiles(rest: str):
    for t in ("u8", "f32"):
        assert decision(moved(rest, t, 400, 300), "t") is not None
    # What the caches hold is read in any order, and wide elements fill much of a line.
    assert decision(moved(rest, "f32", 20, 30), "t") is None
    assert decision(moved(rest, "f64", 400, 300), "t") is None


def test_what_is_read_in_part_is_not_turned_whole():
    assert decision(moved(READ_IN_PART, "f32", 400, 300), "t") is None


TURNED_AND_JOINED = """HloModule m
ENTRY e {{
  x = u8[{k},{n}] parameter(0)
  t = u8[{n},{k}] {opcode}(x){order}
  a = u8[{n},{less}] slice(t), slice={{[0:{n}], [1:{k}]}}
  b = u8[{n},1] slice(t), slice={{[0:{n}], [0:1]}}
  c = u8[{n},{k}] concatenate(a, b), dimensions={{1}}
  ROOT r = u8[{n},2,{k}] broadcast(c), dimensions={{0,2}}
}}"""


def joined(n: int, k: int, order: str | None = ", dimensions={1,0}") -> str | None:
    opcode = "reshape" if order is None else "transpose"
    sizes = {"n": n, "k": k, "less": k - 1, "opcode": opcode, "order": order or ""}
    return decision(TURNED_AND_JOINED.format(**sizes), "c")


def test_short_runs_of_what_is_turned_are_joined_in_memory():
    assert joined(8160, 4) is not None
    # What lies in order is read a vector at a time; tiles are turned of long rows of large arrays.
    assert joined(8160, 4, order=None) is None
    assert joined(8160, 24) is None
    assert joined(400, 24) is not None
    # Long runs, and few elements.
    assert joined(8160, 4000) is None
    assert joined(4, 4) is None


CUT = """HloModule m
add {{ a = u32[] parameter(0) b = u32[] parameter(1) ROOT c = u32[] add(a, b) }}
ENTRY e {{
  x = u8[{n},{m}] parameter(0)
  z = u8[] constant(0)
  p = u8[{n},{all}] pad(x, z), padding=0_0x0_{more}
  s = u8[{n},{rows},{short}] reshape(p)
  w = u32[{n},{rows},{short}] convert(s)
  u = u32[] constant(0)
  ROOT r = u32[{n},{rows}] reduce(w, u), dimensions={{2}}, to_apply=add
}}"""


def cut(n: int, m: int, short: int) -> str:
    rows = -(-m // short)
    return CUT.format(n=n, m=m, short=short, rows=rows, all=rows * short, more=rows * short - m)


@pytest.mark.parametrize("n,m", [(1, 1), (3, 9), (100, 1003), (1000, 10), (1, 100_003)])
@pytest.mark.parametrize("short", [2, 8, 100])
def test_padded_rows_that_are_cut_in_short_ones(n: int, m: int, short: int):
    text = cut(n, m, short)
    large, rows = n * m > 1 << 16, -(-m // short)
    if m % short and short > 1 and rows > 1:
        assert (decision(text, "p") is None) == (not large or short > 64)
    x = np.random.default_rng(m).integers(0, 250, (n, m)).astype(np.uint8)
    whole = np.pad(x, ((0, 0), (0, rows * short - m))).reshape(n, rows, short)
    result = np.asarray(hloom.compile(parse_module(text))(x))
    assert np.array_equal(result, whole.sum(-1, dtype=np.uint32))


def smoothed(of: str, narrow: str) -> str | None:
    """Whether a conversion is read by each of nine neighbours, or kept."""
    rows, n = 1000, 2000
    lines = ["HloModule m", "ENTRY e {", f"  x = {narrow}[{rows},{n}] parameter(0)"]
    lines.append(f"  w = {of}[{rows},{n}] convert(x)")
    total = ""
    for k in range(9):
        i, j = divmod(k, 3)
        part = f"slice={{[{i}:{rows - 2 + i}], [{j}:{n - 2 + j}]}}"
        lines.append(f"  near{k} = {of}[{rows - 2},{n - 2}] slice(w), {part}")
        if total:
            lines.append(f"  sum{k} = {of}[{rows - 2},{n - 2}] add({total}, near{k})")
        total = f"sum{k}" if k else "near0"
    lines.append(f"  ROOT r = {narrow}[{rows - 2},{n - 2}] convert({total})")
    return decision("\n".join([*lines, "}"]), "w")


def test_narrow_numbers_are_computed_again_rather_than_kept():
    assert smoothed("u16", "u8") is None


SPREAD = """HloModule m
ENTRY e {{
  x = f32[{n},{m}] parameter(0)
  y = f32[{rows},{columns}] parameter(1)
  z = f32[] constant(0)
  t = f32[{n},{m}] tanh(x)
  p = f32[{rows},{columns}] pad(t, z), padding={padding}
  ROOT r = f32[{rows},{columns}] add(p, y)
}}"""


@pytest.mark.parametrize("across", [False, True])
def test_what_is_spread_in_lanes_is_computed_for_the_lanes_between_too(across: bool):
    n, m = 500, 64
    rows, columns = (2 * n, m) if across else (n, 2 * m)
    padding = "0_1_1x0_0" if across else "0_0x0_1_1"
    text = SPREAD.format(n=n, m=m, rows=rows, columns=columns, padding=padding)
    assert (decision(text, "t") is None) == across
    assert decision(text, "p") is None


BETWEEN = """HloModule m
ENTRY e {{
  x = f32[{n},1,{features}] parameter(0)
  y = f32[{n},1,{features}] parameter(1)
  c = f32[{n},2,{features}] concatenate(x, y), dimensions={{1}}
  ROOT t = f32[{features},{n},2] transpose(c), dimensions={{2,0,1}}
}}"""


@pytest.mark.parametrize("n,features,is_apart", [(900, 24, True), (900, 3, False), (9, 24, False)])
def test_parts_that_take_turns_are_joined_before_they_are_turned(
    n: int, features: int, is_apart: bool
):
    # Rows of two elements that stay beside the next two are one long row.
    assert (decision(BETWEEN.format(n=n, features=features), "c") is not None) == is_apart


SPREAD_IN_LOOP = """HloModule m
body {
  x = f32[1024] parameter(0)
  h = f32[512] slice(x), slice={[0:512]}
  z = f32[] constant(0)
  t = f32[512] tanh(h)
  p = f32[1024] pad(t, z), padding=0_1_1
  ROOT r = f32[1024] add(p, x)
}
condition { y = f32[1024] parameter(0) ROOT s = pred[] constant(true) }
ENTRY e { w = f32[1024] parameter(0) ROOT l = f32[1024] while(w), condition=condition, body=body }
"""


def test_small_kernels_start_at_once_in_loops():
    assert decision(SPREAD_IN_LOOP, "t") is not None
    entry = SPREAD_IN_LOOP.replace("body {", "ENTRY body {").split("condition {")[0]
    assert decision(entry, "t") is None
