"""Attention as one native kernel, against the interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hloom
from hloom.passes.fuse.attention_fusion import AttentionFusion
from tests.codegen.products import agrees


@pytest.fixture(autouse=True)
def any_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores that fill the second-level cache are one kernel: here so many, whatever the processor
    has."""
    form = AttentionFusion._form
    here = AttentionFusion()

    def as_here(self: AttentionFusion, i: hloom.Instruction) -> object:
        return form(replace(self, min_scores=here.min_scores), i)

    monkeypatch.setattr(AttentionFusion, "_form", as_here)


# Each dot of scores: what it multiplies, and the dimensions of its result.
SIDES = {
    "qk": ("%q, %k", "{b},{m},{n}", 1, 2),
    "kq": ("%k, %q", "{b},{n},{m}", 2, 1),
}


def masking(mask: str, shape: str, sizes: str, biases: str, row: int, key: int) -> str:
    """The lines that make the masked scores `%s` of the scores `%d`."""
    if mask == "causal":
        return f"""%i = s32[{sizes}] iota(), iota_dimension={row}
  %j = s32[{sizes}] iota(), iota_dimension={key}
  %seen = pred[{sizes}] compare(%i, %j), direction=GE
  %s = {shape} select(%seen, %d, %lows)"""
    if mask == "bias":
        return f"""%bias = {biases} parameter(3)
  %biases = {shape} broadcast(%bias), dimensions={{{row},{key}}}
  %s = {shape} add(%d, %biases)"""
    return f"%s = {shape} multiply(%d, %scales)"


def module(
    b: int,
    m: int,
    n: int,
    d: int,
    c: int,
    sides: str = "qk",
    of: str = "f32",
    mask: str = "",
    floor: str = "",
    least_total: str = "",
    values_first: bool = False,
) -> str:
    """Softmax of the scores of `m` rows and `n` keys of depth `d`, times values of `c` columns."""
    operands, dims, row, key = SIDES[sides]
    sizes = dims.format(b=b, m=m, n=n)
    shape, rows = f"{of}[{sizes}]", f"{of}[{b},{m}]"
    bounded = f"%m = {rows} copy(%most)"
    if floor:
        bounded = f"""%floor = {of}[] constant({floor})
  %floors = {rows} broadcast(%floor), dimensions={{}}
  %m = {rows} maximum(%floors, %most)"""
    total = f"%z = {rows} copy(%n)"
    if least_total:
        total = f"""%least = {of}[] constant({least_total})
  %leasts = {rows} broadcast(%least), dimensions={{}}
  %z = {rows} maximum(%n, %leasts)"""
    left, right = ("%v", "%p") if values_first else ("%p", "%v")
    contracted = (1, key) if values_first else (key, 1)
    after = f"{of}[{b},{c},{m}]" if values_first else f"{of}[{b},{m},{c}]"
    return f"""HloModule attention
%max {{ %a = {of}[] parameter(0)  %b = {of}[] parameter(1)  ROOT %c = {of}[] maximum(%a, %b) }}
%sum {{ %a = {of}[] parameter(0)  %b = {of}[] parameter(1)  ROOT %c = {of}[] add(%a, %b) }}
ENTRY %main {{
  %q = {of}[{b},{m},{d}] parameter(0)
  %k = {of}[{b},{n},{d}] parameter(1)
  %v = {of}[{b},{n},{c}] parameter(2)
  %low = {of}[] constant(-inf)
  %zero = {of}[] constant(0)
  %scale = {of}[] constant(3)
  %lows = {shape} broadcast(%low), dimensions={{}}
  %scales = {shape} broadcast(%scale), dimensions={{}}
  %d = {shape} dot({operands}), lhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, \
rhs_batch_dims={{0}}, rhs_contracting_dims={{2}}
  {masking(mask, shape, sizes, f"{of}[{m},{n}]", row, key)}
  %most = {rows} reduce(%s, %low), dimensions={{{key}}}, to_apply=%max
  {bounded}
  %ms = {shape} broadcast(%m), dimensions={{0,{row}}}
  %t = {shape} subtract(%s, %ms)
  %e = {shape} exponential(%t)
  %n = {rows} reduce(%e, %zero), dimensions={{{key}}}, to_apply=%sum
  {total}
  %ns = {shape} broadcast(%z), dimensions={{0,{row}}}
  %p = {shape} divide(%e, %ns)
  ROOT %o = {after} dot({left}, {right}), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, \
lhs_contracting_dims={{{contracted[0]}}}, rhs_contracting_dims={{{contracted[1]}}}
}}
"""


