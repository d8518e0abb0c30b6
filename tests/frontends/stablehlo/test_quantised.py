"""Quantised programs against the definitions of the specification, written in numpy."""

import numpy as np
import pytest

pytest.importorskip("jaxlib", reason="StableHLO is read with jaxlib")

import hloom
from hloom.frontends.stablehlo.read import module_of_text

TENSOR = ("i8:f32, 0.5:3", [0.5], [3], None, -128, 127)
OTHER = ("i8:f32, 0.25:-7", [0.25], [-7], None, -128, 127)
SYMMETRIC = ("i8<-127:127>:f32, 0.1", [0.1], [0], None, -127, 127)
UNSIGNED = ("u8:f32, 0.1:128", [0.1], [128], None, 0, 255)
BUILTIN = ("ui8:f32, 0.1:128", *UNSIGNED[1:])
NARROW = ("i4<-7:7>:f32, 1.5:1", [1.5], [1], None, -7, 7)
TWO_BITS = ("u2:f32, 2.0:1", [2.0], [1], None, 0, 3)
WIDE = ("i32:f32, 0.05", [0.05], [0], None, -(2**31), 2**31 - 1)
BY_COLUMN = ("i8:f32:1, {0.5:3,0.3,0.125:-4}", [0.5, 0.3, 0.125], [3, 0, -4], 1, -128, 127)
COLUMNS = ("i8<-127:127>:f32:1, {0.5,0.3,0.125}", [0.5, 0.3, 0.125], [0] * 3, 1, -127, 127)
KINDS = [TENSOR, OTHER, SYMMETRIC, UNSIGNED, BUILTIN, NARROW, TWO_BITS, WIDE, BY_COLUMN]


def along(values, axis, rank):
    array = np.array(values)
    return array if axis is None else array.reshape([-1 if d == axis else 1 for d in range(rank)])


def quantise(x, kind):
    _, scales, zeros, axis, low, high = kind
    x = np.asarray(x, np.float32)
    scaled = x / along(scales, axis, x.ndim).astype(np.float32)
    shifted = scaled + along(zeros, axis, x.ndim).astype(np.float32)
    return np.rint(np.clip(shifted.astype(np.float32), np.float32(low), np.float32(high)))


def dequantise(q, kind):
    _, scales, zeros, axis, _, _ = kind
    difference = (q - along(zeros, axis, q.ndim)).astype(np.float32)
    return difference * along(scales, axis, q.ndim).astype(np.float32)


def typed(shape, kind):
    sizes = "x".join(map(str, shape))
    return f"tensor<{sizes}x!quant.uniform<{kind[0]}>>"


def run(text, *inputs):
    module = module_of_text(text)
    hloom.verify(module)
    assert "quant" not in hloom.show(module)
    by_meaning = hloom.evaluate(module, *inputs).array
    native = np.asarray(hloom.compile(module)(*inputs))
    np.testing.assert_array_equal(by_meaning, native)
    return by_meaning


def program(body, arguments, result):
    return f"func.func @main({arguments}) -> {result} {{\n{body}\n}}"


def draw(shape, seed=0, scale=20):
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k[0])
def test_there_and_back(kind):
    q = typed((2, 3), kind)
    body = f"""%q = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> {q}
    %y = stablehlo.uniform_dequantize %q : ({q}) -> tensor<2x3xf32>
    return %y : tensor<2x3xf32>"""
    text = program(body, "%x: tensor<2x3xf32>", "tensor<2x3xf32>")
    edges = np.array([[0.25, 0.75, -0.25], [1e9, -1e9, 0.05]], np.float32)
    for x in (draw((2, 3)), edges, draw((2, 3), 1, 0.3)):
        np.testing.assert_array_equal(run(text, x), dequantise(quantise(x, kind), kind))


def elementwise(name, kind, count):
    q = typed((2, 3), kind)
    makes = [
        f"%q{k} = stablehlo.uniform_quantize %x{k} : (tensor<2x3xf32>) -> {q}" for k in range(count)
    ]
    operands = ", ".join(f"%q{k}" for k in range(count))
    body = f"""
    %r = "stablehlo.{name}"({operands}) : ({", ".join([q] * count)}) -> {q}
    %y = stablehlo.uniform_dequantize %r : ({q}) -> tensor<2x3xf32>
    return %y : tensor<2x3xf32>"""
    arguments = ", ".join(f"%x{k}: tensor<2x3xf32>" for k in range(count))
    return program("\n".join(makes) + body, arguments, "tensor<2x3xf32>")


