"""The text of literals, both ways."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hloom.base.diagnostics import ParseError
from hloom.types.dtype import ARRAY_TYPES, C64, F64, FLOAT_TYPES, S64
from hloom.types.literal import Literal
from hloom.types.literal_text import (
    LiteralSyntaxError,
    literal_from_text,
    parse_literal,
    show_literal,
)
from hloom.types.packing import bits_of, same_bits
from hloom.types.shape import shape, tuple_shape
from hloom.types.text import shape_from_text
from tests.processor_time import at_most
from tests.types.random_literal import random_literal


def read(text, shape_text):
    return literal_from_text(text, shape_from_text(shape_text))


@pytest.mark.parametrize(
    ("shape_text", "text"),
    [
        ("f32[]", "1"),
        ("f32[]", "1e+06"),
        ("f32[]", "3.40282347e+38"),
        ("f32[]", "-nan(0x400001)"),
        ("f64[]", "1.2345678901234568e+17"),
        ("f16[]", "0.099976"),
        ("bf16[]", "9.994e+05"),
        ("f8e5m2[]", "5.7e+04"),
        ("f8e4m3b11fnuz[]", "-nan"),
        ("f8e8m0fnu[]", "1.3e+02"),
        ("pred[]", "true"),
        ("pred[2]", "{1, 0}"),
        ("c64[2]", "{(1, -2), (nan, -inf)}"),
        ("f32[0]", "{}"),
        ("f32[2,0]", "{ {}, {} }"),
        ("f32[0,2]", "{  }"),
        ("f32[1,1]", "{ {1} }"),
        ("f32[2,2,2]", "{ { { 1, 2 }, { 3, 4 } }, { { 5, 6 }, { 7, 8 } } }"),
        (
            "s8[2,1,2,2]",
            "{ { /*i0=0*/ { /*i1=0*/ { 1, 2 }, { 3, 4 } } }, "
            "{ /*i0=1*/ { /*i1=0*/ { 5, 6 }, { 7, 8 } } } }",
        ),
        ("(f32[2], (s32[], pred[]))", "( {1, 2}, ( 3, true ) )"),
        ("()", "(  )"),
        ("(token[], s32[])", "( token[], 3 )"),
        ("(f32[2], s32[])", "( {...}, 3 )"),
        ("f32[3]", "{...}"),
        ("f32[<=3]", "{1, 2, 3}"),
    ],
)
def test_reads_back_as_itself(shape_text, text):
    assert show_literal(read(text, shape_text)) == text


@pytest.mark.parametrize(
    ("shape_text", "text", "same_as"),
    [
        ("f32[2]", "{1 2}", "{1, 2}"),
        ("f32[2]", "{,1,,2,}", "{1, 2}"),
        ("f32[2]", " {\n1 /* one */\n,2.}", "{1, 2}"),
        ("f32[]", "1E5", "100000"),
        ("f32[]", "1e-60", "0"),
        ("pred[4]", "{true,0,-1,false}", "{1, 0, 1, 0}"),
        ("s8[]", "-0", "0"),
        ("f8e4m3fn[]", "464", "448"),
        ("f4e2m1fn[3]", "{100,-inf,inf}", "{6, -6, 6}"),
        ("f8e4m3fn[]", "inf", "nan"),
        ("f8e8m0fnu[]", "3", "4"),
        ("c64[]", "( 1 ,2 )", "(1, 2)"),
        ("s32[2,2]", "{{1,2}{3,4}}", "{ { 1, 2 }, { 3, 4 } }"),
        ("(s32[],token[])", "(1,)", "( 1, token[] )"),
    ],
)
def test_other_spellings(shape_text, text, same_as):
    assert show_literal(read(text, shape_text)) == same_as


@pytest.mark.parametrize(
    ("shape_text", "text", "position"),
    [
        ("f32[]", "", 0),
        ("f32[]", "x", 0),
        ("f32[]", ".5", 0),
        ("f32[]", "+1", 0),
        ("f32[]", "NaN", 0),
        ("f32[]", "infinity", 0),
        ("f32[]", "0x1p3", 0),
        ("f32[]", "1 2", 2),
        ("f32[]", "{1}", 0),
        ("f32[]", "{...}", 0),
        ("f32[]", "1e39", 0),
        ("f64[]", "1e310", 0),
        ("f16[]", "65520", 0),
        ("bf16[]", "3.4e38", 0),
        ("f8e4m3fn[]", "480", 0),
        ("f8e8m0fnu[]", "0", 0),
        ("f8e8m0fnu[]", "-1", 0),
        ("f32[]", "nan(0)", 3),
        ("f32[]", "nan(0x0)", 0),
        ("f32[]", "nan(0x800000)", 0),
        ("f8e4m3fn[]", "nan(0x1)", 0),
        ("s8[]", "128", 0),
        ("s8[]", "-129", 0),
        ("s8[2]", "{1, 300}", 4),
        ("u8[]", "-1", 0),
        ("s4[]", "8", 0),
        ("u1[]", "2", 0),
        ("s1[]", "1", 0),
        ("s64[]", "9223372036854775808", 0),
        ("u64[]", "18446744073709551616", 0),
        ("s32[]", "1.0", 0),
        ("s32[]", "1e2", 0),
        ("s32[]", "nan", 0),
        ("s32[]", "9" * 5000, 0),
        ("pred[]", "True", 0),
        ("pred[]", "1.0", 0),
        ("c64[]", "1", 0),
        ("c64[]", "(1)", 2),
        ("c64[]", "(1, 2, 3)", 5),
        ("c64[2]", "{(1, 2), 3}", 9),
        ("f32[2]", "1, 2", 1),
        ("f32[2]", "{1}", 3),
        ("f32[2]", "{1, 2, 3}", 7),
        ("f32[2]", "{1, 2", 5),
        ("f32[2]", "{{1}, {2}}", 1),
        ("f32[2,2]", "{1, 2, 3, 4}", 1),
        ("f32[2,3]", "{{1,2},{3,4},{5,6}}", 6),
        ("f32[2,0]", "{}", 2),
        ("f32[2]", "[1, 2]", 0),
        ("(s32[], s32[])", "(1 2)", 3),
        ("(s32[], s32[])", "(1)", 2),
        ("(s32[])", "1", 0),
        ("f32[?]", "{1}", 0),
        ("opaque[]", "", 0),
    ],
)
def test_wrong_text_has_a_place(shape_text, text, position):
    with pytest.raises(LiteralSyntaxError) as raised:
        read(text, shape_text)
    assert raised.value.position == position
    assert isinstance(raised.value, ParseError) and raised.value.location is not None


def test_deep_braces_are_an_error_not_a_crash():
    for text in ("{" * 10_000, "{" * 10_000 + "1" + "}" * 10_000):
        for shape_text in ("f32[2]", "f32[1000]", "f32[]", "(f32[2])"):
            with pytest.raises(LiteralSyntaxError):
                read(text, shape_text)


def test_deep_tuples():
    deep = shape("f32")
    for _ in range(1000):
        deep = tuple_shape([deep])
    text = "( " * 1000 + "5" + " )" * 1000
    one = literal_from_text(text, deep)
    assert show_literal(one) == text
    assert one == literal_from_text(text, deep) and hash(one) == hash(literal_from_text(text, deep))
    assert one != literal_from_text(text.replace("5", "6"), deep)
    assert one.with_shape(deep) is one and Literal.elided(deep).is_elided
    assert len(list(random_literal(deep, np.random.default_rng(0)).leaves())) == 1


def test_negative_zero_survives():
    one = Literal.of([0.0, -0.0])
    assert show_literal(one) == "{0, -0}" and read("{0, -0}", "f32[2]") == one


def test_end_position():
    text = "constant({ {1, 2}, {3, 4} }), sharding={replicated}"
    literal, end = parse_literal(text, 9, shape("f32", (2, 2)))
    assert literal == Literal.of([[1.0, 2.0], [3.0, 4.0]]) and text[end:].startswith("), shard")


def test_limit():
    assert show_literal(Literal.of(range(10)), limit=10) != "{...}"
    assert show_literal(Literal.of(range(11)), limit=10) == "{...}"
    pair = Literal.of(([1] * 6, [1] * 5), "(s32[6], s32[5])")
    assert show_literal(pair, limit=10) == "{...}" and show_literal(pair, limit=11)[0] == "("


@pytest.mark.parametrize("which", [t for t in FLOAT_TYPES if t.bits <= 16], ids=str)
def test_every_value_of_small_floats_reads_back(which):
    bits = np.arange(2**which.bits, dtype=f"u{which.size_bytes}")
    for values in (bits.view(which.numpy), bits.view(which.numpy)[:50]):
        one = Literal.of(values)
        again = literal_from_text(show_literal(one), one.shape)
        differs = bits_of(again.array) != bits_of(one.array)
        # Two NaNs of the formats without infinity read back as the one ml_dtypes makes.
        with np.errstate(all="ignore"):
            assert np.isnan(values[differs].astype(np.float32)).all()
        if which.has_infinity or not which.has_nan:
            assert not differs.any()


@pytest.mark.parametrize("bits", [32, 64])
def test_random_bits_read_back(bits):
    random = np.random.default_rng(5)
    for count in (40, 5000):
        values = random.integers(0, 2**bits, count, f"u{bits // 8}", endpoint=False)
        one = Literal.of(values.view(f"f{bits // 8}"))
        assert literal_from_text(show_literal(one), one.shape) == one


@pytest.mark.parametrize("which", ARRAY_TYPES, ids=str)
@pytest.mark.parametrize("sizes", ["", "3", "100", "2,3", "10,20", "2,3,4,5", "0", "70,1", "0,3"])
def test_every_type_and_rank_reads_back(which, sizes):
    bounds = (-100, 100) if which.is_signed else ()
    random = np.random.default_rng(0)
    one = random_literal(shape_from_text(f"{which.name}[{sizes}]"), random, *bounds)
    assert literal_from_text(show_literal(one), one.shape) == one


LARGE = "{" + ", ".join(["1"] * 99)


@pytest.mark.parametrize(
    ("shape_text", "text", "position"),
    [
        ("f32[100]", LARGE + ", x}", 298),
        ("f32[100]", LARGE + "}", 297),
        ("f32[100]", LARGE + ", 1, 1}", 301),
        ("f32[100]", LARGE + ", 1e39}", 298),
        ("f32[100]", LARGE + ", 1", 299),
        ("f32[100]", LARGE + ", .5}", 298),
        ("f32[100]", LARGE + ", {1}}", 298),
        ("f32[100]", LARGE + ", (1)}", 298),
        ("f32[100]", LARGE + ", 1e400}", 298),
        ("s8[100]", LARGE + ", 128}", 298),
        ("s64[100]", LARGE + ", 9223372036854775808}", 298),
        ("u8[100]", LARGE + ", -1}", 298),
        ("pred[100]", LARGE + ", true1}", 298),
        ("s32[100]", LARGE + ", 1.5}", 298),
        ("s32[10,10]", LARGE + ", 1}", 1),
        ("c64[50]", LARGE + ", 1}", 1),
        ("s32[50,2]", "{" + "{1, 2}, " * 48 + "{1, 2, 3}, {4}}", None),
        ("c64[66]", "{" + "(1, 2), " * 65 + "(1 2)}", None),
        ("c64[66]", "{" + "(1, 2), " * 65 + "(1, 2}", None),
        ("c64[66]", "{" + "(1, 2), " * 64 + "(1, (2), 1, 2)}", None),
    ],
)
def test_large_wrong_text_has_a_place_too(shape_text, text, position):
    with pytest.raises(LiteralSyntaxError) as raised:
        read(text, shape_text)
    assert position is None or raised.value.position == position


def test_large_literals_with_oddities():
    many = ", ".join(["1"] * 98)
    values = read("{" + many + ", nan(0x7), -nan}", "f32[100]").array
    assert bits_of(values)[98:].tolist() == [0x7F800007, 0xFFC00000]
    values = read("{" + many + ", -nan, -inf}", "f32[100]").array
    assert bits_of(values)[98:].tolist() == [0xFFC00000, 0xFF800000]
    values = read("{" + many + ", /* } */ 2 3 }", "s32[100]").array
    assert values[98:].tolist() == [2, 3]
    edges = [-(2**63), 2**63 - 1] * 50
    assert read("{" + ",".join(map(str, edges)) + "}", "s64[100]").array.tolist() == edges
    pairs = read("{" + "(1, -nan), " * 69 + "(nan(0x1), -0)}", "c64[70]")
    assert literal_from_text(show_literal(pairs), pairs.shape) == pairs


@pytest.mark.parametrize("which", ["f32[1000,200]", "s32[200000]", "f32[200000,1]", "c64[100000]"])
def test_large_literals_are_fast(which):
    one = random_literal(shape_from_text(which), np.random.default_rng(0))
    with at_most(3):  # a fifth of a million; seconds in all
        text = show_literal(one)
    with at_most(3):
        again = literal_from_text(text, one.shape)
    assert same_bits(again.array, one.array)


@settings(max_examples=200)
@given(
    st.text(alphabet="{}(),. 0123456789-enaif/*x", max_size=24),
    st.sampled_from(["f32[2]", "s8[2,2]", "c64[]", "pred[3]", "(f32[], s4[2])", "f32[80]"]),
)
def test_any_text_is_a_literal_or_a_parse_error(text, shape_text):
    try:
        found = read(text, shape_text)
    except ParseError:
        return
    assert literal_from_text(show_literal(found), found.shape) == found


@settings(max_examples=100)
@given(
    st.lists(st.floats(width=64), max_size=100) | st.lists(st.integers(-(2**63), 2**63 - 1)),
    st.booleans(),
)
def test_any_values_read_back(values, as_complex):
    floats = not values or isinstance(values[0], float)
    one = Literal.of(values, F64 if floats else S64)
    if floats and as_complex and len(values) % 2 == 0:
        with np.errstate(over="ignore"):
            one = Literal.of(np.array(values).astype(np.float32).view(np.complex64))
        assert one.dtype is C64
    assert literal_from_text(show_literal(one), one.shape) == one