def fused(text: str) -> bool:
    """Whether the whole is one attention kernel."""
    return hloom.compile(text).as_text("hlo").count('"kind":"attention"') == 1


@pytest.mark.parametrize("isa", ["", "AVX2", "SSE4_2"])
@pytest.mark.parametrize(
    "size",
    [
        (3, 301, 517, 40, 80),  # blocks, tiles of rows, of keys and of columns with a rest
        (1, 512, 512, 64, 64),  # nothing has a rest
        (700, 50, 9, 3, 5),  # fewer keys than a tile, fewer columns than a vector
        (2, 48, 3000, 17, 1),  # one column, many blocks
        (1, 600, 450, 1, 33),  # depth one
    ],
    ids=str,
)
def test_sizes(size: tuple[int, int, int, int, int], isa: str) -> None:
    text = module(*size)
    assert fused(text)
    agrees(text, "f32", isa)


@pytest.mark.parametrize("of", ["f32", "bf16"])
def test_rows_that_are_masked_whole_are_zero(of: str) -> None:
    """Where maximum and sum are kept above what such a row has."""
    text = module(2, 301, 519, 16, 24, of=of, mask="bias", floor="-1e38", least_total="0.5")
    assert fused(text)
    rng = np.random.default_rng(0)
    shapes = [(2, 301, 16), (2, 519, 16), (2, 519, 24)]
    bias = np.where(rng.random((301, 519)) < 0.5, 0, -np.inf)
    bias[[0, 7, 300]] = -np.inf
    given = [hloom.Literal.of(rng.normal(size=n), of) for n in shapes]
    out = np.asarray(hloom.compile(text)(*given, hloom.Literal.of(bias, of)), np.float32)
    assert not out[:, [0, 7, 300]].any() and np.isfinite(out).all() and out[:, 1].all()
    if of == "f32":
        agrees(text, of)


@pytest.mark.parametrize("size", [(12, 129, 257, 32, 40), (2, 301, 519, 32, 40)], ids=str)
def test_few_keys_in_the_last_block(size: tuple[int, int, int, int, int]) -> None:
    """Values that lie along the keys are turned in squares, which no block is to be too short
    for: one key and seven behind whole blocks."""
    text = module(*size, values_first=True)
    b, _, n, _, c = size
    text = text.replace(f"%v = f32[{b},{n},{c}]", f"%v = f32[{b},{c},{n}]")
    text = text.replace("lhs_contracting_dims={1}", "lhs_contracting_dims={2}")
    assert fused(text)
    agrees(text, "f32")


@pytest.mark.parametrize("values_first", [False, True])
@pytest.mark.parametrize("mask", ["causal", "bias"])
@pytest.mark.parametrize("sides", SIDES)
def test_masks(sides: str, mask: str, values_first: bool) -> None:
    """Rows or keys first, values first or last; masks that are computed, and that are read."""
    text = module(2, 390, 350, 24, 40, sides, mask=mask, values_first=values_first)
    assert fused(text)
    agrees(text, "f32")


@pytest.mark.parametrize("of", ["bf16", "f16"])
def test_narrow_types(of: str) -> None:
    """Nearer to what wide numbers give than the type's own steps are."""
    text = module(2, 390, 350, 24, 40, of=of)
    assert fused(text)
    rng = np.random.default_rng(0)
    kind = hloom.parse(text).entry.root.shape.dtype.numpy
    # Small scores: they are rounded once, and weights are off by as much as their scores are.
    given = [
        (0.3 * rng.standard_normal((2, m, d))).astype(kind)
        for m, d in ((390, 24), (350, 24), (350, 40))
    ]
    found = np.asarray(hloom.compile(text)(*given)).astype(np.float32)
    wide = hloom.parse(module(2, 390, 350, 24, 40))
    wanted = np.asarray(hloom.evaluate(wide, *[x.astype(np.float32) for x in given]).array)
    off = {"bf16": 2.0**-8, "f16": 2.0**-11}[of] * 8
    np.testing.assert_allclose(found, wanted, atol=off * np.abs(wanted).max())


