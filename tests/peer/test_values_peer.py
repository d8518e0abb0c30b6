"""Attribute values against jaxlib: the same verdict on each text, and the same text back.

Texts that abort jaxlib have no verdict and are not compared.
"""

import pytest

from hloom.base.diagnostics import ParseError
from hloom.ir.text.cursor import Cursor
from hloom.ir.values.aliasing import (
    parse_buffer_donors,
    parse_input_output_alias,
    parse_output_operand_aliasing,
)
from hloom.ir.values.backend_config import parse_backend_config
from hloom.ir.values.conv_dims import parse_conv_dims
from hloom.ir.values.domain import parse_domain
from hloom.ir.values.frontend import parse_frontend_attributes, parse_statistics
from hloom.ir.values.groups import parse_pairs, parse_replica_groups
from hloom.ir.values.layouts import parse_entry_layout, parse_shapes, show_entry_layout, show_shapes
from hloom.ir.values.metadata import parse_metadata
from hloom.ir.values.original_value import parse_original_value
from hloom.ir.values.padding import parse_padding
from hloom.ir.values.precision import parse_algorithm, parse_precisions, parse_result_accuracy
from hloom.ir.values.sharding import parse_sharding
from hloom.ir.values.slices import parse_slices
from hloom.ir.values.window import parse_window
from tests.peer.jaxlib_answers import ask

pytest.importorskip("jaxlib")

UNARY = """HloModule m
ENTRY e {
  p = f32[4,8]{1,0} parameter(0)
  ROOT n = f32[4,8]{1,0} OP(p)ATTR
}
"""
REDUCER = """HloModule m, replica_count=8
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
"""
NEGATE = UNARY.replace("OP", "negate")
ALL_REDUCE = (
    REDUCER
    + """ENTRY e {
  p = f32[4,8]{1,0} parameter(0)
  ROOT n = f32[4,8]{1,0} all-reduce(p), to_apply=addATTR
}
"""
)
REDUCE_WINDOW = (
    REDUCER
    + """ENTRY e {
  p = f32[4,8]{1,0} parameter(0)
  z = f32[] constant(0)
  ROOT n = f32[4,8]{1,0} reduce-window(p, z), to_apply=addATTR
}
"""
)
PAD = """HloModule m
ENTRY e {
  p = f32[4,8]{1,0} parameter(0)
  z = f32[] constant(0)
  ROOT n = f32[4,8]{1,0} pad(p, z)ATTR
}
"""
CONVOLUTION = """HloModule m
ENTRY e {
  p = f32[1,4,4,1]{3,2,1,0} parameter(0)
  k = f32[1,1,1,1]{3,2,1,0} parameter(1)
  ROOT n = f32[1,4,4,1]{3,2,1,0} convolution(p, k), window={size=1x1}ATTR
}
"""
DOT = """HloModule m
ENTRY e {
  p = f32[4,4]{1,0} parameter(0)
  ROOT n = f32[4,4]{1,0} dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}ATTR
}
"""
TUPLE_CALL = """HloModule m
ENTRY e {
  p = f32[4,8]{1,0} parameter(0)
  q = f32[2]{0} parameter(1)
  ROOT n = (f32[4,8]{1,0}, (f32[2]{0}, f32[2]{0})) custom-call(p, q), custom_call_target="x"ATTR
}
"""
HEADER = """HloModule mATTR
ENTRY e {
  p = f32[2]{0} parameter(0)
  q = f32[2]{0} parameter(1)
  ROOT n = (f32[2]{0}, f32[2]{0}) tuple(p, q)
}
"""


def text_of(value):
    return value.text


