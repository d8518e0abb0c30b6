"""Layouts that JAX asks of arguments and results, and those that it leaves to the compiler."""

import numpy as np
import pytest

pytest.importorskip("jaxlib", reason="StableHLO is read with jaxlib")

import hloom
from hloom.frontends.stablehlo.read import module_of_text


def program(argument: str, result: str, body: str) -> str:
    """A function of one matrix; `body` makes %r."""
    return f"""
module @program {{
  func.func private @turned(%x: tensor<4x2xf32>) -> tensor<2x4xf32> {{
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>
    return %0 : tensor<2x4xf32>
  }}
  func.func public @main(%a: tensor<4x2xf32> {{mhlo.layout_mode = "{argument}"}})
      -> (tensor<2x4xf32> {{mhlo.layout_mode = "{result}"}}) {{
    {body}
    return %r : tensor<2x4xf32>
  }}
}}"""


TURNED = "%r = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>"
CALLED = "%r = func.call @turned(%a) : (tensor<4x2xf32>) -> tensor<2x4xf32>"
RESHAPED = "%r = stablehlo.reshape %a : (tensor<4x2xf32>) -> tensor<2x4xf32>"
AND_MORE = """
    %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<4x2xf32>) -> tensor<2x4xf32>
    %1 = stablehlo.constant dense<2.0> : tensor<2x4xf32>
    %r = stablehlo.multiply %0, %1 : tensor<2x4xf32>"""
CONSTRAINED = """
    %0 = stablehlo.reshape %a : (tensor<4x2xf32>) -> tensor<2x4xf32>
    %r = stablehlo.custom_call @LayoutConstraint(%0) {
      operand_layouts = [dense<[1, 0]> : tensor<2xindex>],
      result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<2x4xf32>) -> tensor<2x4xf32>"""


@pytest.mark.parametrize(
    ("argument", "result", "body", "expected"),
    [
        ("default", "{0,1}", TURNED, "(f32[4,2]{1,0})->f32[2,4]{0,1}"),
        ("{0,1}", "default", TURNED, "(f32[4,2]{0,1})->f32[2,4]{1,0}"),
        ("auto", "auto", TURNED, "(f32[4,2]{1,0})->f32[2,4]{0,1}"),
        ("{0,1}", "auto", TURNED, "(f32[4,2]{0,1})->f32[2,4]{1,0}"),
        ("default", "auto", CALLED, "(f32[4,2]{1,0})->f32[2,4]{0,1}"),
        ("default", "auto", AND_MORE, "(f32[4,2]{1,0})->f32[2,4]{0,1}"),
        ("default", "auto", CONSTRAINED, "(f32[4,2]{1,0})->f32[2,4]{0,1}"),
        ("{0,1}", "auto", RESHAPED, "(f32[4,2]{0,1})->f32[2,4]{1,0}"),
        ("{1,0:T(2,2)}", "default", RESHAPED, "(f32[4,2]{1,0:T(2,2)})->f32[2,4]{1,0}"),
    ],
)
def test_modes_become_the_layout_of_the_entry(argument, result, body, expected):
    module = module_of_text(program(argument, result, body))
    assert str(module.entry_layout) == expected


def test_arrays_are_held_so():
    module = module_of_text(program("{0,1}", "auto", CONSTRAINED))
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    compiled = hloom.compile(module)
    assert str(compiled.program.parameters[0].shape) == "f32[4,2]{0,1}"
    assert str(compiled.program.results[0].shape) == "f32[2,4]{0,1}"
    assert np.array_equal(np.asarray(compiled(x)), x.reshape(2, 4))


@pytest.mark.parametrize("mode", ["{0,0}", "{0}", "{0,1", "usual"])
def test_what_is_no_layout_is_refused(mode):
    with pytest.raises(hloom.HloError, match=r"mhlo.layout_mode .* \[layout\]"):
        module_of_text(program(mode, "default", TURNED))
