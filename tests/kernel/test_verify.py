"""Every rule of kernels: one that breaks it is refused, with the line."""

import pytest

from hloom.base.diagnostics import VerifyError
from hloom.interp.elementwise import _INTEGER_BINARY, _INTEGER_UNARY, _PRED_BINARY, _PRED_UNARY
from hloom.interp.elementwise_complex import COMPLEX_BINARY, COMPLEX_UNARY
from hloom.interp.elementwise_real import EXACT_BINARY, EXACT_UNARY, ROUNDED_BINARY, ROUNDED_UNARY
from hloom.ir.elementwise import BINARY, UNARY
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import FOLDS, Op, TileType, op_rules
from hloom.kernel.text import parse_kernel, show_kernel
from hloom.kernel.verify import verify_kernel
from hloom.kernel.verify_ops import ADMITS, RULES
from hloom.types.dtype import BY_NAME, F32
from tests.processor_time import at_most

GOOD = """\
kernel @good(%x: buffer<f32>[64] in, %y: buffer<f32>[64] inout, %s: buffer<s32>[9] out) \
grid(%0: 4) {
  %1 = constant 8 : s64[]
  %2 = load %x[%0] strides(8, 1) : f32[4,8]
  %3 = compare %2, %2 direction(LT) order(total) : pred[4,8]
  %4 = select %3, %2, %2 : f32[4,8]
  %5 = iota axis(1) : s32[4,8]
  %6 = gather %x[%5] mask(%3) other(%4) : f32[4,8]
  %7 = transpose %6 permutation(1, 0) : f32[8,4]
  %8 = constant 0.5 : f32[4,4]
  %9 = dot %8, %2, %7 : f32[4,4]
  %10 = reduce %9 axis(1) kind(maximum) : f32[4]
  %11 = broadcast %10 : f32[3,4]
  %12 = reshape %11 : f32[12]
  %13 = slice %12 axis(0) start(2) size(7) : f32[7]
  %14 = concatenate %12, %13 axis(0) : f32[19]
  %15 = convert %14 : s32[19]
  %16 = bitcast-convert %14 : u32[19]
  %17 = scan %14 axis(0) kind(add) : f32[19]
  %18 = is-finite %17 : pred[19]
  %19 = complex %17, %17 : c64[19]
  %20 = abs %19 : f32[19]
  %21 = fma %20, %20, %20 : f32[19]
  %22 = reduce-precision %21 exponent_bits(5) mantissa_bits(3) : f32[19]
  %23 = clamp %20, %21, %22 : f32[19]
  %24 = alloc size(100) : buffer<f32>
  store %24[%1], %23 strides(1)
  %25, %26 = for %27 = %0 to %1 step 2 (%28 = %10, %29 = %1) : f32[4], s64[] {
    %30 = compare %27, %29 direction(GE) : pred[]
    %31 = if %30 : f32[4] {
      yield %28
    } else {
      yield %10
    }
    yield %31, %29
  }
  %32 = while (%33 = %26) : s64[] {
    %34 = compare %33, %1 direction(LT) : pred[]
    yield %34
  } do (%35) {
    %36 = add %35, %1 : s64[]
    yield %36
  }
  scatter %y[%5], %6 mask(%3)
  store %s[%32], %15
}
""".replace(
    "store %s[%32], %15\n",
    "%37 = slice %15 axis(0) start(0) size(9) : s32[9]\n  store %s[%32], %37 strides(1)\n",
)


def test_a_good_kernel_passes():
    verify_kernel(parse_kernel(GOOD))


