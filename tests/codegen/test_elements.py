"""Elements of kernels in types that few programs use, against the interpreter."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import hloom
from hloom.compiler import compile_module
from tests.codegen.products import agrees


def agree(text: str) -> None:
    """Native code and interpreter give the same numbers."""
    module = hloom.parse("HloModule m\n" + text)
    literals = hloom.random_arguments(module)
    given = [part.array for literal in literals for part in literal.leaves()]
    found = compile_module(module)(*given)
    wanted = [part.array for part in hloom.evaluate(module, *literals).leaves()]
    found = found if isinstance(found, tuple | list) else [found]
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), theirs)


@pytest.mark.parametrize("t", ["c64", "c128", "pred", "f8e4m3fn"])
def test_bits_of_the_same_type(t: str) -> None:
    agree(f"ENTRY e {{ x = {t}[3,5] parameter(0) ROOT r = {t}[3,5] bitcast-convert(x) }}")


@pytest.mark.parametrize("t", ["f8e5m2", "f8e4m3fn", "f8e3m4", "f4e2m1fn"])
def test_narrow_numbers_are_rounded_by_every_operation(t: str) -> None:
    agree(f"""
ENTRY e {{
  x = {t}[300] parameter(0)
  c = {t}[] constant(6)
  b = {t}[300] broadcast(c), dimensions={{}}
  s = {t}[300] add(x, b)
  d = {t}[300] subtract(s, b)
  ROOT r = {t}[300] multiply(d, x)
}}""")


def test_sums_of_narrow_numbers_are_rounded_once() -> None:
    module = hloom.parse("""HloModule m
f { a = f8e5m2[] parameter(0) b = f8e5m2[] parameter(1) ROOT r = f8e5m2[] add(a, b) }
ENTRY e {
  x = f8e5m2[512,512] parameter(0)
  z = f8e5m2[] constant(0)
  ROOT r = f8e5m2[512] reduce(x, z), dimensions={1}, to_apply=f
}""")
    x = np.full((512, 512), 0.25, ml_dtypes.float8_e5m2)
    assert (np.asarray(compile_module(module)(x)).astype(np.float32) == 128).all()


FAR = {
    "behind": "ROOT r = T[60000] pad(x, c), padding=0_55000",
    "before": "ROOT r = T[60000] pad(x, c), padding=55000_0",
    "around, backwards": """p = T[60001] pad(x, c), padding=27000_28001
  ROOT r = T[60001] reverse(p), dimensions={0}""",
    "every third": """p = T[60000] pad(x, c), padding=27000_28000
  ROOT r = T[20000] slice(p), slice={[0:60000:3]}""",
    "rows that begin anywhere": """p = T[60000] pad(x, c), padding=27001_27999
  m = T[40,1500] reshape(p)
  ROOT r = T[1500,40] transpose(m), dimensions={1,0}""",
}


@pytest.mark.parametrize("isa", ["", "AVX2", "SSE4_2"])
@pytest.mark.parametrize("of", ["f32", "u8", "bf16", "c64", "f64"])
@pytest.mark.parametrize("name", FAR)
def test_masks_that_exclude_what_is_far_outside(name: str, of: str, isa: str) -> None:
    """It is not even asked for: where no memory is, that takes hundreds of cycles."""
    body = FAR[name].replace("T[", f"{of}[")
    text = f"""HloModule far
ENTRY main {{
  x = {of}[5000] parameter(0)
  c = {of}[] constant({"(3, 1)" if of == "c64" else 3})
  {body}
}}
"""
    if name in ("behind", "before", "rows that begin anywhere"):
        assert "far(true)" in hloom.compile(text).as_text("kernels")
    agrees(text, of, isa)


def test_masks_that_exclude_what_is_beside_a_buffer_are_as_they_were() -> None:
    text = """HloModule near