@pytest.mark.parametrize("kind", [TENSOR, UNSIGNED, NARROW, WIDE], ids=lambda k: k[0])
@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("add", np.add),
        ("subtract", np.subtract),
        ("multiply", np.multiply),
        ("divide", np.divide),
        ("maximum", np.maximum),
        ("negate", np.negative),
        ("abs", np.abs),
        ("floor", np.floor),
        ("sign", np.sign),
    ],
)
def test_elements(name, meaning, kind):
    count = meaning.nin
    inputs = [draw((2, 3), k, 5) for k in range(count)]
    meant = [dequantise(quantise(x, kind), kind) for x in inputs]
    with np.errstate(all="ignore"):
        made = meaning(*meant).astype(np.float32)
    if name == "divide" and (meant[1] == 0).any():
        pytest.skip("a division by zero")
    expected = dequantise(quantise(made, kind), kind)
    np.testing.assert_array_equal(run(elementwise(name, kind, count), *inputs), expected)


MOVES = {
    "transpose": ("{permutation = array<i64: 1, 0>}", (3, 2), lambda x: x.T),
    "reshape": ("", (6,), lambda x: x.reshape(6)),
    "reverse": ("{dimensions = array<i64: 1>}", (2, 3), lambda x: x[:, ::-1]),
    "broadcast_in_dim": (
        "{broadcast_dimensions = array<i64: 1, 2>}",
        (4, 2, 3),
        lambda x: np.broadcast_to(x, (4, 2, 3)),
    ),
    "slice": (
        "{start_indices = array<i64: 0, 1>, limit_indices = array<i64: 2, 3>, "
        "strides = array<i64: 1, 1>}",
        (2, 2),
        lambda x: x[:, 1:],
    ),
}


@pytest.mark.parametrize("name", MOVES)
def test_what_moves_values_moves_integers(name):
    attributes, shape, meaning = MOVES[name]
    q, r = typed((2, 3), TENSOR), typed(shape, TENSOR)
    body = f'%r = "stablehlo.{name}"(%x) {attributes} : ({q}) -> {r}\n return %r : {r}'
    x = np.arange(-3, 3, dtype=np.int8).reshape(2, 3)
    np.testing.assert_array_equal(run(program(body, f"%x: {q}", r), x), meaning(x))


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [(TENSOR, SYMMETRIC, OTHER), (TENSOR, SYMMETRIC, WIDE), (OTHER, COLUMNS, BY_COLUMN)],
    ids=["tensor", "to integers", "by column"],
)
def test_a_product_sums_integers(left, right, result):
    types = typed((2, 5), left), typed((5, 3), right), typed((2, 3), result)
    body = f"""%r = "stablehlo.dot_general"(%x, %y) {{dot_dimension_numbers = #stablehlo.dot<
      lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>}}
      : ({types[0]}, {types[1]}) -> {types[2]}
    return %r : {types[2]}"""
    draw_ = np.random.default_rng(0)
    x, y = (draw_.integers(-9, 9, s).astype(np.int8) for s in ((2, 5), (5, 3)))
    found = run(program(body, f"%x: {types[0]}, %y: {types[1]}", types[2]), x, y)
    exact = dequantise(x, left).astype(np.float64) @ dequantise(y, right).astype(np.float64)
    np.testing.assert_array_equal(found, quantise(exact, result))


def test_sums_that_need_64_bits_and_scales_along_what_is_summed():
    """Products of 16 bits do not fit 32; a scale for each row of what is summed is a float sum."""
    half = ("i16:f32, 0.001", [0.001], [0], None, -(2**15), 2**15 - 1)
    rows = ("i8:f32:0, {0.5,0.25,0.125}", [0.5, 0.25, 0.125], [0] * 3, 0, -128, 127)
    for left, right, high in ((half, half, 30000), (TENSOR, rows, 5)):
        types = typed((2, 3), left), typed((3, 2), right), typed((2, 2), WIDE)
        body = f"""%r = stablehlo.dot %x, %y : ({types[0]}, {types[1]}) -> {types[2]}
        return %r : {types[2]}"""
        draw_ = np.random.default_rng(0)
        stored = [np.int16 if k is half else np.int8 for k in (left, right)]
        x, y = (draw_.integers(-high, high, s).astype(t) for s, t in zip(((2, 3), (3, 2)), stored))
        text = program(body, f"%x: {types[0]}, %y: {types[1]}", types[2])
        try:
            found = run(text, x, y)
        except hloom.HloError as error:
            assert "per-axis" in str(error) or "quantiz" in str(error)  # MLIR's own verifier
            continue
        exact = dequantise(x, left).astype(np.float64) @ dequantise(y, right).astype(np.float64)
        assert abs(found - quantise(exact, WIDE)).max() <= 1


