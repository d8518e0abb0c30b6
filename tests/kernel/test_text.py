"""The text of kernels: what is printed reads back as itself; errors name line and column."""

import math

import pytest

from hloom.base.diagnostics import ParseError
from hloom.kernel.build import KernelBuilder
from hloom.kernel.kernel import Kernel, Value
from hloom.kernel.text import op_line, parse_kernel, parse_kernels, show_kernel, show_kernels
from hloom.types.dtype import BF16, C64, F32, PRED, S8, S32, S64
from tests.processor_time import at_most

CONTROL = """\
kernel @control(%x: buffer<f32>[64] in, %y: buffer<f32>[64] inout) grid(%0: 4, %1: 2) \
excess_precision(false) cost_ns(12.5) {
  %2 = constant 8 : s64[]
  %3 = multiply %0, %2 : s64[]
  %4 = load %x[%3] strides(1) : f32[8]
  %5 = constant -nan : f32[8]
  %6 = compare %4, %5 direction(NE) order(total) : pred[8]
  %7 = load %x[%3] mask(%6) other(%5) strides(1) : f32[8]
  %8, %9 = for %10 = %0 to %2 step 2 (%11 = %7, %12 = %1) : f32[8], s64[] {
    %13 = compare %10, %12 direction(GE) : pred[]
    %14 = if %13 : f32[8] {
      %15 = add %11, %7 : f32[8]
      yield %15
    } else {
      yield %11
    }
    yield %14, %10
  }
  %16 = while (%17 = %9) : s64[] {
    %18 = compare %17, %2 direction(LT) : pred[]
    yield %18
  } do (%19) {
    %20 = add %19, %2 : s64[]
    yield %20
  }
  if %13b {
  } else {
    store %y[%3], %8 mask(%6) strides(1)
  }
  for %21 = %0 to %2 step 1 {
  }
  %22 = alloc size(100) : buffer<s8>
  %23 = scan %8 axis(0) kind(maximum) reverse(true) : f32[8]
  store %y[%3], %23 strides(1)
}
""".replace("%13b", "%bit").replace("  if %bit", "  %bit = constant true : pred[]\n  if %bit")


def built() -> Kernel:
    """A kernel with constants of every sort, odd names, slices and gathers."""
    b = KernelBuilder("fused.add-1", ())
    x = b.param("x", BF16, 100, "in")
    out = b.param("out of it", C64, 8, "out")
    offsets = b.iota(S32, (8,), 0)
    t = b.gather(x, offsets, b.constant(PRED, True, (8,)), b.constant(BF16, -0.0, (8,)))
    for value in (0.1, 5, 5.0, math.inf, -math.inf, math.nan, 1e-300, 1e22):
        t = b.binary("add", t, b.constant(BF16, value, (8,)))
    parts = [b.slice(t, 0, 1, 3), b.slice(t, 0, 0, 5)]
    joined = b.convert(b.concatenate(parts, 0), F32)
    z = b.binary("complex", joined, joined, C64)
    z = b.binary("add", z, b.constant(C64, complex(1.5, -math.inf), (8,)))
    b.prefetch(x, b.index(-300))
    b.scatter(out, offsets, z)
    b.alloc(S8, 12)
    return b.finish()


@pytest.mark.parametrize("kernel", [built(), parse_kernel(CONTROL)], ids=["built", "control"])
def test_what_is_printed_reads_back(kernel: Kernel):
    text = show_kernel(kernel)
    again = parse_kernel(text)
    assert show_kernel(again) == text
    assert_same(kernel, again)