SHARDINGS_ACCEPTED = """
{replicated}
{maximal device=3}
{manual}
{unknown}
{unreduced}
{devices=[2,4]0,1,2,3,4,5,6,7}
{devices=[2,4]<=[8]}
{devices=[4,2] <= [2,4] T(1,0)}
{devices=[2,1,4]<=[8] last_tile_dim_replicate}
{devices=[2,1,2,2]<=[8] last_tile_dims={manual,replicated}}
{devices=[2,1,2,2]<=[8] last_tile_dims={manual, unreduced}}
{replicated metadata={op_name="a"}}
{replicated metadata={op_name="a"} metadata={op_name="b"}}
{replicated shard_as 1}
{devices=[2,4]<=[8] shard_like 2}
{}
{{replicated},{manual}}
{{manual},{manual},{manual},{manual},{manual},{manual}}
{{replicated metadata={op_name="a"}},{manual}}
{devices=[2,4]<=[8] metadata={{op_name="a"},{op_name="b"}}}
{devices=[4,2]0,2,4,6,1,3,5,7}
{devices=[2,2]<=[2,2]T(0,1)}
{devices=[8,1]<=[2,2,2]T(1,0,2)}
{devices=[8,1]<=[2,2,2]T(2,0,1)}
{devices=[8,1]<=[2,1,4]T(2,0,1)}
{devices=[2,1,4]<=[8] last_tile_dim_replicate metadata={op_name="a"} shard_as 1}
{devices=[2,1,4]<=[8] shard_as 1 last_tile_dim_replicate }
{devices=[2,1,1,4]<=[8] last_tile_dims={replicated,replicated}}
{devices=[2,1,2,2]<=[8] last_tile_dims={replicated,manual}}
{devices=[2,4]<=[8] last_tile_dims={}}
{devices=[2,1,1]<=[2] last_tile_dim_replicate}
{devices=[1,1,2]<=[2] last_tile_dim_replicate}
{devices=[1,1,2]1,0 last_tile_dims={manual}}
{devices=[1,1,2]<=[2] last_tile_dims={unreduced}}
{devices=[1,1,2]<=[2] last_tile_dims={maximal}}
{devices=[1,1]<=[1]}
{maximal devices=[1]3}
{device=1 maximal}
{devices=[2,1,2]1,0,2,3 last_tile_dim_replicate}
{devices=[2,1,2]3,2,1,0 last_tile_dims={manual}}
{devices=[2,1,2,2]0,1,2,3,4,5,6,7 last_tile_dims={manual,manual}}
{devices=[1,1,1,2,2]<=[4] last_tile_dims={manual,unreduced,replicated}}
{devices=[2,1,4]<=[2,2,2]T(2,1,0) last_tile_dim_replicate}
{devices=[2,1,2,4]<=[4,2,2]T(2,1,0) last_tile_dims={manual,replicated}}
{devices=[2,1,2,2]7,6,5,4,3,2,1,0 last_tile_dims={manual,replicated}}
{devices=[2,1,2,2]<=[2,2,2]T(2,1,0) last_tile_dims={replicated,replicated}}
{devices=[2,1,3,4]<=[4,6]T(1,0) last_tile_dims={replicated,manual}}
{devices=[2,1,4,3]<=[4,6]T(1,0) last_tile_dims={replicated,manual}}
{devices=[3,1,8]<=[6,4]T(1,0) last_tile_dim_replicate}
{devices=[2,1,6,1]<=[12] last_tile_dims={replicated,manual}}
{devices=[4,1]0,1,1,2}
{devices=[2,1]5,9}
{mesh['x'=2,'y'=4], [{'x','y'},{}]}
{mesh["x"=2,"y"=4], [{"x"}, {"y"}]}
{mesh['x'=2,'y'=4], [{'x', ?},{?}]}
{mesh['x'=2,'y'=4], [{'x'},{?}], replicated={'y'}}
{mesh['x'=2,'y'=4,'z'=2], [{},{}], manual={'z'}, replicated={'x'}, unreduced={'y'}}
{mesh['x'=2,'y'=4], [{'y':(2)2},{'y':(1)2}]}
{mesh['y'=8], [{'y':(2)4, 'y':(1)2},{}]}
{mesh['x'=2,'y'=4], []}
{mesh[], []}
{mesh['x'=2], replicated}
{mesh['x'=2], manual}
{mesh['x'=2] unreduced}
{mesh['x'=2], [], replicated={'x'}}
{mesh['x'=2], [], manual={'x'}}
{mesh['x'=2,'y'=2], [], unreduced={'x'}, manual={'y'}}
{mesh['x'=8], [{'x'},{}], metadata={op_name="a"}}
{mesh['x'=2,'y'=4], [{'x',?},{}], metadata={{op_name="s"},{op_name="t"}}}
{mesh['x'=2,'y'=2], device_ids=([4]), [{'x'},{}]}
{mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)), [{'x'},{}]}
{mesh['x'=2,'y'=2], device_ids=(3,1,2,0), [{'x'},{}]}
{maximal_mesh[device_id=3]}
{maximal_mesh[device_id=0], metadata={op_name="a"}}
{{mesh['x'=2], [{'x'}, {}]}, {replicated}}
"""
SHARDINGS_REFUSED = """
{replicated, shard_as 1}
{{replicated},{{manual},{replicated}}}
{{}}
{{replicated}, {devices=[2,4]<=[8]} metadata={op_name="a"}}
{devices=[1,1]0}
{devices=[4,2]<=[8]T(0)}
replicated
{maximal}
{device=3}
{bad}
{shard_as 1}
{devices=[]0}
{devices=[4,2]<=[2,4]}
{replicated device=3}
{devices=[2,1,2]<=[4] last_tile_dims={bad}}
{devices=[2,1,2]<=[4] last_tile_dims={unknown}}
{devices=[2]<=[2] last_tile_dims={manual,manual}}
{devices=[4,1]<=[4],}
{replicated metadata={{op_name="a"},}}
{{replicated},{manual},}
{{replicated}{manual}}
{replicated shard_as a}
{Replicated}
{mesh[x=2,y=4], [{x},{y}]}
{mesh<x=2,y=4>, [{x},{y}]}
{mesh['x'=8], [{'x'},{}] shard_as 1}
{mesh['x'=2,'y'=2], device_ids=[3,2,1,0], [{'x'},{}]}
{maximal_mesh[device=3], []}
{mesh['x'=2,'y'=4], [{'x'}{}]}
{mesh['x'=2,'y'=4]}
{mesh['x'=2], [{'x', ? },{ ? , 'x'}]}
"""


