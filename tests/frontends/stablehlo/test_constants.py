"""Constants from their text: every number of a narrow float comes back with its own bits."""

import importlib.util

import ml_dtypes
import numpy as np
import pytest

from hloom.types.shape import shape

if importlib.util.find_spec("jaxlib") is None:
    pytest.skip("jaxlib is not installed", allow_module_level=True)

import hloom
from hloom.frontends.stablehlo.constants import literal_of_text


@pytest.mark.parametrize("text", ["1.175490e-38", "1.175494e-38", "9.183550e-41", "-1.836710e-40"])
def test_the_smallest_numbers_stay(text):
    """MLIR writes the smallest normal bf16 with too few digits to be one of f32 or f64."""
    wanted = np.float32(text).astype(ml_dtypes.bfloat16)
    array = literal_of_text(f"dense<{text}> : tensor<bf16>", shape("bf16")).array
    assert array.tobytes() == wanted.tobytes() != b"\0\0"


@pytest.mark.parametrize("dtype", ["f8e4m3fn", "f8e5m2", "f8e5m2fnuz", "f8e8m0fnu", "f4e2m1fn"])
def test_all_numbers_of_eight_bits(dtype):
    scalar = shape(dtype)
    every = np.arange(256 if dtype != "f4e2m1fn" else 16, dtype=np.uint8).view(scalar.dtype.numpy)
    for x in every:
        wide = float(x)
        if np.isfinite(wide):
            found = literal_of_text(f"dense<{wide:e}> : tensor<x>", scalar).array
            assert found.tobytes() == x.tobytes(), wide


def one_constant(op: str, type_: str) -> hloom.Literal:
    text = f"func.func @main() -> {type_} {{ %0 = {op} : {type_}\n return %0 : {type_} }}"
    return hloom.parse(text).entry.root.attrs.literal


def test_constants_of_the_arith_dialect():
    """What TensorFlow and torch-mlir leave in StableHLO, and XLA reads."""
    assert one_constant("arith.constant dense<[1.0, 2.5]>", "tensor<2xf32>").array.tolist() == [
        1,
        2.5,
    ]
    assert one_constant("arith.constant dense<7>", "tensor<i32>").array == 7


def test_any_byte_but_0_is_true():
    array = one_constant('stablehlo.constant dense<"0x0D">', "tensor<4xi1>").array
    assert array.view(np.uint8).tolist() == [1, 1, 1, 1]
