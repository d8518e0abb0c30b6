"""In-place pairs."""

import pytest

from hloom.analysis.alias import in_place_pairs
from hloom.analysis.alias_fusion import same_index
from hloom.ir.text import parse_module

FUSION = """HloModule m
f {{ p0 = f32[4,2] parameter(0)
  p1 = f32[3] parameter(1)
  p2 = s32[] parameter(2)
{body}
}}
ENTRY e {{ a = f32[4,2] parameter(0)
  b = f32[3] parameter(1)
  c = s32[] parameter(2)
  ROOT r = {shape} fusion(a, b, c), kind=kLoop, calls=f }}"""


def fusion(body: str, shape: str = "f32[8]"):
    return parse_module(FUSION.format(body=body, shape=shape)).entry.root


BITCAST = "x = f32[8] bitcast(p0)\n"


@pytest.mark.parametrize(
    ("body", "pairs"),
    [
        ("ROOT r = f32[8] dynamic-update-slice(x, p1, p2)", [(0, (), ())]),
        ("y = f32[8] add(x, x)\nROOT r = f32[8] dynamic-update-slice(y, p1, p2)", []),
        # What is written elsewhere is read first: the operand cannot be overwritten.
        (
            "d = f32[3] dynamic-slice(x, p2), dynamic_slice_sizes={3}\n"
            "zero = s32[] constant(0)\nd2 = f32[3] add(d, p1)\n"
            "ROOT r = f32[8] dynamic-update-slice(x, d2, zero)",
            [],
        ),
        # What is written in the very place that is read may.
        (
            "d = f32[3] dynamic-slice(x, p2), dynamic_slice_sizes={3}\n"
            "d2 = f32[3] add(d, p1)\nROOT r = f32[8] dynamic-update-slice(x, d2, p2)",
            [(0, (), ())],
        ),
        (
            "d = f32[3] slice(x), slice={[0:3]}\n"
            "d2 = f32[3] add(d, p1)\nROOT r = f32[8] dynamic-update-slice(x, d2, p2)",
            [],
        ),
    ],
)
def test_a_fused_update_is_in_place_where_it_can_be(body, pairs):
    assert [tuple(p) for p in in_place_pairs(fusion(BITCAST + body))] == pairs


def test_each_root_of_a_fusion_is_traced():
    body = (
        "u = f32[4,2] dynamic-update-slice(p0, w, p2, p2)\nROOT t = (f32[4,2], f32[3]) tuple(u, q)"
    )
    head = "w = f32[1,1] constant({{7}})\nq = f32[3] negate(p1)\n"
    pairs = in_place_pairs(fusion(head + body, "(f32[4,2], f32[3])"))
    assert [tuple(p) for p in pairs] == [(0, (), (0,))]


@pytest.mark.parametrize(("beside", "pairs"), [("p2", [(0, (), (1,))]), ("last", [])])
def test_an_update_of_what_it_reads_is_in_place_beside_roots_that_read_other_things(beside, pairs):
    body = f"""{BITCAST}one = s32[] constant(1)
  d = f32[3] dynamic-slice(x, p2), dynamic_slice_sizes={{3}}
  d2 = f32[3] add(d, p1)
  u = f32[8] dynamic-update-slice(x, d2, p2)
  s = f32[1] slice(x), slice={{[7:8]}}
  l = f32[] reshape(s)
  last = s32[] convert(l)
  n = s32[] add({beside}, one)
  ROOT t = (s32[], f32[8]) tuple(n, u)"""
    assert [tuple(p) for p in in_place_pairs(fusion(body, "(s32[], f32[8])"))] == pairs


def entry(lines: str):
    return parse_module("HloModule m\n" + lines).entry


def test_scatter_permute_and_custom_call():
    c = entry("""add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  ROOT t = (f32[], f32[]) tuple(c, d) }
ENTRY e { x = f32[5] parameter(0)
  y = f32[5] parameter(1)
  i = s32[2,1] parameter(2)
  u = f32[2] parameter(3)
  v = f32[2] parameter(4)
  s = (f32[5], f32[5]) scatter(x, y, i, u, v), update_window_dims={}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add
  p = (f32[5], f32[5], f32[5], f32[5]) collective-permute(x, y, x, y), source_target_pairs={{0,0}}
  q = (f32[5], f32[5]) custom-call(x, y), custom_call_target="t",
    output_to_operand_aliasing={{1}: (0, {})}
  ROOT r = f32[5] negate(x) }""")
    assert [tuple(p) for p in in_place_pairs(c["s"])] == [(0, (), (0,)), (1, (), (1,))]
    assert in_place_pairs(c["p"]) == ()
    assert [tuple(p) for p in in_place_pairs(c["q"])] == [(0, (), (1,))]
    assert in_place_pairs(c["r"]) == ()


def test_all_reduce_start_shares_each_operand():
    c = entry("""add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[5] parameter(0)
  y = f32[6] parameter(1)
  s = (f32[5], f32[6]) all-reduce-start(x, y), replica_groups={}, to_apply=add
  ROOT d = (f32[5], f32[6]) all-reduce-done(s) }""")
    assert [tuple(p) for p in in_place_pairs(c["s"])] == [(0, (), (0,)), (1, (), (1,))]


def test_same_index_sees_every_path():
    both = fusion("n = f32[4,2] negate(p0)\nROOT r = f32[4,2] add(n, p0)", "f32[4,2]")
    assert same_index(both) & 1
    turned = "n = f32[4,2] reverse(p0), dimensions={0}\nROOT r = f32[4,2] add(n, p0)"
    assert not same_index(fusion(turned, "f32[4,2]")) & 1


GATHER = """n = s32[3] convert(p1)
  m = s32[3,1] reshape(n)
  g = f32[3] gather({0}, {1}), offset_dims={{}}, collapsed_slice_dims={{0}}, start_index_map={{0}},
    index_vector_dim=1, slice_sizes={{1}}
  {2}"""
TABLE = "t = f32[8] reshape(p0)\n"


def test_same_index_of_numbers_that_say_where():
    rest = "ROOT r = f32[3] add(g, p1)"
    one_each = fusion(TABLE + GATHER.format("t", "m", rest), "f32[3]")
    assert same_index(one_each) & 0b11 == 0b10
    itself = fusion(TABLE + GATHER.format("p1", "m", rest), "f32[3]")
    assert not same_index(itself) & 0b10
    turned = "v = s32[3,1] reverse(m), dimensions={0}\n"
    other = GATHER.format("t", "v", rest).replace("  g =", f"  {turned}  g =")
    assert not same_index(fusion(TABLE + other, "f32[3]")) & 0b10
    rows = """n = s32[3] convert(p1)
  m = s32[3,1] reshape(n)
  ROOT g = f32[3,2] gather(p0, m), offset_dims={1}, collapsed_slice_dims={0},
    start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}"""
    assert not same_index(fusion(rows, "f32[3,2]")) & 0b11