@pytest.mark.parametrize("floor", ["1.5", "-inf", "-1e30"])
def test_a_least_maximum(floor: str) -> None:
    text = module(2, 390, 350, 24, 40, floor=floor)
    assert fused(text)
    agrees(text, "f32")


def test_rows_that_are_masked_whole_and_late() -> None:
    """-inf everywhere gives NaN as HLO says; -inf in the first blocks only gives no NaN."""
    m, n = 500, 600
    text = module(1, m, n, 8, 8, mask="bias")
    assert fused(text)
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, x, 8)).astype(np.float32) for x in (m, n, n))
    bias = np.zeros((m, n), np.float32)
    bias[3] = -np.inf
    bias[5:100, :550] = -np.inf
    bias[200, 17] = np.inf
    bias[201, 555] = np.nan
    found = np.asarray(hloom.compile(text)(q, k, v, bias))
    wanted = np.asarray(hloom.evaluate(hloom.parse(text), q, k, v, bias).array)
    assert np.isnan(wanted[0, [3, 200, 201]]).all()
    assert not np.isnan(wanted[0, 5:100]).any()
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-6)


def test_heads_that_lie_between_rows_and_depth() -> None:
    """Groups of heads share keys; operands and result are transposed inside of the kernel."""
    text = """HloModule grouped
%max { %a = f32[] parameter(0)  %b = f32[] parameter(1)  ROOT %c = f32[] maximum(%a, %b) }
%sum { %a = f32[] parameter(0)  %b = f32[] parameter(1)  ROOT %c = f32[] add(%a, %b) }
ENTRY %main {
  %q = f32[2,130,2,3,16] parameter(0)
  %k = f32[2,400,2,16] parameter(1)
  %v = f32[2,400,2,16] parameter(2)
  %low = f32[] constant(-inf)
  %zero = f32[] constant(0)
  %d = f32[2,2,130,3,400] dot(%q, %k), lhs_batch_dims={0,2}, lhs_contracting_dims={4}, \
rhs_batch_dims={0,2}, rhs_contracting_dims={3}
  %i = s32[2,2,130,3,400] iota(), iota_dimension=2
  %j = s32[2,2,130,3,400] iota(), iota_dimension=4
  %seen = pred[2,2,130,3,400] compare(%i, %j), direction=GE
  %lows = f32[2,2,130,3,400] broadcast(%low), dimensions={}
  %s = f32[2,2,130,3,400] select(%seen, %d, %lows)
  %m = f32[2,2,130,3] reduce(%s, %low), dimensions={4}, to_apply=%max
  %ms = f32[2,2,130,3,400] broadcast(%m), dimensions={0,1,2,3}
  %t = f32[2,2,130,3,400] subtract(%s, %ms)
  %e = f32[2,2,130,3,400] exponential(%t)
  %n = f32[2,2,130,3] reduce(%e, %zero), dimensions={4}, to_apply=%sum
  %ns = f32[2,2,130,3,400] broadcast(%n), dimensions={0,1,2,3}
  %p = f32[2,2,130,3,400] divide(%e, %ns)
  %o = f32[2,2,130,3,16] dot(%p, %v), lhs_batch_dims={0,1}, lhs_contracting_dims={4}, \
rhs_batch_dims={0,2}, rhs_contracting_dims={1}
  ROOT %r = f32[2,130,2,3,16] transpose(%o), dimensions={0,2,1,3,4}
}
"""
    assert fused(text)
    agrees(text, "f32")


def test_a_softmax_along_the_rows_is_none() -> None:
    """The same operations, but weights that sum to one over the rows."""
    text = module(2, 390, 350, 24, 40)
    text = text.replace("dimensions={2}, to_apply", "dimensions={1}, to_apply")
    text = text.replace("f32[2,390] reduce", "f32[2,350] reduce").replace(
        "f32[2,390] copy", "f32[2,350] copy"
    )
    text = text.replace("dimensions={0,1}", "dimensions={0,2}")
    assert not fused(text)
    agrees(text, "f32")