def assert_same(a: Kernel, b: Kernel) -> None:
    """Op for op: opcodes, attributes with their Python types, operands, types."""
    number_a: dict[Value, int] = {}
    number_b: dict[Value, int] = {}
    for kernel, numbers in ((a, number_a), (b, number_b)):
        for value in [p.value for p in kernel.params] + [*kernel.body.arguments]:
            numbers[value] = len(numbers)
        for op in kernel.ops():
            for value in (*op.results, *(x for k in op.blocks for x in k.arguments)):
                numbers[value] = len(numbers)
    assert (a.name, a.grid, a.cost_ns) == (b.name, b.grid, b.cost_ns)
    assert a.excess_precision == b.excess_precision
    assert [p[:1] + p[2:] for p in a.params] == [p[:1] + p[2:] for p in b.params]
    ops = list(zip(a.ops(), b.ops(), strict=True))
    assert len(ops) > 10
    for x, y in ops:
        assert x.opcode == y.opcode
        assert repr(x.attrs) == repr(y.attrs)
        assert [r.type for r in x.results] == [r.type for r in y.results]
        assert [number_a[v] for v in x.operands] == [number_b[v] for v in y.operands]


def test_canonical_text_is_what_was_written():
    text = show_kernel(parse_kernel(CONTROL))
    wanted = CONTROL.replace("%bit", "%21").replace("for %21", "for %22")
    wanted = wanted.replace("%22 = alloc", "%23 = alloc").replace("%23 = scan", "%24 = scan")
    assert text == wanted.replace("store %y[%3], %23", "store %y[%3], %24")


def test_several_kernels_and_comments():
    text = show_kernels([built(), parse_kernel(CONTROL)])
    two = parse_kernels("// first\n" + text.replace("{\n", "{ /* here */\n"))
    assert [k.name for k in two] == ["fused.add-1", "control"]
    assert show_kernels(two) == text
    with pytest.raises(ParseError, match="expected one kernel, found 2"):
        parse_kernel(text)


@pytest.mark.parametrize(
    ("old", "new", "message", "line", "column"),
    [
        ("multiply %0, %2", "multiply %0, %3", "%3 is not defined here", 3, 21),
        ("%3 = multiply", "%2 = multiply", "%2 is already defined", 3, 3),
        ("%14 = if", "if", "if has 1 results, 0 names", 10, 5),
        ("f32[8]\n", "f33[8]\n", "this is not an element type", 4, 33),
        ("direction(NE)", "direction(XX)", "direction cannot be XX", 6, 33),
        ("direction(NE) ", "", "compare needs direction", 6, 36),
        ("kind(maximum)", "kind(max)", "kind cannot be max", 33, 30),
        (" other(%5)", "", "expected other", 7, 29),
        ("buffer<f32>[64] in,", "f32[64] in,", "a parameter of a kernel is a buffer", 1, 21),
        ("} do (%19)", "} do (%19, %99)", "1 values are carried, 2 named", 21, 18),
        ("step 2", "step two", "expected an integer", 8, 36),
        ("} else {\n      yield", "} or {\n      yield", "expected 'else'", 13, 7),
        ("  store %y[%3], %23 strides(1)\n}", "", "expected an opcode or '}'", 35, 1),
    ],
)
def test_errors_say_where(old: str, new: str, message: str, line: int, column: int):
    assert CONTROL.count(old)
    with pytest.raises(ParseError) as caught:
        parse_kernel(CONTROL.replace(old, new, 1), "a.kernel")
    assert message in caught.value.message
    place = caught.value.location
    assert place is not None
    assert (place.file, place.line, place.column) == ("a.kernel", line, column)


def test_deep_blocks_are_refused():
    text = "kernel @deep() {\n%0 = constant true : pred[]\n" + "if %0 {\n" * 70
    with pytest.raises(ParseError, match="nest more than 64 deep"):
        parse_kernel(text)


def test_the_line_of_an_op():
    kernel = parse_kernel(CONTROL)
    text = show_kernel(kernel).split("\n")
    for op in kernel.ops():
        if op.opcode != "yield" or op.operands:
            line, source = op_line(kernel, op)
            assert text[line - 1].strip() == source
            assert op.opcode in source


def test_printing_is_fast():
    b = KernelBuilder("long", (4,))
    x = b.grid_indices[0]
    for k in range(20_000):
        x = b.binary("add", x, b.index(k % 7))
    kernel = b.finish()
    with at_most(0.5):
        text = show_kernel(kernel)
    assert text.count("\n") == 20_000 + 7 + 2
    assert S64.name in text
