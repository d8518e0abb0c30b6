"""The text of shapes and layouts, both ways."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloom.base.diagnostics import ParseError
from hloom.types.dtype import ARRAY_TYPES, U32
from hloom.types.layout import layout
from hloom.types.shape import (
    TOKEN_SHAPE,
    UNBOUNDED,
    buffer_shape,
    shape,
    shape_text,
    tuple_shape,
)
from hloom.types.text import (
    ShapeSyntaxError,
    layout_from_text,
    parse_layout,
    parse_program_shape,
    parse_shape,
    program_shape_from_text,
    shape_from_text,
)
from tests.processor_time import at_most

SAME = [
    "f32[2,3]{1,0:T(8,128)(2,1)E(4)S(5)}",
    "f32[2,3]{1,0:T(8)L(4)#(u32)*(u64)E(4)S(5)SC(0:1)(1:2,3)M(8)}",
    "f32[<=5,?]",
    "f32[<=5,?]{1,0}",
    "(f32[2], (s32[], token[]))",
    "b(f32[4]{0})",
    "opaque[]",
    "()",
    "((), ())",
    "f32[]{:S(5)}",
    "f32[2]{0:T()}",
    "f8e4m3b11fnuz[0]",
]


@pytest.mark.parametrize("text", SAME)
def test_reads_back_as_itself(text):
    assert shape_from_text(text).text == text


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (" f32 [ 2 , 3 ] { 1 , 0 : T( 8 , 128 ) ( 2 ) }", "f32[2,3]{1,0:T(8,128)(2)}"),
        ("f32[02]", "f32[2]"),
        ("(  )", "()"),
        ("(/*index=0*/f32[2] , // so\n f32[/*hi*/3])", "(f32[2], f32[3])"),
        ("f32[2]{0:}", "f32[2]{0}"),
        ("f32[2]{0:L(1)E(0)S(0)M(0)}", "f32[2]{0}"),
        ("f32[2,3]{1,0:D(D,C+~)T(8)}", "f32[2,3]{1,0:T(8)}"),
        ("f32[2]{0:#()}", None),
        ("b (f32[4])", "b(f32[4])"),
        ("f32[<= 5, ? ]", "f32[<=5,?]"),
    ],
)
def test_other_spellings(text, plain):
    if plain is None:
        with pytest.raises(ShapeSyntaxError):
            shape_from_text(text)
    else:
        assert shape_from_text(text).text == plain


def test_default_layouts_are_filled_in_when_asked():
    filled, _ = parse_shape("(f32[2,3], f32[2,3]{0,1}, b(s8[4]))", 0, default_layouts=True)
    assert filled.text == "(f32[2,3]{1,0}, f32[2,3]{0,1}, b(s8[4]{0}))"
    assert parse_shape("f32[2,3]")[0].layout is None
    assert parse_shape("f32[2,3]", default_layouts=True)[0].text == "f32[2,3]{1,0}"


def test_wide_tuples_count_their_elements():
    wide = tuple_shape([shape("f32")] * 11)
    assert wide.text.count("/*index=5*/f32[]") == 1 and "/*index=10*/f32[])" in wide.text
    assert "/*" not in shape_text(wide, index_comments=False)
    assert shape_from_text(wide.text) is wide


def test_positions():
    text = "%x = f32[2]{0} add(f32[2]{0} %a)"
    found, end = parse_shape(text, 5)
    assert found is shape_from_text("f32[2]{0}") and text[end:].startswith(" add")
    # A brace that begins no layout belongs to the caller.
    assert parse_shape("f32[2] {\n") == (shape("f32", (2,)), 6)
    assert parse_shape("f32[2]{}") == (shape("f32", (2,)), 6)
    assert parse_layout("x {1,0} y", 2, 2)[1] == 7
    program, end = parse_program_shape("(f32[2], s32[])->f32[2], x=1")
    assert program.text == "(f32[2], s32[])->f32[2]" and end == 23


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("foo[2]", 0),
        ("F32[2]", 0),
        ("tuple[]", 0),
        ("buffer[]", 0),
        ("token[2]", 6),
        ("token[]{0}", 6),
        ("f32", 3),
        ("f32[2", 5),
        ("f32[2,]", 6),
        ("f32[,2]", 4),
        ("f32[-1]", 4),
        ("f32[<=-1]", 6),
        ("f32[<=?]", 6),
        ("f32[9223372036854775808]", 4),
        ("f32[0x10]", 4),
        ("f32[2.0]", 4),
        ("f32[2]{0,1}", 6),
        ("f32[2,3]{0}", 8),
        ("f32[2,3]{0,0}", 8),
        ("f32[2,3]{0,2}", 8),
        ("f32[]{0}", 5),
        ("f32[2]{0:X(1)}", 9),
        ("f32[2]{0:S(5)", 13),
        ("f32[2]{0:S(200)}", 11),
        ("f32[2]{0:L(0)}", 11),
        ("f32[2]{0:T(-8)}", 11),
        ("f32[2]{0:#(f32)}", 11),
        ("f32[2]{0:SC()}", 12),
        ("f32[2,3]{1,0:P(f32[4])}", 15),
        ("(f32[2],)", 8),
        ("(f32[2] s32[])", 8),
        ("(f32[2]", 7),
        ("(f32[2]) x", 9),
        ("f32[2]{0}{0}", 9),
        ("b((f32[4]))", 2),
        ("b(token[])", 0),
        ("b()", 2),
        ("%f32[2]", 0),
    ],
)
def test_wrong_text_has_a_place(text, position):
    with pytest.raises(ShapeSyntaxError) as raised:
        shape_from_text(text)
    assert raised.value.position == position and isinstance(raised.value, ParseError)
    location = raised.value.location
    assert location is not None and (location.line, location.column) == (1, position + 1)


def test_place_in_many_lines():
    with pytest.raises(ShapeSyntaxError) as raised:
        shape_from_text("(f32[2],\n  foo[3])")
    location = raised.value.location
    assert location and (location.line, location.column, location.source) == (2, 3, "  foo[3])")


def test_deep_nesting_is_an_error_not_a_crash():
    for text in ("(" * 10_000, "(" * 10_000 + ")" * 10_000, "b(" * 10_000):
        with pytest.raises(ShapeSyntaxError):
            shape_from_text(text)
    assert shape_from_text("(" * 1000 + ")" * 1000).text == "(" * 1000 + ")" * 1000


def test_layouts():
    assert layout_from_text("{0:#(u32)S(-3)}") is layout(
        (0,), index_primitive_type=U32, memory_space=-3
    )
    assert layout_from_text("{}") is layout(())
    with pytest.raises(ShapeSyntaxError):
        parse_layout("{0}", 0, 2)


def test_program_shapes():
    program = program_shape_from_text("(a.1: f32[2], %b: (s32[], pred[])) -> f32[2]")
    assert program.parameter_names == ("a.1", "b")
    assert program.signature == "(a.1: f32[2], b: (s32[], pred[])) -> f32[2]"
    assert program_shape_from_text("()->()").text == "()->()"
    for wrong in ("f32[2]", "(f32[2])", "(a: f32[2], f32[2])->f32[2]", "(f32[2]->f32[2]", "()->"):
        with pytest.raises(ShapeSyntaxError):
            program_shape_from_text(wrong)


def test_speed():
    text = "f32[128,256]{1,0:T(8,128)} " * 50_000
    parse_shape(text)
    position = 0
    with at_most(2):
        for _ in range(50_000):
            _, end = parse_shape(text, position)
            position = end + 1


@st.composite
def arrays(draw):
    rank = draw(st.integers(0, 4))
    dims, dynamic = [], []
    for _ in range(rank):
        kind = draw(st.sampled_from(["static", "bounded", "unbounded"]))
        dims.append(UNBOUNDED if kind == "unbounded" else draw(st.integers(0, 2**40)))
        dynamic.append(kind != "static")
    fields = None
    if draw(st.booleans()):
        sizes = st.lists(st.integers(0, 200) | st.just(-(2**63)), max_size=3)
        fields = layout(
            draw(st.permutations(range(rank))),
            tiles=draw(st.lists(sizes, max_size=2)),
            tail_padding_alignment=draw(st.integers(1, 8)),
            index_primitive_type=draw(st.sampled_from([None, U32])),
            element_size_in_bits=draw(st.sampled_from([0, 1, 4])),
            memory_space=draw(st.integers(-128, 127)),
            split_configs=draw(
                st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(0, 9))), max_size=2)
            ),
            dynamic_shape_metadata_prefix_bytes=draw(st.integers(0, 64)),
        )
    return shape(draw(st.sampled_from(ARRAY_TYPES)), dims, fields, dynamic)


SHAPES = st.recursive(
    arrays() | st.just(TOKEN_SHAPE) | arrays().map(buffer_shape),
    lambda inner: st.lists(inner, max_size=7).map(tuple_shape),
    max_leaves=12,
)


@settings(max_examples=200)
@given(SHAPES)
def test_every_shape_reads_back_as_itself(one):
    assert shape_from_text(one.text) is one
    assert shape_from_text(one.text_without_layout) is one.bare
    assert one.compatible(shape_from_text(one.text_without_layout))


@settings(max_examples=300)
@given(st.text(alphabet="f32s4b()[]{}<=?,:TSEP*#01 /token", max_size=30))
def test_any_text_is_a_shape_or_a_parse_error(text):
    try:
        found = shape_from_text(text)
    except ParseError:
        return
    assert shape_from_text(found.text) is found