BROKEN = [
    ("select %3, %2, %2", "select %2, %2, %2", "the mask is f32[4,8], not pred[4,8]"),
    ("select %3, %2, %2 : f32", "select %3, %2, %i : f32", "operands of types f32[4,8] and s32"),
    ("%4 = select %3, %2, %2 : f32[4,8]", "%4 = select %3, %2 : f32[4,8]", "3 operands, not 2"),
    ("%4 = select", "%4 = selct", "there is no such opcode"),
    ("strides(8, 1) : f32[4,8]", "strides(1) : f32[4,8]", "1 strides for 2 axes"),
    ("load %x[%0] strides(8, 1) : f32", "load %x[%0] strides(8, 1) : s32", "the result is s32"),
    ("load %x[%0]", "load %1[%0]", "operand 0 is a s64[], not a buffer"),
    ("iota axis(1)", "iota axis(2)", "has no axis 2"),
    ("iota axis(1) : s32[4,8]", "iota axis(1) : s16[4,8]", "offsets are s16[4,8]"),
    ("mask(%3) other(%4) : f32", "mask(%3) other(%5) : f32", "other is s32[4,8], not f32[4,8]"),
    ("permutation(1, 0)", "permutation(1, 1)", "(1, 1) does not permute the axes"),
    ("constant 0.5 : f32[4,4]", "constant 0.5 : s32[4,4]", "0.5 is no number of type s32"),
    ("constant 0.5 : f32[4,4]", "constant 256 : u8[4,4]", "256 is outside of u8"),
    ("constant 0.5 : f32[4,4]", "constant 0.5 : f32[4,5]", "the shapes do not fit"),
    ("constant 0.5 : f32[4,4]", "constant 5 : s32[4,4]", "all floats, all integers or all complex"),
    ("constant 0.5 : f32[4,4]", "constant 0.5 : f32[4,0]", "has an empty axis"),
    ("kind(maximum) : f32[4]", "kind(and) : f32[4]", "and is not defined for f32"),
    ("kind(maximum) : f32[4]", "kind(maximum) : f32[5]", "the result is f32[5], not f32[4]"),
    ("broadcast %10 : f32[3,4]", "broadcast %10 : f32[4,3]", "does not stretch to"),
    ("reshape %11 : f32[12]", "reshape %11 : f32[13]", "differ in size"),
    ("start(2) size(7)", "start(6) size(7)", "has no elements 6 to 13"),
    ("concatenate %12, %13", "concatenate %12, %9", "cannot be joined"),
    ("bitcast-convert %14 : u32", "bitcast-convert %14 : u16", "f32 and u16 differ in width"),
    ("is-finite %17 : pred", "is-finite %17 : f32", "the result is f32[19], not pred[19]"),
    ("is-finite %17", "is-finite %15", "is-finite is not defined for s32"),
    ("complex %17, %17 : c64", "complex %17, %17 : c128", "the result is c128[19], not c64[19]"),
    ("fma %20, %20, %20", "fma %19, %19, %19", "fma is not defined for c64"),
    ("exponent_bits(5)", "exponent_bits(0)", "at least 1 exponent bit"),
    ("%3 = compare %2, %2", "%3 = compare %c, %c", "have no order"),
    ("%3 = compare %2, %2", "%3 = compare %i, %i", "the total order is one of floats"),
    ("store %24[%1]", "store %24[%10]", "the offset is f32[4], not s64[]"),
    ("store %24[%1]", "store %x[%1]", "an 'in' parameter cannot be written"),
    ("store %24[%1]", "store %s[%1]", "a tile of f32 does not go to a buffer<s32>"),
    ("alloc size(100) : buffer<f32>", "alloc size(-1) : buffer<f32>", "cannot have -1 elements"),
    ("step 2", "step 0", "the step is 0, not a positive integer"),
    ("= %0 to %1 step 2", "= %0 to %10 step 2", "the upper bound is f32[4], not s64[]"),
    (": f32[4], s64[] {", ": f32[4], s32[] {", "the results are (f32[4], s32[])"),
    ("    yield %31, %29", "    yield %31", "yields (f32[4]), not (f32[4], s64[])"),
    ("if %30 : f32[4] {", "if %30 : f32[5] {", "yields (f32[4]), not (f32[5])"),
    ("if %30", "if %29", "the condition is s64[], not pred[]"),
    ("    yield %34", "    yield %33", "yields (s64[]), not (pred[])"),
    ("    yield %31, %29", "    yield %31, %29\n    yield %31, %29", "a yield ends its block"),
    ("scatter %y[%5], %6", "scatter %y[%5], %9", "f32[4,4] at offsets s32[4,8]"),
    ("grid(%0: 4)", "grid(%0: -4)", "-4 is no extent of a grid"),
    ("%y: buffer<f32>[64] inout", "%y: buffer<f32>[-64] inout", "parameter y has size -64"),
    ("%y: buffer<f32>[64] inout", "%y: buffer<f32>[64] both", "has role 'both'"),
]
EXTRA = """\
  %c = constant (1.0, 2.0) : c64[4,8]
  %i = constant 1 : s32[4,8]
"""


@pytest.mark.parametrize(("old", "new", "message"), BROKEN)
def test_broken_kernels_are_refused(old: str, new: str, message: str):
    assert GOOD.count(old) >= 1
    text = GOOD.replace(old, new, 1)
    text = text.replace("grid(%0: 4) {\n", "grid(%0: 4) {\n" + EXTRA)
    kernel = parse_kernel(text)
    with pytest.raises(VerifyError) as caught:
        verify_kernel(kernel)
    assert message in caught.value.message
    assert caught.value.rule
    place = caught.value.location
    if place is not None:
        assert place.line is not None
        assert place.source == show_kernel(kernel).split("\n")[place.line - 1].strip()
    else:
        assert "grid" in new or "[64]" in old