def lines(block):
    return [line for line in block.strip().splitlines() if line]


# What is asked: (name, module text, attribute, reader, writer, accepted texts, refused texts).
GROUPS = [
    ("sharding", NEGATE, "sharding", parse_sharding, text_of,
     lines(SHARDINGS_ACCEPTED), lines(SHARDINGS_REFUSED)),
    ("window", REDUCE_WINDOW, "window", parse_window, text_of,
     ["{size=1x1}", "{size=1}", "{size=12x034}", "{size=0x10}", "{pad=1_1x1_1 size=1x1}",
      "{size=3x3 stride=2x2 pad=1_1x1_1 lhs_dilate=2x2 rhs_dilate=1x2 rhs_reversal=1x0}",
      "{size=1x1 stride=1x1}", "{size=1x1 pad=-1_2x0_0}", "{size=1x1 rhs_reversal=2x1}",
      "{size=0x1 stride=0x0}"],
     ["{pad=1_1x1_1}", "{stride=2x2}", "{size=1x1 stride=2}", "{size=1x1 bad=2x2}",
      "{size=1x1 size=2x2}", "{size=1x1, stride=2x2}", "{size=1 x 1}", "{ size = 1x1 }",
      "{size=1x}", "{size=-1x1}", "{size=1x1 pad=1x1}", "{size=1_1}", "{size=1x1 pad=1_1_1x1}",
      "{size=}"]),
    ("padding", PAD, "padding", parse_padding, text_of,
     ["0_0x0_0", "0_0_0x1_2", "0_0_0x1_2_3", "-1_-2_0x1_2", "1_2_0x0_0_0"],
     ["0x0", "{0_0}", "0_", "0_0_0_0x0_0", "0_0x", "0_0_-1x0_0"]),
    ("slice", UNARY.replace("OP", "slice"), "slice", parse_slices, text_of,
     ["{[0:4], [0:8]}", "{[0:4:1], [0:8:2]}", "{}", "{[0:4]}", "{ [ 0 : 4 ] , [0:8] }",
      "{[-1:4], [0:8]}", "{[0:4:0], [0:8:-1]}"],
     ["{[0:4],[0:8],}", "{[0:4] [0:8]}", "{[0:4:1:1], [0:8]}", "{[0], [0:8]}", "{[:4], [0:8]}",
      "[0:4]", "{[0:4}"]),
    ("dim_labels", CONVOLUTION, "dim_labels", parse_conv_dims, text_of,
     ["b01f_01io->b01f", "b?01f_01io->b01f", "b01?f_0?1io->b01f", "b01f_io01->01bf",
      "b01f_01io->b0f1", "b0f_0io->b0f", "bf_io->bf", "b01f_01oi->b01f", "b01f_01io->b01f?",
      "bf0?_io0?->bf0?", "b012f_012io->b012f", "b?f01_?01io->?b01f",
      "bf0123456789_0123456789io->0123456789bf"],
     ["b01f_01io", "b01f_01ii->b01f", "b01f_01io -> b01f", "b01ff_01io->b01f",
      "B01F_01io->b01f", "b01x_01io->b01f", "b00f_01io->b01f", "b01f_01io-b01f"]),
    ("replica_groups", ALL_REDUCE, "replica_groups", parse_replica_groups, text_of,
     ["{}", "{{}}", "{{0,1}, {2,3}}", "{{0},{1,2}}", "[2,4]<=[8]", "[4,2]<=[2,4]T(1,0)",
      "[2,4] <= [8]", "[4,2]<=[4,2]T(0,1)", "[1,8]<=[2,2,2]T(2,0,1)", "{{0,1},{0,1}}",
      "mesh['x'=2,'y'=4] {'x'}", "mesh['x'=2,'y'=4], {'x'}", "mesh['x'=2,'y'=4]{'y','x'}",
      "mesh['x'=2,'y'=4], device_ids=([2,2,2]T(1,0,2)) {'x'}",
      "mesh['x'=2,'y'=4], device_ids=(7,6,5,4,3,2,1,0) {'x'}", "mesh['x'=2,'y'=4] {'y':(2)2}"],
     ["[8]<=[8]", "[2,2,2]<=[8]", "[2,4]", "{0,1}", "['x'=2] {'x'}", "mesh[x=2,y=4] {x}",
      "@mesh<x=2,y=4> {x}", "mesh['x'=2,'y'=4] {}", "mesh[] {}"]),
    ("source_target_pairs", UNARY.replace("OP", "collective-permute"), "source_target_pairs",
     parse_pairs, lambda v: "{" + ",".join(f"{{{a},{b}}}" for a, b in v) + "}",
     ["{{0,1},{1,2}}", "{}", "{{0,1}}", "{{0,1},{0,1}}"],
     ["{{0,1,2}}", "{{0}}", "{0,1}", "{{0,1}{1,2}}"]),
    ("frontend_attributes", NEGATE, "frontend_attributes", parse_frontend_attributes, text_of,
     ['{k="v",a="b"}', "{k={a=1}}", '{k={"a":1}}', '{k="a\\"b"}', "{k=\"a'b\"}",
      '{k="v",k="w"}', '{a.b-c="x"}', '{k=""}', '{k="{\\"a\\": {\\"b\\"}}"}', '{k="é"}',
      '{k="a\\\\b"}', "{k={a={b}}}", '{k={"a":"}"}}', "{k={}}", '{k="\\t\\x01"}',
      '{x.meshes={mesh = #sdy.mesh<["x"=2]>}}', '{k="a\nb"}'],
     ["{k=v}", '{"k"="v"}', "{k=1}", '{k="v",}', '{1k="v"}', "{k=[1,2]}", '{k:="v"}']),
    ("statistics", NEGATE, "statistics", parse_statistics, text_of,
     ["{visualizing_index=0,stat-a=1}", "{visualizing_index=1,a=1,b=2.5}",
      "{visualizing_index=0, a=1e-3, b=-2}", "{visualizing_index=0,a=1000000000}"],
     ["{visualizing_index=a}"]),
    ("origin", TUPLE_CALL, "origin", parse_original_value, text_of,
     ['{({"a"}, ({"b"}, {"c" {1}}))}', '{({"a"}, ({"b"}, {}))}', "{({},({},{}))}",
      '{({"a" {}}, ({"b" {1,2}}, {}))}', "{[synthetic_call]}", "{}", '{{"a" {0}}}',
      '{ ( {"a"} , ( {"b"} , { } ) ) }'],
     ['{("a", ("b","c"))}', '{"a"}', "{[synthetic]}", '({"a"}, {"b"})', "()"]),
    ("aliasing", TUPLE_CALL, "output_to_operand_aliasing", parse_output_operand_aliasing, text_of,
     ["{{0}: (0, {})}", "{{0}: (0, {}), {1,0}: (1, {})}", "{{}: (0, {})}",
      "{ {0} : ( 0 , { } ) }", "{{0}: (0, {3})}", "{{0}: (0, {}),}"],
     ["{{0}: (0, {}, may-alias)}", "{{0}: 0}", "{{0}:(0)}"]),
    ("input_output_alias", HEADER, "input_output_alias", parse_input_output_alias, text_of,
     ["{ {0}: (0, {}, may-alias), {1}: (1, {}, must-alias) }", "{{0}: (0, {})}",
      "{{1}: (1, {}), {0}: (0, {})}", "{{0}: (0, {}), {0}: (1, {})}"],
     ["{{0}: (0, {}, bad)}", "{{0}: 0}", "{{0}: (0, {}, undefined-alias)}", "{{0}: (-1,{})}"]),
    ("buffer_donor", HEADER, "buffer_donor", parse_buffer_donors, text_of,
     ["{ (0, {}), (1, {}) }", "{(1, {}),(0, {})}", "{(0, {3})}", "{(0, {}),(0, {})}"],
     ["{(0)}", "{0}"]),
    ("entry_computation_layout", HEADER, "entry_computation_layout", parse_entry_layout,
     show_entry_layout,
     ["{(f32[2]{0}, f32[2]{0})->(f32[2]{0}, f32[2]{0})}", "{(f32[2],f32[2]) -> (f32[2],f32[2])}",
      "{()->()}"],
     ["(f32[2])->f32[2]", "{f32[2]{0}->f32[2]}"]),
    ("metadata", NEGATE, "metadata", parse_metadata, text_of,
     ['{op_name="a"}', '{source_line=3 op_name="b"}', '{op_name="a", op_type="b"}',
      '{op_type="a"op_name="b" source_file="c" source_line=1}', '{scheduling_name="s"}',
      '{op_name="a\\"b\'c\\\\d\\n\\té"}', '{op_name="x" metadata_payload="a"}',
      '{op_type="a" op_name="b" source_file="c" source_line=1 source_end_line=2 source_column=3'
      ' source_end_column=4 scheduling_name="s"}'],
     ["{size_of_generated_code_in_bytes=5}", "{preserve_layout=true}", '{op_name="a" op_name="b"}',
      '{bad="x"}', "{op_name=a}", '{source_line="3"}', "{profile_info={}}",
      "{source_line=99999999999}", "{profile_type={window}}"]),
    ("operand_precision", DOT, "operand_precision", parse_precisions,
     lambda v: "{" + ",".join(v) + "}",
     ["{highest,default}", "{HIGHEST, default}", "{high}", "{high,highest,default}"],
     ["{bad,default}", "highest", "{highest,high,}"]),
    ("algorithm", DOT, "algorithm", parse_algorithm, str,
     ["dot_bf16_bf16_f32_x9", "dot_any_f8_any_f8_f32_fast_accum", "DOT_F32_F32_F32"],
     ["dot_unset", "dot_bad"]),
    ("result_accuracy", UNARY.replace("OP", "exponential"), "result_accuracy",
     parse_result_accuracy, text_of,
     ["{mode=highest}", "{mode=HIGHEST}", "{tolerance={atol=0, rtol=0.1, ulps=2}}",
      "{tolerance={ulps=2,atol=1}}", "{tolerance={rtol=1e-5}}", "{tolerance={}}"],
     ["{}", "{mode=highest, tolerance={atol=0,rtol=0,ulps=2}}", "{mode=bad}", "highest",
      '{mode="highest"}']),
    ("domain", UNARY.replace("OP", "domain"), "domain", parse_domain, text_of,
     ['{kind="sharding", entry={replicated}, exit={maximal device=1}}',
      '{kind="sharding" exit={replicated} entry={maximal device=1}}',
      '{kind="sharding",entry={{replicated},{manual}},exit={{replicated},{manual}}}'],
     ['{kind="bad", entry={replicated}, exit={replicated}}', "{entry={replicated}, exit={manual}}",
      '{kind="sharding", entry={replicated}}', "{kind=sharding, entry={manual}, exit={manual}}"]),
    ("backend_config", NEGATE, "backend_config", parse_backend_config, lambda v: v.text(),
     ['"abc"', '{ "a" : 1 , "b": {"c": [1,2]} }', '"{\\"a\\":1}"', "{}", "{a}", '{"a":"}"}',
      '"a\\"b\'c"', '{"a":"\\n\\""}', '{"a":/*c*/1}', '{"a":é}', "{'a'}", '"é"', '"\\001\\377"'],
     ["abc", "[1,2]"]),
    ("operand_layout_constraints", TUPLE_CALL, "operand_layout_constraints", parse_shapes,
     show_shapes,
     ["{f32[4,8]{1,0}, f32[2]{0}}", "{f32[4,8],f32[2]}"],
     ["f32[4]", "{f32[4,8]{1,0}, f32[2]{0},}"]),
]  # fmt: skip


