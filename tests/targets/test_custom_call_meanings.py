"""Custom calls that native code takes: each means the same in the interpreter."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hloom
from hloom.interp.call import TARGETS
from hloom.interp.registry import load_meanings
from hloom.ir.custom_call_rules import CHOICES, DIALECTS, FUNCTIONS, SAME, SPREAD
from hloom.ir.lapack_calls import COMPLEX, LIBRARY, REAL
from hloom.runtime import ffi
from hloom.runtime.native_sources import SOURCES
from hloom.targets.cpu.lower.custom_call import FRESH, VALUES

LAPACK = [
    f"lapack_{letter}{name}_ffi"
    for letters, forms in (("sd", REAL), ("cz", COMPLEX))
    for letter in letters
    for name in forms
]
DIALECT_CALLS = [f"{d}.{name}" for d in DIALECTS for name in sorted(FUNCTIONS | CHOICES)]
TOP = ["TopK", *[f"{d}.{name}" for d in DIALECTS for name in sorted(CHOICES)]]
OTHERS = ["TopK", "Eigh", "PadToStatic", "SliceToDynamic", "control_dep", "CreateBuffer"]


@pytest.mark.parametrize(
    "target", [*LAPACK, *LIBRARY, *DIALECT_CALLS, *sorted(SAME | SPREAD | VALUES | FRESH), *OTHERS]
)
def test_what_native_code_takes_has_a_meaning(target: str) -> None:
    load_meanings()
    assert target in TARGETS


def test_routines_of_the_runtime_are_those_that_have_a_form() -> None:
    """Of which `wrong_custom_call` knows the shapes, before anything trusts them."""
    source = (SOURCES / "linalg_calls.cc").read_text()
    rows = re.findall(r'HLOOM_(?:FOUR|TWO|SVD)\("?(\w+)"?(?:, "(\w+)")?[,)]', source)
    named = {name for row in rows for name in row if name} - {"name", "real_name"}
    assert named == REAL.keys() | COMPLEX.keys()
    assert all(ffi.is_handled(target) for target in (*LAPACK, *LIBRARY, "TopK"))


INPUTS = np.array([-2.5, -1, -0.75, -0.0, 0, 0.25, 0.5, 1, 1.5, 40, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "c64", "c128"])
def test_functions_are_the_same_in_both(name: str, dtype: str) -> None:
    if name == "erf" and dtype[0] == "c":
        pytest.skip("of floats alone")
    inputs = INPUTS[np.isfinite(INPUTS)]
    if dtype[0] == "c":
        inputs = inputs + 0.5j * inputs[::-1]
    for dialect in DIALECTS:
        module = hloom.parse(
            f"ENTRY e {{\n  x = {dtype}[{len(inputs)}] parameter(0)\n  ROOT r = "
            f'{dtype}[{len(inputs)}] custom-call(x), custom_call_target="{dialect}.{name}"\n}}\n'
        )
        array = inputs.astype(module.entry.root.shape.dtype.numpy)
        judged = hloom.evaluate(module, array).array
        native = np.asarray(hloom.compile(module, threads=1)(array))
        wide = np.complex128 if dtype[0] == "c" else np.float64
        tolerance = {"bf16": 1e-2, "f32": 1e-6, "c64": 1e-5}.get(dtype, 1e-13)
        np.testing.assert_allclose(
            native.astype(wide), judged.astype(wide), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("target", TOP)
def test_the_first_k_are_in_total_order_in_both(target: str) -> None:
    x = np.array([[1, -0.0, 0, np.nan, -np.nan, 3, 3, -np.inf, np.inf]], np.float32)
    for config in ("", ', backend_config="{\\"largest\\":false}"'):
        module = hloom.parse(
            "ENTRY e {\n  x = f32[1,9] parameter(0)\n  ROOT r = (f32[1,7], s32[1,7]) "
            f'custom-call(x), custom_call_target="{target}"{config}\n}}\n'
        )
        _, places = hloom.compile(module, threads=1)(x)
        largest = not config or target == "TopK"
        expected = [3, 8, 5, 6, 0, 2, 1] if largest else [4, 7, 1, 2, 0, 5, 6]
        assert np.asarray(places).tolist() == [expected]
        assert hloom.evaluate(module, x).elements[1].array.tolist() == [expected]


GEQRF = """ENTRY e {
  x = f64[2,3,4]STATED parameter(0)
  c = (f64[2,3,4]RESULT, f64[2,3]{1,0}) custom-call(x), custom_call_target="lapack_dgeqrf_ffi",
    api_version=API_VERSION_TYPED_FFICONSTRAINTS, backend_config={}
  ROOT r = f64[2,3,4]RESULT get-tuple-element(c), index=0
}
"""
COLUMNS, ROWS = "{1,2,0}", "{2,1,0}"


@pytest.mark.parametrize(
    ("stated", "result", "constrained", "columns"),
    [
        (COLUMNS, COLUMNS, "", False),
        (ROWS, COLUMNS, "", False),
        (ROWS, ROWS, "", False),
        ("", "", "", False),
        (ROWS, ROWS, ROWS, False),
        (ROWS, COLUMNS, COLUMNS, True),
        (COLUMNS, COLUMNS, COLUMNS, True),
        ("{0,1,2}", COLUMNS, "{0,1,2}", None),
    ],
)
def test_lapack_reads_memory_as_the_call_lays_it_out(
    stated: str, result: str, constrained: str, columns: bool | None
) -> None:
    """Where it says nothing, row-major, whatever shapes say: so does XLA:CPU (jaxlib 0.10)."""
    constraints = f", operand_layout_constraints={{f64[2,3,4]{constrained}}}" * bool(constrained)
    text = GEQRF.replace("STATED", stated).replace("RESULT", result)
    module = hloom.parse(text.replace("CONSTRAINTS", constraints))
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    judged = hloom.evaluate(module, x).array
    native = np.asarray(hloom.compile(module, threads=1)(x))
    np.testing.assert_allclose(native, judged, rtol=1e-12, atol=1e-12)
    if columns is not None:
        # The first column that the routine reads becomes the first of R, but for its sign.
        seen = x if columns else x.reshape(2, 4, 3).swapaxes(1, 2)
        left = judged if columns else judged.reshape(2, 4, 3).swapaxes(1, 2)
        lengths = np.linalg.norm(seen[:, :, 0], axis=1)
        np.testing.assert_allclose(np.abs(left[:, 0, 0]), lengths, rtol=1e-12)


@pytest.mark.parametrize("layout", [ROWS, COLUMNS])
@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize("target", sorted(LIBRARY))
def test_what_xla_writes_out_means_the_same_in_every_layout(
    target: str, layout: str, stated: bool
) -> None:
    operands = [f"f64[2,4,3]{layout}", "f64[2,3]{1,0}"][: 1 if target == "Qr" else 2]
    constraints = f", operand_layout_constraints={{{', '.join(operands)}}}" * stated
    whole = f"f64[2,4,3]{layout}"
    result = f"({whole}, f64[2,3]{{1,0}})" if target == "Qr" else whole
    module = hloom.parse(
        "ENTRY e {\n  a = f64[2,4,3] parameter(0)\n  t = f64[2,3] parameter(1)\n"
        f"  ROOT r = {result} custom-call({'a' if target == 'Qr' else 'a, t'}), "
        f'custom_call_target="{target}"{constraints}\n}}\n'
    )
    arguments = hloom.random_arguments(module, seed=0)
    judged = hloom.evaluate(module, *arguments)
    native = hloom.compile(module, threads=1)(*arguments)
    pairs = zip(judged.elements, native) if judged.shape.is_tuple else [(judged, native)]
    for x, y in pairs:
        np.testing.assert_allclose(np.asarray(y), x.array, rtol=1e-12, atol=1e-12)
