"""Regions that read values from around them, whatever their operation."""

import numpy as np
import pytest

pytest.importorskip("jaxlib", reason="StableHLO is read with jaxlib")

import hloom
from hloom.frontends.stablehlo.read import module_of_text

FOLD = """%a: tensor<f32>, %b: tensor<f32>):
  %t = stablehlo.add %a, %b : tensor<f32>
  %u = stablehlo.minimum %t, %k : tensor<f32>
  stablehlo.return %u : tensor<f32> })"""


def clipped(values):
    """Sums from 0 in order, none of which passes the limit of 3."""
    total = np.float32(0)
    for x in values:
        total = min(total + x, np.float32(3))
    return total


CASES = {
    "reduce": (
        f"""%r = "stablehlo.reduce"(%x, %zero) ({{ ^bb0({FOLD} {{dimensions = array<i64: 1>}}
        : (tensor<4x6xf32>, tensor<f32>) -> tensor<4xf32>""",
        "tensor<4xf32>",
        lambda x: [clipped(row) for row in x],
    ),
    "reduce_window": (
        f"""%r = "stablehlo.reduce_window"(%x, %zero) ({{ ^bb0({FOLD}
        {{window_dimensions = array<i64: 1, 6>}}
        : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x1xf32>""",
        "tensor<4x1xf32>",
        lambda x: [[clipped(row)] for row in x],
    ),
    "sort": (
        """%r = "stablehlo.sort"(%x) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %c = stablehlo.subtract %a, %k : tensor<f32>
          %d = stablehlo.subtract %b, %k : tensor<f32>
          %e = stablehlo.abs %c : tensor<f32>
          %f = stablehlo.abs %d : tensor<f32>
          %g = stablehlo.compare LT, %e, %f : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %g : tensor<i1> }) {dimension = 1 : i64, is_stable = true}
        : (tensor<4x6xf32>) -> tensor<4x6xf32>""",
        "tensor<4x6xf32>",
        lambda x: [sorted(row, key=lambda v: abs(v - 3)) for row in x],
    ),
    "map": (
        """%r = "stablehlo.map"(%x) ({ ^bb0(%a: tensor<f32>):
          %b = stablehlo.subtract %a, %k : tensor<f32>
          stablehlo.return %b : tensor<f32> }) {dimensions = array<i64: 0, 1>}
        : (tensor<4x6xf32>) -> tensor<4x6xf32>""",
        "tensor<4x6xf32>",
        lambda x: x - 3,
    ),
    "scatter": (
        """%i = stablehlo.constant dense<[[1], [3]]> : tensor<2x1xi32>
        %v = stablehlo.constant dense<2.0> : tensor<2x6xf32>
        %r = "stablehlo.scatter"(%x, %i, %v) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %c = stablehlo.multiply %b, %k : tensor<f32>
          %d = stablehlo.add %a, %c : tensor<f32>
          stablehlo.return %d : tensor<f32> }) {scatter_dimension_numbers = #stablehlo.scatter<
          update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
          index_vector_dim = 1>}
        : (tensor<4x6xf32>, tensor<2x1xi32>, tensor<2x6xf32>) -> tensor<4x6xf32>""",
        "tensor<4x6xf32>",
        lambda x: x + 6 * np.array([[0], [1], [0], [1]], np.float32),
    ),
    "a map in a while, sharded": (
        """%r = stablehlo.while(%y = %x) : tensor<4x6xf32>
          attributes {mhlo.sharding = "{devices=[2,1]<=[2]}"}
          cond {
            %m = stablehlo.reduce(%y init: %zero) applies stablehlo.maximum across
              dimensions = [0, 1] : (tensor<4x6xf32>, tensor<f32>) -> tensor<f32>
            %p = stablehlo.compare LT, %m, %k : (tensor<f32>, tensor<f32>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
          } do {
            %n = "stablehlo.map"(%y) ({ ^bb0(%a: tensor<f32>):
              %b = stablehlo.add %a, %k : tensor<f32>
              stablehlo.return %b : tensor<f32> }) {dimensions = array<i64: 0, 1>}
              : (tensor<4x6xf32>) -> tensor<4x6xf32>
            %q = stablehlo.add %n, %x : tensor<4x6xf32>
            stablehlo.return %q : tensor<4x6xf32>
          }""",
        "tensor<4x6xf32>",
        lambda x: 2 * x + 3,
    ),
    "branches with shardings": (
        """%p = stablehlo.compare LT, %k, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
        %r, %s = "stablehlo.if"(%p) ({ stablehlo.return %x, %k : tensor<4x6xf32>, tensor<f32> }, {
          %a = stablehlo.add %x, %x : tensor<4x6xf32>
          stablehlo.return %a, %zero : tensor<4x6xf32>, tensor<f32> })
          {mhlo.sharding = "{{devices=[2,1]<=[2]}, {replicated}}"}
          : (tensor<i1>) -> (tensor<4x6xf32>, tensor<f32>)""",
        "tensor<4x6xf32>",
        lambda x: 2 * x,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_captured_scalars(name):
    body, result, meaning = CASES[name]
    body = body.replace("%r, %s =", "%r:2 =")
    value = "%r#0" if "%r:2" in body else "%r"
    module = module_of_text(
        f"""func.func @main(%x: tensor<4x6xf32>, %k: tensor<f32>) -> {result} {{
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        {body}
        return {value} : {result} }}"""
    )
    hloom.verify(module)
    x = np.random.default_rng(0).integers(-3, 3, (4, 6)).astype(np.float32)
    k = np.float32(3)
    expected = np.array(meaning(x), np.float32)
    np.testing.assert_array_equal(hloom.evaluate(module, x, k).array, expected)
    if "sharding" not in name and "sharded" not in name:
        np.testing.assert_array_equal(np.asarray(hloom.compile(module)(x, k)), expected)


LARGEST = """
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %k = "stablehlo.reduce"(%w, %z) ({ ^bb0(%l: tensor<f32>, %m: tensor<f32>):
        %n = stablehlo.maximum %l, %m : tensor<f32>
        stablehlo.return %n : tensor<f32> }) {dimensions = array<i64: 0>}
        : (tensor<3xf32>, tensor<f32>) -> tensor<f32>"""


@pytest.mark.parametrize("name", "reduce reduce_window sort map scatter".split())
def test_captured_arrays(name):
    """What a region computes of them alone is computed once, outside."""
    body, result, meaning = CASES[name]
    body = body.replace("tensor<f32>):", f"tensor<f32>):{LARGEST}", 1)
    module = module_of_text(
        f"""func.func @main(%x: tensor<4x6xf32>, %w: tensor<3xf32>) -> {result} {{
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        {body}
        return %r : {result} }}"""
    )
    hloom.verify(module)
    assert sum(i.opcode == "reduce" for i in module.entry.instructions) == 1 + (name == "reduce")
    x = np.random.default_rng(0).integers(-3, 3, (4, 6)).astype(np.float32)
    w = np.array([1, 3, 2], np.float32)
    expected = np.array(meaning(x), np.float32)
    np.testing.assert_array_equal(hloom.evaluate(module, x, w).array, expected)
    np.testing.assert_array_equal(np.asarray(hloom.compile(module)(x, w)), expected)


def test_an_array_that_is_read_where_elements_say_is_refused():
    with pytest.raises(hloom.HloError, match=r"the region reads %arg1, a s32\[3\], ") as e:
        module_of_text("""func.func @main(%x: tensor<4xi32>, %w: tensor<3xi32>) -> tensor<4xi32> {
          %r = "stablehlo.map"(%x) ({ ^bb0(%a: tensor<i32>):
            %s = stablehlo.dynamic_slice %w, %a, sizes = [1]
              : (tensor<3xi32>, tensor<i32>) -> tensor<1xi32>
            %b = stablehlo.reshape %s : (tensor<1xi32>) -> tensor<i32>
            stablehlo.return %b : tensor<i32> }) {dimensions = array<i64: 0>}
            : (tensor<4xi32>) -> tensor<4xi32>
          return %r : tensor<4xi32> }""")
    assert e.value.location is not None
    assert e.value.location.line == 2


@pytest.mark.parametrize(("split", "concat"), [(0, 0), (0, 1)])
def test_what_starts_and_ends(split, concat):
    """An all_to_all that moves the dimension is several operations of HLO."""
    module = module_of_text(f"""
    func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {{
      %f = "stablehlo.async_start"(%x) ({{ ^bb0(%a: tensor<4x6xf32>):
        %c = "stablehlo.all_to_all"(%a) {{split_dimension = {split} : i64,
          concat_dimension = {concat} : i64, split_count = 1 : i64,
          replica_groups = dense<0> : tensor<1x1xi64>}} : (tensor<4x6xf32>) -> tensor<4x6xf32>
        stablehlo.return %c : tensor<4x6xf32> }})
        : (tensor<4x6xf32>) -> !stablehlo.future<tensor<4x6xf32>>
      %r = "stablehlo.async_done"(%f) : (!stablehlo.future<tensor<4x6xf32>>) -> tensor<4x6xf32>
      return %r : tensor<4x6xf32>
    }}""")
    hloom.verify(module)
    assert any(i.opcode == "async-start" for i in module.entry.instructions) is (split == concat)
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    np.testing.assert_array_equal(hloom.evaluate(module, x).array, x)
    np.testing.assert_array_equal(np.asarray(hloom.compile(module)(x)), x)