def test_its_sums_are_not_cut_in_parts() -> None:
    """Along columns, of so many keys as other threads could sum by themselves."""
    text = """HloModule m
    largest { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] maximum(a, b) }
    sum { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT c = f32[] add(a, b) }
    ENTRY e { x = f32[1,8,512] parameter(0)
      y = f32[1,8,600] parameter(1)
      v = f32[1,512,4] parameter(2)
      s = f32[1,512,600] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0},
        lhs_contracting_dims={1}, rhs_contracting_dims={1}
      low = f32[] constant(-inf)
      m = f32[1,600] reduce(s, low), dimensions={1}, to_apply=largest
      ms = f32[1,512,600] broadcast(m), dimensions={0,2}
      d = f32[1,512,600] subtract(s, ms)
      p = f32[1,512,600] exponential(d)
      zero = f32[] constant(0)
      t = f32[1,600] reduce(p, zero), dimensions={1}, to_apply=sum
      ts = f32[1,512,600] broadcast(t), dimensions={0,2}
      q = f32[1,512,600] divide(p, ts)
      ROOT o = f32[1,600,4] dot(q, v), lhs_batch_dims={0}, rhs_batch_dims={0},
        lhs_contracting_dims={1}, rhs_contracting_dims={1} }"""
    exe = hloom.compile(text)
    assert [f.name for f in exe.stages.lowering.families.values()] == ["attention"]
    agrees(text, "f32")


@pytest.mark.parametrize(
    "keys, rows, heads, depth", [(512, 128, 3, 16), (129, 65, 3, 16), (257, 129, 2, 65)]
)
def test_grouped_heads_as_einsum_writes_them(keys: int, rows: int, heads: int, depth: int) -> None:
    """`btghd,bsgd->bghts` and `bghts,bsgd->btghd`, whose dots JAX writes with the cache first: the
    heads of a group lie between positions and features, and scores come keys by queries."""
    text = f"""HloModule grouped
%max {{ %a = f32[] parameter(0)  %b = f32[] parameter(1)  ROOT %c = f32[] maximum(%a, %b) }}
%sum {{ %a = f32[] parameter(0)  %b = f32[] parameter(1)  ROOT %c = f32[] add(%a, %b) }}
ENTRY %main {{
  %q = f32[1,{rows},{heads},4,{depth}] parameter(0)
  %k = f32[1,{keys},{heads},{depth}] parameter(1)
  %v = f32[1,{keys},{heads},24] parameter(2)
  %d = f32[1,{heads},{keys},{rows},4] dot(%k, %q), lhs_batch_dims={{0,2}}, rhs_batch_dims={{0,2}}, \
lhs_contracting_dims={{3}}, rhs_contracting_dims={{4}}
  %t = f32[1,{heads},4,{rows},{keys}] transpose(%d), dimensions={{0,1,4,3,2}}
  %low = f32[] constant(-inf)
  %most = f32[1,{heads},4,{rows}] reduce(%t, %low), dimensions={{4}}, to_apply=%max
  %mosts = f32[1,{heads},4,{rows},{keys}] broadcast(%most), dimensions={{0,1,2,3}}
  %less = f32[1,{heads},4,{rows},{keys}] subtract(%t, %mosts)
  %e = f32[1,{heads},4,{rows},{keys}] exponential(%less)
  %zero = f32[] constant(0)
  %total = f32[1,{heads},4,{rows}] reduce(%e, %zero), dimensions={{4}}, to_apply=%sum
  %totals = f32[1,{heads},4,{rows},{keys}] broadcast(%total), dimensions={{0,1,2,3}}
  %p = f32[1,{heads},4,{rows},{keys}] divide(%e, %totals)
  %o = f32[1,{heads},24,4,{rows}] dot(%v, %p), lhs_batch_dims={{0,2}}, rhs_batch_dims={{0,1}}, \
lhs_contracting_dims={{1}}, rhs_contracting_dims={{4}}
  ROOT %r = f32[1,{rows},{heads},4,24] transpose(%o), dimensions={{0,4,1,3,2}}
}}
"""
    agrees(text, "f32")
    if keys == 512:
        kernels = hloom.compile(hloom.parse(text)).as_text("hlo")
        assert '"kind":"attention"' in kernels
