"""Shapes and layouts: identity, questions, comparisons and the two ways to make one."""

import copy
import pickle

import pytest

from hloom.base.diagnostics import UsageError
from hloom.types.dtype import BF16, C64, F32, S4, TUPLE
from hloom.types.layout import COMBINED, checked_layout, default_layout, layout
from hloom.types.shape import (
    OPAQUE_SHAPE,
    TOKEN_SHAPE,
    UNBOUNDED,
    ProgramShape,
    Shape,
    buffer_shape,
    checked_shape,
    shape,
    tuple_shape,
)
from hloom.types.text import shape_from_text


def test_equal_shapes_are_one_object():
    assert shape("f32", [2, 3]) is shape(F32, (2, 3)) is shape(F32, (2, 3), None, (False, False))
    assert shape("f32", (2,)) is not shape("f32", (2,), default_layout(1))
    assert shape("f32") is shape("f32", (), default_layout(0))
    made = tuple_shape([shape("f32"), TOKEN_SHAPE])
    assert made is tuple_shape((shape("f32"), TOKEN_SHAPE))
    for one in (made, shape("s4", (2,), layout((0,), memory_space=5)), buffer_shape(shape("f32"))):
        assert pickle.loads(pickle.dumps(one)) is copy.deepcopy(one) is copy.copy(one) is one
    with pytest.raises(AttributeError):
        made.dims = (1,)


def test_kinds():
    array = shape("f32", (2, 3))
    assert array.is_array and not array.is_scalar and shape("f32").is_scalar
    assert tuple_shape([]).is_tuple and TOKEN_SHAPE.is_token and OPAQUE_SHAPE.is_opaque
    buffer = buffer_shape(array)
    assert buffer.is_buffer and buffer.elements == (array,) and not buffer.is_array
    assert [s for s in (array, TOKEN_SHAPE, buffer) if s.is_static] == [array, TOKEN_SHAPE, buffer]
    dynamic = shape("f32", (5, UNBOUNDED), None, (True, True))
    assert dynamic.is_dynamic and dynamic.is_unbounded and dynamic.is_dynamic_dim(0)
    assert tuple_shape([dynamic]).is_dynamic and not array.is_dynamic_dim(1)
    for wrong in (tuple_shape([]), TOKEN_SHAPE):
        with pytest.raises(UsageError):
            buffer_shape(wrong)
    with pytest.raises(UsageError):
        shape(TUPLE)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("f32[2,3]", 24),
        ("s4[9]", 5),
        ("f4e2m1fn[5]", 3),
        ("f6e3m2fn[5]", 5),
        ("s1[9]", 2),
        ("pred[9]", 9),
        ("pred[9]{0:E(1)}", 2),
        ("s4[9]{0:E(8)}", 9),
        ("c128[2]", 32),
        ("(f32[2], (s32[], token[]), opaque[])", 12),
        ("b(f32[4])", 16),
        ("f32[<=5]", 20),
        ("f32[0,4]", 0),
        ("()", 0),
    ],
)
def test_sizes(text, size_bytes):
    assert shape_from_text(text).size_bytes == size_bytes


def test_size_of_what_has_none():
    with pytest.raises(UsageError):
        _ = shape_from_text("f32[?]").size
    with pytest.raises(UsageError):
        _ = tuple_shape([]).size
    assert shape_from_text("f32[<=5,2]").size == 10


def test_comparisons():
    a = shape_from_text("(f32[2,3]{1,0:S(5)}, s32[])")
    b = shape_from_text("(f32[2,3]{1,0}, s32[])")
    c = shape_from_text("(f32[2,3]{0,1}, s32[])")
    plain = shape_from_text("(f32[2,3], s32[])")
    assert a.compatible(b) and a.bare is plain and plain.bare is plain
    assert not a.same(b) and a.same(b, ignore_memory_space=True)
    assert not b.same(c, ignore_memory_space=True) and b.same(c, ignore_layout=True)
    assert not b.same(plain) and b.same(plain, ignore_layout=True)
    tiled = shape_from_text("(f32[2,3]{1,0:T(8)E(4)}, s32[])")
    assert tiled.same(b, ignore_tiles=True, ignore_element_size=True)
    assert not tiled.same(b, ignore_tiles=True) and tiled.same(a, minor_to_major_only=True)
    half = shape_from_text("(bf16[2,3]{1,0}, s32[])")
    assert half.same(b, ignore_floating_point_precision=True) and half.same(b, ignore_dtype=True)
    whole = shape_from_text("(s8[2,3]{1,0}, s32[])")
    assert not whole.same(b, ignore_floating_point_precision=True)
    bounded = shape_from_text("(f32[<=2,3]{1,0}, s32[])")
    assert not bounded.same(b) and bounded.same(b, ignore_dynamic=True)
    assert not a.same(a.elements[0]) and not a.same(tuple_shape([a, a]))


