"""LAPACK's custom calls in the interpreter: what is refused, and what no end or NaN gives.

That the numbers are LAPACK's is tested against native code, in tests/targets.
"""

import re
from typing import Any

import numpy as np
import pytest

from hloom.base.diagnostics import EvalError
from hloom.interp import evaluate
from hloom.ir.text import parse_module


def by_columns(shapes: str) -> str:
    """Shapes, the matrices among them column-major, as JAX states them."""
    return re.sub(r"(\[\d+,\d+\])", r"\1{0,1}", shapes)


def called(target: str, results: str, operands: list[np.ndarray], config: str = "") -> Any:
    names = {"float32": "f32", "float64": "f64", "complex64": "c64", "int32": "s32"}
    lines = [
        f"p{k} = {names[x.dtype.name]}[{','.join(map(str, x.shape))}] parameter({k})"
        for k, x in enumerate(operands)
    ]
    given = ", ".join(f"p{k}" for k in range(len(operands)))
    stated = [by_columns(f"{names[x.dtype.name]}[{','.join(map(str, x.shape))}]") for x in operands]
    module = parse_module(
        f"HloModule m\nENTRY e {{ {' '.join(lines)} ROOT r = {by_columns(results)} "
        f'custom-call({given}), custom_call_target="{target}", api_version=API_VERSION_TYPED_FFI, '
        f"operand_layout_constraints={{{', '.join(stated)}}}, backend_config={{{config}}} }}"
    )
    made = evaluate(module, *operands)
    return [x.array for x in made.elements] if made.shape.is_tuple else made.array


X = np.float32([[4, 2], [2, 3]])


def test_the_other_triangle_is_kept():
    given = np.float32([[4, 11], [2, 5]])
    made, info = called("lapack_spotrf_ffi", "(f32[2,2], s32[])", [given], "uplo = 76 : ui8")
    assert np.array_equal(made, np.float32([[2, 11], [1, 2]]))
    assert info == 0


@pytest.mark.parametrize(
    ("target", "results", "config", "told"),
    [
        ("lapack_spotrf_ffi", "(f32[2,2], s32[])", "", "'uplo' is missing or no number"),
        ("lapack_spotrf_ffi", "(f32[2,2], s32[])", "uplo = 65 : ui8",
         r"'uplo' is 'A' .65., not one of L .76., U .85."),
        ("lapack_dpotrf_ffi", "(f64[2,2], s32[])", "uplo = 76 : ui8",
         r"operand 0 is f32.2,2.: .* takes T.n,n. and gives T.n,n. I.., .* where T is f64"),
        ("lapack_spotrf_ffi", "f32[2,2]", "uplo = 76 : ui8", "1 results: .* gives T.n,n. I"),
        ("lapack_sgetrf_ffi", "(f32[2,2], s32[3], s32[])", "", "result 1 is s32.3., where k is 2"),
        ("lapack_sgehrd_ffi", "(f32[2,2], f32[1], s32[])", "low = 1 : i32, high = 3 : i32",
         "no rows 1 to 3 of 2"),
        ("lapack_sgees_ffi", "(f32[2,2], f32[2,2], f32[2], f32[2], s32[], s32[])",
         "mode = 86 : ui8, sort = 83 : ui8", "'sort' is 'S' .83., not one of N"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told(target: str, results: str, config: str, told: str):
    with pytest.raises(EvalError, match=told):
        called(target, results, [X], config)


def test_a_batch_is_that_of_all_operands():
    a, b = np.ones((2, 3, 3), np.float32), np.ones((4, 3, 1), np.float32)
    flags = "side = 76 : ui8, uplo = 76 : ui8, trans_x = 78 : ui8, diag = 78 : ui8"
    with pytest.raises(EvalError, match=r"operand 1 of f32.4,3,1. is no batch"):
        called("lapack_strsm_ffi", "f32[4,3,1]", [a, b], flags)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    ("target", "results", "config"),
    [
        ("ssyevd", "(f32[2,2], f32[2], s32[])", "mode = 86 : ui8, uplo = 76 : ui8"),
        ("sgesdd", "(f32[2,2], f32[2], f32[2,2], f32[2,2], s32[])", "mode = 65 : ui8"),
        ("sgeev", "(f32[2], f32[2], c64[2,2], c64[2,2], s32[])",
         "compute_left = 86 : ui8, compute_right = 86 : ui8"),
        ("sgees", "(f32[2,2], f32[2,2], f32[2], f32[2], s32[], s32[])",
         "mode = 86 : ui8, sort = 78 : ui8"),
    ],
)  # fmt: skip
def test_no_values_of_infinities_and_nans(target: str, results: str, config: str, value: float):
    x = X.copy()
    x[1, 0] = value
    made = called(f"lapack_{target}_ffi", results, [x], config)
    assert made[-1] != 0
    assert np.isnan(made[1]).all()


def test_columns_chosen_beforehand_come_first():
    a = np.float32([[1, 0, 9], [0, 2, 0]])
    packed, columns, taus = called(
        "lapack_sgeqp3_ffi", "(f32[2,3], s32[3], f32[2])", [a, np.int32([0, 1, 0])]
    )
    assert columns.tolist() == [2, 3, 1]
    assert np.array_equal(np.abs(np.triu(packed)), np.float32([[2, 0, 0], [0, 9, 1]]))
    assert taus[1] == 0


def test_qr_by_its_own_name():
    a = np.random.default_rng(0).standard_normal((2, 4, 3)).astype(np.float32)
    packed, taus = called("Qr", "(f32[2,4,3], f32[2,3])", [a])
    q = called("ProductOfElementaryHouseholderReflectors", "f32[2,4,3]", [packed, taus])
    np.testing.assert_allclose(q @ np.triu(packed[:, :3]), a, atol=1e-5)
