"""Import and export of MLIR."""

import numpy as np
import pytest

pytest.importorskip("jaxlib", reason="StableHLO is read with jaxlib")

import hloom
from hloom.frontends.stablehlo.read import module_of_text
from hloom.frontends.stablehlo.write import text_of_module
from hloom.ir.values.precision import ALGORITHMS
from hloom.types.dtype import ARRAY_TYPES

TYPES = [t.name for t in ARRAY_TYPES]


@pytest.mark.parametrize("name", TYPES)
def test_every_type_goes_both_ways(name):
    module = hloom.parse(f"ENTRY e {{ ROOT p = {name}[2,3] parameter(0) }}")
    again = module_of_text(text_of_module(module))
    assert again.entry.root.shape.text == f"{name}[2,3]{{1,0}}"


@pytest.mark.parametrize("algorithm", [a for a in ALGORITHMS if a != "unset"])
def test_every_algorithm_of_a_dot_goes_both_ways(algorithm):
    side = "f8e4m3fn" if "f8" in algorithm else "f64" if "f64" in algorithm else "f32"
    result = "f64" if "f64" in algorithm else "f32"
    module = hloom.parse(
        f"""ENTRY e {{
          a = {side}[4,4] parameter(0)
          b = {side}[4,4] parameter(1)
          ROOT d = {result}[4,4] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}},
            algorithm={algorithm}
        }}"""
    )
    again = module_of_text(text_of_module(module))
    assert again.entry.root.attrs == module.entry.root.attrs


def test_x9_is_nine_products_of_bf16():
    module = hloom.parse(
        """ENTRY e {
          a = f32[4,4] parameter(0)
          ROOT d = f32[4,4] dot(a, a), lhs_contracting_dims={1}, rhs_contracting_dims={0},
            algorithm=dot_bf16_bf16_f32_x9
        }"""
    )
    text = text_of_module(module)
    assert "algorithm = <lhs_precision_type = bf16, rhs_precision_type = bf16" in text
    assert "accumulation_type = f32" in text
    assert "num_primitive_operations = 9" in text


def test_quantised_types_are_integers_where_they_come_in():
    module = module_of_text(
        """!q = !quant.uniform<i8:f32, 0.5>
        func.func @main(%x: tensor<2x!q>) -> tensor<2xf32> {
          %0 = stablehlo.uniform_dequantize %x : (tensor<2x!q>) -> tensor<2xf32>
          return %0 : tensor<2xf32>
        }"""
    )
    assert hloom.evaluate(module, np.int8([-4, 3])).array.tolist() == [-2.0, 1.5]
