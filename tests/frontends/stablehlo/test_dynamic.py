"""Sizes that a program leaves open follow from the shapes of its arguments."""

import numpy as np
import pytest

pytest.importorskip("jaxlib", reason="StableHLO is read with jaxlib")

import hloom
from hloom.frontends.stablehlo.files import shapes_of_text
from hloom.frontends.stablehlo.read import module_of_bytes, module_of_text

OPEN = """
func.func @main(%x: tensor<?x3xf32>, %y: tensor<3xf32>) -> tensor<?x3xf32> {
  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x3xf32>) -> tensor<i32>
  %n1 = stablehlo.reshape %n : (tensor<i32>) -> tensor<1xi32>
  %three = stablehlo.constant dense<3> : tensor<1xi32>
  %s = stablehlo.concatenate %n1, %three, dim = 0 : (tensor<1xi32>, tensor<1xi32>) -> tensor<2xi32>
  %b = stablehlo.dynamic_broadcast_in_dim %y, %s, dims = [1]
    : (tensor<3xf32>, tensor<2xi32>) -> tensor<?x3xf32>
  %0 = stablehlo.add %x, %b : tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}"""


def test_given_shapes_flow_through_the_program():
    module = module_of_text(OPEN, shapes=shapes_of_text("f32[4,3],f32[3]"))
    hloom.verify(module)
    assert module.entry.program_shape.result.bare.text == "f32[4,3]"
    x, y = np.ones((4, 3), np.float32), np.arange(3, dtype=np.float32)
    assert np.array_equal(hloom.evaluate(module, x, y).array, x + y)
    assert np.array_equal(np.asarray(hloom.compile(module)(x, y)), x + y)


def test_open_sizes_without_shapes_are_refused():
    with pytest.raises(hloom.HloError, match="dimension without a size") as caught:
        module_of_text(OPEN, "open.mlir")
    assert caught.value.rule == "dynamic"
    assert "--shapes" in caught.value.hint


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ("f32[4,3]", "1 shapes are given for 2"),
        ("f32[4,2],f32[3]", "cannot be f32[4,2]"),
        ("s32[4,3],f32[3]", "cannot be s32[4,3]"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(shapes, words):
    with pytest.raises(hloom.HloError) as caught:
        module_of_text(OPEN, shapes=shapes_of_text(shapes))
    assert words in str(caught.value)


def test_shapes_that_break_inside_of_the_program_are_refused():
    text = """func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
      %0 = stablehlo.add %x, %y : tensor<?xf32>
      return %0 : tensor<?xf32>
    }"""
    module = module_of_text(text, shapes=shapes_of_text("f32[4],f32[4]"))
    assert module.entry.program_shape.result.bare.text == "f32[4]"
    with pytest.raises(hloom.HloError):
        module_of_text(text, shapes=shapes_of_text("f32[4],f32[5]"))


def test_bounds_are_kept():
    module = module_of_text(
        """func.func @main(%x: tensor<?x3xf32, #stablehlo.bounds<8, ?>>)
             -> tensor<?x3xf32, #stablehlo.bounds<8, ?>> {
          %0 = stablehlo.negate %x : tensor<?x3xf32, #stablehlo.bounds<8, ?>>
          return %0 : tensor<?x3xf32, #stablehlo.bounds<8, ?>>
        }"""
    )
    assert module.entry.root.shape.bare.text == "f32[<=8,3]"
    x = np.ones((5, 3), np.float32)
    assert hloom.evaluate(module, x).array.shape == (5, 3)


def test_a_shape_that_stays_open_inside_of_a_bounded_program():
    module = module_of_text(
        """func.func @main(%x: tensor<4xf32>, %n: tensor<i32>)
             -> tensor<?xf32, #stablehlo.bounds<4>> {
          %0 = stablehlo.set_dimension_size %x, %n, dim = 0
            : (tensor<4xf32>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<4>>
          return %0 : tensor<?xf32, #stablehlo.bounds<4>>
        }"""
    )
    found = hloom.evaluate(module, np.arange(4, dtype=np.float32), np.int32(2))
    assert found.array.tolist() == [0, 1]


def programs():
    """Functions in JAX of an array of two open sizes; made when JAX is there."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    return {
        "reshape": lambda x: (x.reshape(-1) * 2).sum() + x.shape[0],
        "window of an open size": lambda x: jnp.cumsum(x, axis=0),
        "sort": lambda x: jnp.sort(x, axis=1),
        "concatenate and slice": lambda x: jnp.concatenate([x, x * 2], 0)[1:],
        "pad": lambda x: jnp.pad(x, ((1, 2), (0, x.shape[0]))),
        "functions of several shapes": lambda x: x + jax.random.uniform(jax.random.key(0), x.shape),
        "random bits": lambda x: lax.rng_bit_generator(jnp.zeros(4, jnp.uint32), x.shape)[1],
        "loop": lambda x: lax.fori_loop(0, x.shape[0], lambda i, s: s + x[i].sum(), 0.0),
        "branch": lambda x: lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, x),
        "dot and iota": lambda x: x @ x.T + jnp.arange(x.shape[0]),
    }


NAMES = [
    *("reshape", "window of an open size", "sort", "concatenate and slice", "pad", "random bits"),
    *("functions of several shapes", "loop", "branch", "dot and iota"),
]


@pytest.mark.parametrize("name", NAMES)
def test_programs_of_jax_with_symbolic_sizes(name):
    jax = pytest.importorskip("jax", reason="the program is written in JAX")
    from jax import export

    function = programs()[name]
    a, b = export.symbolic_shape("a, b")
    given = jax.ShapeDtypeStruct((a, b), "float32")
    data = export.export(jax.jit(function))(given).mlir_module_serialized
    module = module_of_bytes(data, shapes=shapes_of_text("f32[3,5]"))
    hloom.verify(module)
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    found, wanted = hloom.evaluate(module, x).array, np.asarray(jax.jit(function)(x))
    assert np.allclose(found, wanted, 1e-5, 1e-5)


def test_recursion_is_refused():
    text = """func.func private @f(%x: tensor<?xf32>) -> tensor<?xf32> {
      %0 = func.call @f(%x) : (tensor<?xf32>) -> tensor<?xf32>
      return %0 : tensor<?xf32>
    }
    func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
      %0 = func.call @f(%x) : (tensor<?xf32>) -> tensor<?xf32>
      return %0 : tensor<?xf32>
    }"""
    with pytest.raises(hloom.HloError) as caught:
        module_of_text(text, shapes=shapes_of_text("f32[4]"))
    assert caught.value.rule == "recursion"
