"""Literals in messages and as raw bytes: every type, every layout, broken ones."""

import numpy as np
import pytest

from hloom.base.diagnostics import ProtoError
from hloom.ir import schema
from hloom.ir.proto.codec import Context
from hloom.ir.proto.literal import read_literal, write_literal
from hloom.ir.proto.snapshot import literal_from_raw, raw_literal
from hloom.types.dtype import ARRAY_TYPES
from hloom.types.literal import Literal
from hloom.types.text import shape_from_text


def message_of(value):
    made = schema.LiteralProto()
    write_literal(value, made, Context())
    return made


def back(value):
    data = message_of(value).SerializeToString()
    read = schema.LiteralProto()
    read.ParseFromString(data)
    return read_literal(read, Context())


def some(dtype, dims, layout=""):
    shape = shape_from_text(f"{dtype.name}[{','.join(map(str, dims))}]{layout}")
    count = int(np.prod(dims))
    bits = np.random.default_rng(dtype.number).integers(0, 256, count * dtype.size_bytes, np.uint8)
    if dtype.is_pred:
        bits &= 1
    elif dtype.bits < 8:
        bits &= (1 << dtype.bits) - 1
    return Literal(shape, bits.view(dtype.numpy).reshape(dims))


@pytest.mark.parametrize("dtype", ARRAY_TYPES, ids=str)
@pytest.mark.parametrize("dims", [(), (0,), (5,), (3, 4), (2, 3, 5)], ids=str)
def test_every_type_comes_back_bit_by_bit(dtype, dims):
    value = some(dtype, dims)
    assert back(value) == value
    assert literal_from_raw(memoryview(raw_literal(value))) == value


@pytest.mark.parametrize("layout", ["{0,1,2}", "{1,2,0}", "{2,0,1}"])
def test_every_layout_comes_back(layout):
    for dtype in ARRAY_TYPES:
        value = some(dtype, (2, 3, 5), layout)
        assert back(value) == value
        assert back(value).shape is value.shape
        assert literal_from_raw(memoryview(raw_literal(value))) == value


def test_elements_are_in_the_order_of_the_layout():
    value = Literal.of([[1, 2, 3], [4, 5, 6]], "s32[2,3]{0,1}")
    assert list(message_of(value).s32s) == [1, 4, 2, 5, 3, 6]
    assert list(message_of(Literal.of([[1, 2], [3, 4]], "f32[2,2]")).f32s) == [1, 2, 3, 4]


def test_packed_literals_are_not_called_packed():
    value = Literal.of([1, 2, 3], "s4[3]{0:E(4)}")
    assert message_of(value).shape.layout.element_size_in_bits == 0
    assert back(value).array.tolist() == [1, 2, 3]


def test_fields_hold_what_xla_puts_there():
    assert message_of(Literal.of([1, -2, 3], "s4")).s4s == b"\x01\x0e\x03"
    assert message_of(Literal.of([1.0, 2.0], "bf16")).bf16s == b"\x80\x3f\x00\x40"
    assert list(message_of(Literal.of([True, False])).preds) == [True, False]
    assert list(message_of(Literal.of([1 + 2j, 3 - 4j], "c64")).c64s) == [1, 2, 3, -4]
    assert message_of(Literal.of([-1], "s16")).s16s == b"\xff\xff"
    assert list(message_of(Literal.of([2**64 - 1], "u64")).u64s) == [2**64 - 1]


def test_packed_narrow_elements_of_other_writers_are_read():
    made = message_of(Literal.of([1, -2, 3], "s4"))
    made.s4s = b"\xe1\x03"
    assert read_literal(made, Context()) == Literal.of([1, -2, 3], "s4")


def test_tuples_and_tokens():
    inner = Literal.tuple([Literal.of([1, 2]), Literal.token()])
    value = Literal.tuple([inner, Literal.of(2.5), Literal.tuple([])])
    assert back(value) == value


def test_dynamic_sizes():
    shape = shape_from_text("f32[2,<=3]{0,1}")
    value = Literal(shape, np.array([[1, 2], [3, 4]], np.float32))
    made = message_of(value)
    assert list(made.dynamic_sizes) == [2, 2]
    assert list(made.f32s) == [1, 3, 2, 4, 0, 0]
    assert back(value) == value
    assert literal_from_raw(memoryview(raw_literal(value))) == value
    made.dynamic_sizes[0] = 1
    with pytest.raises(ProtoError):
        read_literal(made, Context())


def test_long_literals():
    floats = np.arange(300_000, dtype=np.float32).reshape(3, 100_000)
    flags = floats.astype(np.int64) % 3 == 0
    for array in (floats, flags, floats.astype(np.float64), floats.astype(np.complex64)):
        assert back(Literal.of(array)) == Literal.of(array)


def test_what_does_not_fit_a_message():
    shape = shape_from_text("f32[1073741824]")
    zeros = np.broadcast_to(np.zeros(1, np.float32), shape.dims)
    value = object.__new__(Literal)
    for name, given in (
        ("shape", shape),
        ("_array", zeros),
        ("elements", ()),
        ("is_elided", False),
        ("_hash", None),
    ):
        object.__setattr__(value, name, given)
    with pytest.raises(ProtoError, match="2 GiB"):
        message_of(value)


@pytest.mark.parametrize("field", ["f32s", "shape", "tuple"])
def test_broken_literals(field):
    made = message_of(Literal.of([1.0, 2.0]))
    if field == "shape":
        made.ClearField("shape")
    elif field == "f32s":
        made.f32s.append(3)
    else:
        made = message_of(Literal.tuple([Literal.of(1.0)]))
        made.tuple_literals.add().CopyFrom(made.tuple_literals[0])
    with pytest.raises(ProtoError):
        read_literal(made, Context())


def test_broken_raw_literals():
    data = raw_literal(Literal.tuple([Literal.of([1.0, 2.0]), Literal.of([True] * 9)]))
    for end in range(len(data)):
        with pytest.raises(ProtoError):
            literal_from_raw(memoryview(data[:end]))
    with pytest.raises(ProtoError):
        literal_from_raw(memoryview(data + b"x"))


def test_raw_bytes_are_those_of_the_format():
    """8 bytes of length, the ShapeProto, sizes of dynamic arrays, elements; predicates packed."""
    shape = shape_from_text("pred[<=9]{0}")
    data = raw_literal(Literal(shape, np.array([True, False, True])))
    context = Context()
    written = context.shape_messages.message(shape).SerializeToString()
    wanted = len(written).to_bytes(8, "little") + written + b"\x03\0\0\0" + b"\x05\0"
    assert data == wanted
    halves = raw_literal(Literal.of([[1, 2], [3, 4]], "u16[2,2]{0,1}"))
    assert halves.endswith(b"\x01\0\x03\0\x02\0\x04\0")
    assert raw_literal(Literal.of([1, -2, 3], "s4")).endswith(b"\xe1\x03")