def test_a_convolution_pads_with_what_stands_for_zero():
    out = ("i32:f32:3, {0.25,0.05}", [0.25, 0.05], [0, 0], 3, -(2**31), 2**31 - 1)
    kernel = ("i8<-127:127>:f32:3, {0.5,0.1}", [0.5, 0.1], [0, 0], 3, -127, 127)
    types = typed((1, 3, 3, 2), TENSOR), typed((2, 2, 2, 2), kernel), typed((1, 4, 4, 2), out)
    body = f"""%r = stablehlo.convolution(%x, %y)
      dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {{stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1],
                reverse = [0, 0]}}
      {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
      : ({types[0]}, {types[1]}) -> {types[2]}
    return %r : {types[2]}"""
    draw_ = np.random.default_rng(0)
    x = draw_.integers(-9, 9, (1, 3, 3, 2)).astype(np.int8)
    y = draw_.integers(-9, 9, (2, 2, 2, 2)).astype(np.int8)
    found = run(program(body, f"%x: {types[0]}, %y: {types[1]}", types[2]), x, y)
    image = np.pad(dequantise(x, TENSOR), ((0, 0), (1, 1), (1, 1), (0, 0))).astype(np.float64)
    filters = dequantise(y, kernel).astype(np.float64)
    exact = np.zeros((1, 4, 4, 2))
    for a in range(4):
        for b in range(4):
            exact[0, a, b] = np.tensordot(image[0, a : a + 2, b : b + 2], filters, 3)
    np.testing.assert_array_equal(found, quantise(exact, out))


def test_regions_functions_and_constants():
    q = f"!quant.uniform<{TENSOR[0]}>"
    text = f"""
    func.func @main(%x: tensor<2x3xf32>) -> tensor<2xf32> {{
      %q = stablehlo.uniform_quantize %x : (tensor<2x3xf32>) -> tensor<2x3x{q}>
      %c = stablehlo.constant() {{value = dense<3> : tensor<i8>}} : () -> tensor<{q}>
      %n = stablehlo.constant dense<2> : tensor<i32>
      %z = stablehlo.constant dense<0> : tensor<i32>
      %w:2 = stablehlo.while(%i = %z, %y = %q) : tensor<i32>, tensor<2x3x{q}>
       cond {{
        %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      }} do {{
        %o = stablehlo.constant dense<1> : tensor<i32>
        %j = stablehlo.add %i, %o : tensor<i32>
        %d = func.call @double(%y) : (tensor<2x3x{q}>) -> tensor<2x3x{q}>
        stablehlo.return %j, %d : tensor<i32>, tensor<2x3x{q}>
      }}
      %r = stablehlo.reduce(%w#1 init: %c) applies stablehlo.add across dimensions = [1]
        : (tensor<2x3x{q}>, tensor<{q}>) -> tensor<2x{q}>
      %f = stablehlo.uniform_dequantize %r : (tensor<2x{q}>) -> tensor<2xf32>
      return %f : tensor<2xf32>
    }}
    func.func private @double(%a: tensor<2x3x{q}>) -> tensor<2x3x{q}> {{
      %m = stablehlo.add %a, %a : tensor<2x3x{q}>
      return %m : tensor<2x3x{q}>
    }}"""
    x = draw((2, 3), scale=3)
    expected = dequantise(quantise(x, TENSOR), TENSOR) * 4
    assert abs(expected).max() < 60  # nothing saturates
    np.testing.assert_array_equal(run(text, x), expected.sum(1))


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("!quant.any<i8:f32>", "without parameters"),
        ("!quant.uniform<i8:f64, 0.5>", "for f64"),
        ("!quant.uniform<i8:f32:{0:1, 1:2}, {{0.5:3, 0.2}, {0.1, 0.2}}>", "blocks"),
    ],
)
def test_other_types_are_refused_by_name(kind, why):
    t = f"tensor<2x4x{kind}>"
    text = program(f"return %x : {t}", f"%x: {t}", t)
    with pytest.raises(hloom.HloError, match=why):
        module_of_text(text)