def test_changes():
    base = shape("f32", (2, 3), layout((0, 1)))
    assert base.with_dims((4, 5)).layout is base.layout
    assert base.with_dims((6,)).layout is None
    assert base.with_dtype("bf16").dtype is BF16 and base.with_layout(None) is base.bare
    nested = tuple_shape([shape("f32", (2,)), tuple_shape([base, TOKEN_SHAPE])])
    assert not nested.has_layout
    filled = nested.with_default_layouts()
    assert filled.text == "(f32[2]{0}, (f32[2,3]{0,1}, token[]))" and filled.has_layout
    assert filled.without_layout() is nested.bare and filled.with_default_layouts() is filled


def test_parts():
    one = shape_from_text("(f32[2], (s32[], pred[]), token[])")
    assert [path for path, _ in one.subshapes()] == [(), (0,), (1,), (1, 0), (1, 1), (2,)]
    assert [s.text for s in one.leaves()] == ["f32[2]", "s32[]", "pred[]", "token[]"]
    assert one.leaf_count == 4 and one.subshape((1, 1)).text == "pred[]"
    assert one.subshape(()) is one
    for path in ((3,), (0, 0), (-1,), (1, 2)):
        with pytest.raises(UsageError):
            one.subshape(path)


def test_deep_nesting_needs_no_recursion():
    deep = shape("f32", (2,), default_layout(1))
    for _ in range(20_000):
        deep = tuple_shape([deep])
    assert deep.text.startswith("(" * 20_000 + "f32[2]{0})")
    assert deep.bare.text_without_layout.count("(") == 20_000
    assert deep.leaf_count == 1 and deep.size_bytes == 8 and deep.is_static
    assert deep.same(deep.bare, ignore_layout=True) and deep.with_default_layouts() is deep
    assert deep.bare.with_default_layouts() is deep


def test_two_ways_to_make_a_shape():
    for dims, dynamic in (
        ((0, 4), ()),
        ((5,), (True,)),
        ((UNBOUNDED,), (True,)),
        ((2**62, 2, 0), ()),
    ):
        assert checked_shape("s8", dims, None, dynamic) is shape("s8", dims, None, dynamic)
    assert shape("f32", (-1,)).dims == (-1,)
    wrong = [
        ((-1,), None, ()),
        ((2**63,), None, ()),
        ((2**32, 2**32), None, ()),
        ((2**62,), None, ()),  # four bytes each
        ((UNBOUNDED,), None, ()),
        ((2,), None, (True, False)),
        ((2, 3), layout((0,)), ()),
        ((2, 3), layout((0, 0)), ()),
        ((2, 3), layout((1, 2)), ()),
        ((2,), layout((0,), tiles=[(-3,)]), ()),
        ((2,), layout((0,), tail_padding_alignment=0), ()),
        ((2,), layout((0,), memory_space=200), ()),
        ((2,), layout((0,), element_size_in_bits=-1), ()),
        ((2,), layout((0,), split_configs=[(3, (1,))]), ()),
    ]
    for dims, order, dynamic in wrong:
        with pytest.raises(UsageError):
            checked_shape("f32", dims, order, dynamic)
    with pytest.raises(UsageError):
        checked_shape("token")


def test_layouts():
    one = layout((1, 0), tiles=[(8, 128), (2, COMBINED)], element_size_in_bits=4, memory_space=5)
    assert one.text == "{1,0:T(8,128)(2,*)E(4)S(5)}" and not one.is_default
    assert one.replace(tiles=(), element_size_in_bits=0, memory_space=0) is default_layout(2)
    assert default_layout(2).is_default and not layout((0, 1)).is_default
    assert one.same(one.replace(memory_space=0), ignore_memory_space=True)
    assert not one.same(one.replace(memory_space=0)) and not one.same(None)
    assert one.same(one.replace(tiles=()), ignore_tiles=True)
    assert checked_layout(one, 2) is one and pickle.loads(pickle.dumps(one)) is one
    split = layout((0,), split_configs=[(0, [2, 5])], dynamic_shape_metadata_prefix_bytes=8)
    assert split.text == "{0:SC(0:2,5)M(8)}" and one.rank == 2
    with pytest.raises(AttributeError):
        one.memory_space = 1


def test_program_shape():
    program = ProgramShape((shape("f32", (2,)), shape("s32")), ("a", "b"), shape("f32", (2,)))
    assert program.text == "(f32[2], s32[])->f32[2]"
    assert program.signature == "(a: f32[2], b: s32[]) -> f32[2]"
    assert program == ProgramShape(program.parameters, ("a", "b"), program.result)


def test_repr_names_the_text():
    assert repr(shape(S4, (2,))) == "<Shape s4[2]>" and str(shape(C64)) == "c64[]"
    assert isinstance(shape(C64), Shape)
