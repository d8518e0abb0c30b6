"""Functions of complex numbers that StableHLO has and HLO has not."""

import numpy as np
import pytest

pytest.importorskip("jaxlib", reason="StableHLO is read with jaxlib")

import hloom
from hloom.frontends.stablehlo.read import module_of_text

CUBE_ROOT = """func.func public @main(%x: tensor<5xcomplex<f32>>) -> tensor<5xcomplex<f32>> {
  %r = stablehlo.cbrt %x : tensor<5xcomplex<f32>>
  return %r : tensor<5xcomplex<f32>>
}"""


def test_the_principal_cube_root():
    x = np.array([0, -8, 1 + 2j, -0.5 - 3j, 27], np.complex64)
    expected = np.where(x == 0, 0, np.abs(x) ** (1 / 3) * np.exp(1j * np.angle(x) / 3))
    module = module_of_text(CUBE_ROOT)
    hloom.verify(module)
    np.testing.assert_allclose(hloom.evaluate(module, x).array, expected, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(hloom.compile(module)(x)), expected, rtol=2e-6, atol=1e-7)