def ours(reader, writer, text):
    """Our print of the value, or None when we refuse it; all of the text must be read."""
    cursor = Cursor(text + "\n")
    try:
        value = reader(cursor)
    except ParseError:
        return None
    if cursor.skip() < len(cursor.text):
        return None
    return writer(value)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group[0])
def test_verdict_and_text(group):
    _, module, attribute, reader, writer, accepted, refused = group
    texts = [module.replace("ATTR", f", {attribute}={text}") for text in accepted + refused]
    wrong = []
    for i, (text, said) in enumerate(zip(accepted + refused, ask(texts), strict=True)):
        got = ours(reader, writer, text)
        if said and said[0] != "+-"[i >= len(accepted)]:
            wrong.append(f"the list says otherwise than jaxlib of {text}: {said[:300]}")
        elif i >= len(accepted):
            if got is not None:
                wrong.append(f"{text} is refused by jaxlib but we read {got}")
        elif got is None:
            wrong.append(f"{text} is refused by us")
        elif f"{attribute}={got}" not in said.split("+", 1)[1]:
            line = next((x for x in said.splitlines() if attribute + "=" in x), "(absent)")
            wrong.append(f"{text}: we say {got}, jaxlib {line[line.find(attribute) :]}")
    assert not wrong, "\n".join(wrong)