def refusal(kernel) -> str:
    with pytest.raises(VerifyError) as caught:
        verify_kernel(kernel)
    return str(caught.value)


def test_values_end_with_their_block():
    b = KernelBuilder("escape", ())
    leaked = []

    def then():
        leaked.append(b.load(x, b.index(0), (4,), (1,)))
        return []

    x = b.param("x", F32, 4, "in")
    out = b.param("out", F32, 4, "out")
    b.if_(b.compare("EQ", b.index(0), b.index(1)), then, list)
    b.store(out, b.index(0), leaked[0], (1,))
    message = refusal(b.finish())
    assert "operand 2 is not defined here" in message
    assert "store %out[" in message


def test_what_only_python_can_break():
    def fresh():
        b = KernelBuilder("k", ())
        x = b.constant(F32, 1.0, (4,))
        return b, x

    b, x = fresh()
    b.kernel.body.ops.append(Op("add", (x, x), (TileType(F32, (4,)),), {"fast": True}))
    assert "attributes ['fast'], not []" in refusal(b.finish())
    b, x = fresh()
    op = Op("reduce", (x,), (TileType(F32, ()),), {"axis": "0", "kind": "add"})
    b.kernel.body.ops.append(op)
    assert "axis is '0', not int" in refusal(b.finish())
    b, x = fresh()
    b.kernel.body.ops.extend(b.kernel.body.ops[:1])
    assert "a result is defined twice" in refusal(b.finish())
    b, x = fresh()
    assert "does not end in a yield" in refusal(b.kernel)
    b, x = fresh()
    b.param("x", F32, 1, "in")
    b.param("x", F32, 1, "in")
    assert "two parameters are called 'x'" in refusal(b.finish())


def test_complex_dots_take_one_type():
    b = KernelBuilder("k", ())
    acc, x = b.constant(BY_NAME["c128"], 1, (2, 2)), b.constant(BY_NAME["c64"], 1, (2, 2))
    b.dot(acc, x, x)
    assert "complex c128, c64, c64 differ" in refusal(b.finish())


def test_each_opcode_has_a_rule():
    control = {"for", "while", "if", "yield"}
    assert set(RULES) | control == set(op_rules())
    assert set(ADMITS) == UNARY | BINARY | FOLDS


@pytest.mark.parametrize("opcode", sorted(UNARY | BINARY))
def test_element_types_are_those_of_hlo(opcode: str):
    by_hand = {"abs": "fci", "real": "fc", "imag": "fc", "complex": "f", "is-finite": "f"}
    by_hand |= {"maximum": "fip", "minimum": "fip"}  # of complex numbers no kernel has any
    tables = {
        "f": EXACT_UNARY.keys()
        | ROUNDED_UNARY.keys()
        | EXACT_BINARY.keys()
        | ROUNDED_BINARY.keys(),
        "c": COMPLEX_UNARY.keys() | COMPLEX_BINARY.keys(),
        "i": _INTEGER_UNARY.keys() | _INTEGER_BINARY.keys(),
        "p": _PRED_UNARY.keys() | _PRED_BINARY.keys(),
    }
    wanted = by_hand.get(opcode) or "".join(k for k, names in tables.items() if opcode in names)
    assert sorted(ADMITS[opcode]) == sorted(wanted)


def test_verifying_is_fast():
    b = KernelBuilder("long", (4,))
    x = b.grid_indices[0]
    for k in range(20_000):
        x = b.binary("add", x, b.index(k % 7))
    kernel = b.finish()
    with at_most(0.7):
        verify_kernel(kernel)


@pytest.mark.parametrize("before, after", [((16,), ()), ((2,), (2, 3)), ((3, 1), (4, 5))])
def test_the_builder_stretches_no_tile_that_does_not_fit(before, after):
    b = KernelBuilder("k", ())
    x = b.constant(F32, 1.0, before)
    with pytest.raises(VerifyError, match="does not stretch") as caught:
        b.broadcast(x, after)
    assert (caught.value.rule, caught.value.instruction) == ("kernel-shape", "@k")
    with pytest.raises(VerifyError, match="differ in size"):
        b.reshape(x, (*after, 7))
    assert b.broadcast(b.constant(F32, 1.0, (3, 1)), (2, 3, 4)).shape == (2, 3, 4)