ENTRY main {
  x = f32[5000] parameter(0)
  c = f32[] constant(3)
  ROOT r = f32[5900] pad(x, c), padding=400_500
}
"""
    kernels = hloom.compile(text).as_text("kernels")
    assert " mask(" in kernels and "far(" not in kernels
    agrees(text, "f32")


PADDED_ROWS = """HloModule m
add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT s = f32[] add(x, y) }
ENTRY e {
  p = f32[ROWS,WIDTH] parameter(0)
  z = f32[] constant(0)
  sums = f32[ROWS] reduce(p, z), dimensions={1}, to_apply=add
  every = f32[ROWS,64] broadcast(sums), dimensions={0}
  q = f32[ROWS,64] parameter(1)
  parts = f32[ROWS,64] divide(q, every)
  wide = f32[ROWS,WIDTH] pad(parts, z), padding=0_0xBEFORE_0
  ROOT o = f32[ROWS,WIDTH] add(wide, p)
}"""


@pytest.mark.parametrize("rows,before", [(8, 32), (1, 33), (7, 1), (191, 1176)])
def test_what_a_row_has_once_is_not_made_for_each_element_behind_a_mask(rows, before):
    """A sum of the row, read where a pad has its elements: it was folded for every element."""
    width = 64 + before
    text = PADDED_ROWS.replace("ROWS", str(rows)).replace("BEFORE", str(before))
    compiled = hloom.compile(text.replace("WIDTH", str(width)))
    depth = deepest = 0
    for line in compiled.as_text("kernels").splitlines():
        depth += (" = for " in line or line.lstrip().startswith("for ")) - (line.strip() == "}")
        deepest = max(deepest, depth)
    assert deepest <= 1
    p = np.random.default_rng(rows).random((rows, width), np.float32) + 1
    q = np.random.default_rng(before).random((rows, 64), np.float32)
    wide = np.pad(q / p.sum(1, keepdims=True), ((0, 0), (before, 0)))
    assert np.allclose(np.asarray(compiled(p, q)), wide + p, rtol=1e-5)


@pytest.mark.parametrize(("rows", "n"), [(3, 64), (1, 130), (5, 7)])
@pytest.mark.parametrize("t", ["f32", "s8", "f64"])
def test_interleaved_parts_of_what_is_computed(t: str, rows: int, n: int) -> None:
    """Elements put between others, twice, as in a scan by halves."""
    many, more = 2 * n, 4 * n
    agree(f"""
ENTRY e {{
  x = {t}[{rows},{more}] parameter(0)
  z = {t}[] constant(0)
  even = {t}[{rows},{many}] slice(x), slice={{[0:{rows}], [0:{more - 1}:2]}}
  odd = {t}[{rows},{many}] slice(x), slice={{[0:{rows}], [1:{more}:2]}}
  pairs = {t}[{rows},{many}] maximum(even, odd)
  halves = {t}[{rows},{n}] slice(pairs), slice={{[0:{rows}], [0:{many - 1}:2]}}
  first = {t}[{rows},{many}] pad(halves, z), padding=0_0x0_1_1
  second = {t}[{rows},{many}] pad(halves, z), padding=0_0x1_0_1
  both = {t}[{rows},{many}] add(first, second)
  start = {t}[{rows},1] slice(x), slice={{[0:{rows}], [0:1]}}
  rest = {t}[{rows},{many - 1}] slice(both), slice={{[0:{rows}], [0:{many - 1}]}}
  after = {t}[{rows},{many - 1}] slice(x), slice={{[0:{rows}], [2:{more}:2]}}
  joined = {t}[{rows},{many - 1}] maximum(rest, after)
  all = {t}[{rows},{many}] concatenate(start, joined), dimensions={{1}}
  p = {t}[{rows},{more}] pad(all, z), padding=0_0x0_1_1
  q = {t}[{rows},{more}] pad(both, z), padding=0_0x1_0_1
  ROOT r = {t}[{rows},{more}] add(p, q)
}}""")
