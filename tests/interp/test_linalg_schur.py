"""Schur forms and vectors with settled signs: those of native code, number by number."""

import numpy as np
import pytest

import hloom
from hloom.interp import evaluate
from hloom.interp.linalg_schur import schur_form
from hloom.ir.settled_signs import settle_signs
from hloom.ir.text import parse_module

NAMES = {"s": ("f32", None), "d": ("f64", None), "c": ("c64", "f32"), "z": ("c128", "f64")}
TOLERANCES = {"s": 2e-3, "d": 1e-9, "c": 2e-3, "z": 1e-9}


def drawn(letter: str, size: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed + size)
    a = random.standard_normal((size, size))
    if letter in "cz":
        a = a + 1j * random.standard_normal((size, size))
    return a.astype({"s": "f", "d": "d", "c": "F", "z": "D"}[letter])


def results_of(letter: str, routine: str, n: int) -> tuple[str, str]:
    """The results of a routine, and its attributes."""
    kind, real = NAMES[letter]
    matrix, vector = f"{kind}[{n},{n}]{{0,1}}", f"{kind}[{n}]"
    values = f"{vector}, {vector}" if real is None else vector
    wide = {"f32": "c64", "f64": "c128"}.get(kind, kind)
    if routine == "gees":
        return f"({matrix}, {matrix}, {values}, s32[], s32[])", "mode = 86 : ui8, sort = 78 : ui8"
    if routine == "geev":
        both = f"{wide}[{n},{n}]{{0,1}}, {wide}[{n},{n}]{{0,1}}"
        return f"({values}, {both}, s32[])", "compute_left = 86 : ui8, compute_right = 86 : ui8"
    singular = f"{real or kind}[{n}]"
    if routine == "gesdd":
        return f"({matrix}, {singular}, {matrix}, {matrix}, s32[])", "mode = 83 : ui8"
    return f"({matrix}, {singular}, s32[])", "mode = 86 : ui8, uplo = 76 : ui8"


@pytest.mark.parametrize("letter", "sdcz")
@pytest.mark.parametrize("routine", ["gees", "geev", "gesdd", "syevd"])
def test_settled_vectors_are_native_codes(letter: str, routine: str):
    name = "heevd" if routine == "syevd" and letter in "cz" else routine
    for n in (1, 4):
        results, attributes = results_of(letter, routine, n)
        kind = NAMES[letter][0]
        text = f"""HloModule m
ENTRY e {{ a = {kind}[{n},{n}] parameter(0)
 c = {kind}[{n},{n}]{{0,1}} copy(a)
 ROOT r = {results} custom-call(c), custom_call_target="lapack_{letter}{name}_ffi",
  operand_layout_constraints={{{kind}[{n},{n}]{{0,1}}}}, api_version=API_VERSION_TYPED_FFI,
  backend_config={{{attributes}}} }}"""
        module = parse_module(text)
        settle_signs(module)
        assert "settled" in module.entry.root.backend_config.raw
        a = drawn(letter, n)
        reference = [x.array for x in evaluate(module, a).elements]
        skipped = {0} if routine == "gesdd" else set()  # the matrix that was overwritten
        for k, (x, y) in enumerate(zip(hloom.compile(module)(a), reference, strict=True)):
            if k not in skipped:
                np.testing.assert_allclose(x, y, atol=TOLERANCES[letter], err_msg=f"{n}, {k}")


@pytest.mark.parametrize("letter", "sdcz")
@pytest.mark.parametrize("form", ["full", "upper", "lower", "column", "turned", "zero", "whole"])
def test_schur_forms(letter: str, form: str):
    for n in (0, 1, 2, 3, 4, 7, 12):
        a = drawn(letter, n, 3)
        forms = {"upper": np.triu(a), "lower": np.tril(a), "zero": a * 0, "whole": np.round(a)}
        a = forms.get(form, a)
        if (
            form == "column" and n
        ):  # a column of zeros below the diagonal: it is exchanged to the front
            a[:, n // 2] = 0
        if form == "turned":
            a = np.eye(n, dtype=a.dtype)[::-1]
        t, z, values, unfinished = schur_form(a)
        scale = TOLERANCES[letter]
        assert unfinished == 0
        np.testing.assert_allclose(z @ t @ z.conj().T, a, atol=scale)
        np.testing.assert_allclose(z @ z.conj().T, np.eye(n), atol=scale)
        below = np.tril(t, -1) if letter in "cz" else np.tril(t, -2)
        assert not below.any()
        blocks = np.flatnonzero(np.diag(t, -1)) if n else []
        assert all(t[k, k] == t[k + 1, k + 1] for k in blocks)
        assert all(t[k, k + 1] * t[k + 1, k] < 0 for k in blocks)
        assert np.abs(np.sum(values) - np.trace(a)) <= 12 * scale
