"""Forms of fusions, read back from their bodies: kind, rows, columns, anchor, and refusals."""

import pytest

from hloom.analysis.attention import Attention, attention_pattern
from hloom.analysis.fusible import ALONE, role
from hloom.ir.text import parse_module
from tests.passes.fuse.fusion_reading import form_of

SUM = "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }"


def fusion(body, inputs, result, kind="kLoop"):
    given = "\n".join(f"  p{k} = {s} parameter({k})" for k, s in enumerate(inputs))
    names = ", ".join(f"p{k}" for k in range(len(inputs)))
    text = f"""HloModule m
{SUM}
fused {{
{given}
{body}
}}
ENTRY e {{
{given}
  ROOT f = {result} fusion({names}), kind={kind}, calls=fused
}}
"""
    return parse_module(text).entry.root


def test_a_row_form_knows_rows_and_columns():
    f = fusion(
        """  z = f32[] constant(0)
  r = f32[2,3] reduce(p0, z), dimensions={2}, to_apply=sum
  s = f32[2,3] sqrt(r)
  b = f32[2,3,5] broadcast(s), dimensions={0,1}
  d = f32[2,3,5] divide(p0, b)
  ROOT t = (f32[2,3,5], f32[2,3]) tuple(d, s)""",
        ["f32[2,3,5]"],
        "(f32[2,3,5], f32[2,3])",
    )
    (form,) = form_of(f)
    assert (form.kind, form.lead, form.columns) == ("row", 2, (5,))
    x = f.called[0].parameters[0]
    assert len(form.accesses[x]) == 1


def test_a_column_form_and_its_epilogue():
    f = fusion(
        """  z = f32[] constant(0)
  n = f32[4,5] negate(p0)
  r = f32[5] reduce(n, z), dimensions={0}, to_apply=sum
  ROOT s = f32[5] sqrt(r)""",
        ["f32[4,5]"],
        "f32[5]",
    )
    (form,) = form_of(f)
    assert (form.kind, form.space.sizes, form.outer) == ("column", [5, 4], 1)


def test_an_output_form_has_an_anchor_and_a_prologue():
    f = fusion(
        """  c = f32[40,50] convert(p0)
  d = f32[40,60] dot(c, p1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[40,60] tanh(d)""",
        ["bf16[40,50]", "f32[50,60]"],
        "f32[40,60]",
        "kOutput",
    )
    (form,) = form_of(f)
    assert form.kind == "output"
    assert form.anchor.opcode == "dot"
    assert {x.opcode for x in form.prologue} == {"convert", "parameter"}


def test_a_sequence_has_a_form_for_each_result():
    f = fusion(
        """  one = s32[] constant(1)
  n = s32[] add(p0, one)
  v = f32[3] negate(p1)
  ROOT t = (s32[], f32[3]) tuple(n, v)""",
        ["s32[]", "f32[3]"],
        "(s32[], f32[3])",
    )
    assert [form.space.sizes for form in form_of(f)] == [[], [3]]


@pytest.mark.parametrize(
    "body, inputs, result, why",
    [
        (
            """  z = f32[] constant(0)
  r = f32[5] reduce(p0, z), dimensions={0}, to_apply=sum
  b = f32[5,5] broadcast(r), dimensions={1}
  ROOT d = f32[5,5] divide(p0, b)""",
            ["f32[5,5]"],
            "f32[5,5]",
            "the reduce is not read along the rows",
        ),
        (
            """  z = f32[] constant(0)
  r = f32[4] reduce(p0, z), dimensions={1}, to_apply=sum
  q = f32[4] reduce(p1, z), dimensions={1}, to_apply=sum
  ROOT d = f32[4] divide(r, q)""",
            ["f32[4,5]", "f32[4,6]"],
            "f32[4]",
            "the reduce is over another size",
        ),
        (
            """  i = s32[] constant(1)
  n = f32[5] negate(p0)
  s = f32[2] slice(n), slice={[3:5]}
  ROOT u = f32[5] dynamic-update-slice(p0, s, i)""",
            ["f32[5]"],
            "f32[5]",
            "it reads a buffer that it writes in place",
        ),
    ],
)
def test_what_is_no_form_says_why(body, inputs, result, why):
    found = form_of(fusion(body, inputs, result))
    assert isinstance(found, str)
    assert why in found


@pytest.mark.parametrize(
    "line, why",
    [
        ("f32[0,3] slice(p), slice={[0:0], [0:3]}", "no elements"),
        ("f32[2,3]{0,1} negate(p)", "not row-major"),
        ("f32[2,3] rng(z, z), distribution=rng_uniform", "a kernel of its own"),
        ("s32[2,3] bitcast(p)", "a bitcast to another type"),
        ("s4[2,3]{1,0:E(4)} convert(p)", "not row-major"),
        ("f32[<=2,3] copy(d)", "dynamic"),
    ],
)
def test_what_stays_alone_says_why(line, why):
    module = parse_module(
        "HloModule m\nENTRY e {\n  p = f32[2,3] parameter(0)\n  d = f32[<=2,3] parameter(1)\n"
        f"  z = f32[] constant(1)\n  ROOT r = {line}\n}}\n"
    )
    kind, reason = role(module.entry.root)
    assert kind == ALONE
    assert why in reason


def test_attention_says_what_is_missing():
    module = parse_module(f"""HloModule m
{SUM}
ENTRY e {{
  q = f32[5,3] parameter(0)
  k = f32[3,7] parameter(1)
  v = f32[7,3] parameter(2)
  z = f32[] constant(0)
  s = f32[5,7] dot(q, k), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  x = f32[5,7] exponential(s)
  n = f32[5] reduce(x, z), dimensions={{1}}, to_apply=sum
  b = f32[5,7] broadcast(n), dimensions={{0}}
  p = f32[5,7] divide(x, b)
  ROOT o = f32[5,3] dot(p, v), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}""")
    c = module.entry
    assert attention_pattern(c["s"]) == "no softmax is read"
    assert attention_pattern(c["x"]) == "no dot"
    found = attention_pattern(c["o"])
    assert not isinstance(found, Attention)
    assert found == "no maximum is subtracted"
