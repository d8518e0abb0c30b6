"""Custom calls for linear algebra: native code against the interpreter, on every LAPACK target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hloom
from hloom.compiler import compile_module
from hloom.interp import evaluate

KINDS = {"s": "f32", "d": "f64", "c": "c64", "z": "c128"}
NUMPY = {"f32": "f4", "f64": "f8", "c64": "c8", "c128": "c16"}
REAL = {"f32": "f32", "f64": "f64", "c64": "f32", "c128": "f64"}


def drawn(kind: str, *dims: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(dims)
    if kind[0] == "c":
        x = x + 1j * rng.standard_normal(dims)
    return x.astype(NUMPY[kind])


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def of(kind: str, *dims: int) -> str:
    """A shape as JAX lays it out: batches of matrices column-major, of vectors row-major."""
    order = [1, 2, 0] if len(dims) == 3 else [*range(len(dims))][::-1]
    return f"{kind}[{','.join(map(str, dims))}]{{{','.join(map(str, order))}}}"


def both(
    target: str, results: list[str], inputs: list[np.ndarray], **attributes: int
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What native code and the interpreter return."""
    shapes = [of(dict(zip(NUMPY.values(), NUMPY)).get(x.dtype.str[1:], "s32"), *x.shape)
              for x in inputs]  # fmt: skip
    bare = [s[: s.index("{")] for s in shapes]
    whole = f"({', '.join(results)})" if len(results) > 1 else results[0]
    config = ", ".join(
        f"{name} = {str(value).lower() if value is True or value is False else f'{value} : '}"
        + ("" if isinstance(value, bool) else "i32" if name in ("low", "high") else "ui8")
        for name, value in attributes.items()
    )
    lines = [f"p{k} = {s} parameter({k})" for k, s in enumerate(bare)]
    names = ", ".join(f"p{k}" for k in range(len(inputs)))
    layouts = ", ".join(shapes)
    module = hloom.parse(
        f"HloModule m\nENTRY e {{\n{chr(10).join(lines)}\n"
        f'ROOT r = {whole} custom-call({names}), custom_call_target="{target}", '
        f"operand_layout_constraints={{{layouts}}}, api_version=API_VERSION_TYPED_FFI, "
        f"backend_config={{{config}}}\n}}"
    )
    native = compile_module(module, threads=1, cached=False)(*inputs)
    judged = evaluate(module, *inputs)
    if len(results) == 1:
        return [np.asarray(native)], [judged.array]
    return [np.asarray(x) for x in native], [x.array for x in judged.elements]


def close(x: Any, y: Any, n: int = 8) -> None:
    x, y = np.asarray(x), np.asarray(y)
    assert x.shape == y.shape
    assert x.dtype == y.dtype
    if x.dtype.kind == "i":
        np.testing.assert_array_equal(x, y)
        return
    tolerance = 60 * n * float(np.finfo(x.dtype).eps)
    np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * np.max(np.abs(y), initial=1))


def same(found: tuple[list[np.ndarray], list[np.ndarray]], n: int = 8) -> None:
    for x, y in zip(*found, strict=True):
        close(x, y, n)


each_kind = pytest.mark.parametrize("letter", KINDS)
SIZES = [(0, 0), (1, 1), (1, 4), (5, 8), (9, 6)]
LARGE = (70, 66)
"""From 64 rows on native code asks a LAPACK."""


@each_kind
def test_factors_by_elimination(letter: str):
    kind = KINDS[letter]
    for m, n in (*SIZES, LARGE) if letter in "dc" else SIZES:
        a = drawn(kind, 2, m, n)
        k = min(m, n)
        if k > 2:
            a[1, :, 1] = 0  # the second pivot is zero: info says so, and the rest is factored
        results = [of(kind, 2, m, n), of("s32", 2, k).split("{")[0], "s32[2]"]
        same(both(f"lapack_{letter}getrf_ffi", results, [a]), 9 * n)
        for upper in "LU" if m == n else "":
            x = drawn(kind, 2, n, n, seed=1)
            spd = x @ adjoint(x) + n * np.eye(n, dtype=x.dtype)
            spd = np.where(np.tri(n, dtype=bool) == (upper == "L"), spd, x) if n > 1 else spd
            spd[:, range(n), range(n)] = np.abs(spd[:, range(n), range(n)]) + 3 * n
            results = [of(kind, 2, n, n), "s32[2]"]
            same(both(f"lapack_{letter}potrf_ffi", results, [spd], uplo=ord(upper)), 9 * n)
    bad = np.diag([4, -1, 1, 1, 1])[None].astype(NUMPY[kind])
    results = [of(kind, 1, 5, 5), "s32[1]"]
    found = both(f"lapack_{letter}potrf_ffi", results, [bad], uplo=ord("L"))
    assert found[0][1] == found[1][1] == 2


@each_kind
def test_reflectors(letter: str):
    kind = KINDS[letter]
    un = "un" if kind[0] == "c" else "or"
    for m, n in (*SIZES, LARGE) if letter in "sz" else SIZES:
        k = min(m, n)
        a, taus = drawn(kind, 2, m, n), f"{kind}[2,{k}]"
        found = both(f"lapack_{letter}geqrf_ffi", [of(kind, 2, m, n), taus], [a])
        same(found, 9 * n)
        packed, tau = found[0]
        columns = f"s32[2,{n}]"
        none = np.zeros((2, n), np.int32)
        matrices = [of(kind, 2, m, n), columns, taus]
        same(both(f"lapack_{letter}geqp3_ffi", matrices, [a, none]), 9 * n)
        if m >= n > 0:
            same(both(f"lapack_{letter}{un}gqr_ffi", [of(kind, 2, m, n)], [packed, tau]), 9 * n)
            for left in (True, False):
                for transpose in (True, False):
                    c = drawn(kind, 2, m, 3, seed=2) if left else drawn(kind, 2, 3, m, seed=2)
                    given = [packed, tau, c]
                    flags = {"left": left, "transpose": transpose}
                    target = f"lapack_{letter}{un}mqr_ffi"
                    same(both(target, [of(kind, *c.shape)], given, **flags), 9 * n)


@each_kind
def test_two_sided_reductions(letter: str):
    kind = KINDS[letter]
    real = REAL[kind]
    for n in (1, 2, 8):
        a = drawn(kind, 2, n, n)
        taus = f"{kind}[2,{n - 1}]"
        for low, high in ((1, n), (2, n - 1)) if n > 3 else ((1, n),):
            x = a.copy()
            if low > 1:  # the rest has to be triangular already
                x[:, 1:, 0], x[:, -1, :-1] = 0, 0
            results = [of(kind, 2, n, n), taus, "s32[2]"]
            same(both(f"lapack_{letter}gehrd_ffi", results, [x], low=low, high=high), 9 * n)
        name = "hetrd" if kind[0] == "c" else "sytrd"
        results = [of(kind, 2, n, n), f"{real}[2,{n}]", f"{real}[2,{n - 1}]", taus, "s32[2]"]
        for uplo in "LU":
            same(both(f"lapack_{letter}{name}_ffi", results, [a], uplo=ord(uplo)), 9 * n)


@each_kind
def test_triangular_and_tridiagonal_systems(letter: str):
    kind = KINDS[letter]
    for n in (1, 7):
        a = drawn(kind, 2, n, n) + 3 * np.eye(n, dtype=NUMPY[kind])
        for side in "LR":
            b = drawn(kind, 2, n, 3, seed=1) if side == "L" else drawn(kind, 2, 3, n, seed=1)
            for uplo, op, diag in [*zip("LULULU", "NNTTCC", "NUNUUN")]:
                letters = {"side": side, "uplo": uplo, "trans_x": op, "diag": diag}
                flags = {name: ord(x) for name, x in letters.items()}
                same(both(f"lapack_{letter}trsm_ffi", [of(kind, *b.shape)], [a, b], **flags), 300)
        vectors = [drawn(kind, 2, n, seed=k) for k in range(3)]
        vectors[1][0, 0] = 0  # makes rows change places, or the matrix singular
        b = drawn(kind, 2, n, 2, seed=9)
        results = [f"{kind}[2,{n}]"] * 3 + [of(kind, 2, n, 2), "s32[2]"]
        found = both(f"lapack_{letter}gtsv_ffi", results, [*vectors, b])
        close(found[0][4], found[1][4])
        fine = found[0][4] == 0
        assert fine[1]
        close(found[0][3][fine], found[1][3][fine], 300)


@each_kind
def test_eigenvalues_of_hermitian_matrices(letter: str):
    kind = KINDS[letter]
    name = "heevd" if kind[0] == "c" else "syevd"
    for n in (1, 5, 20):
        a = drawn(kind, 2, n, n)
        results = [of(kind, 2, n, n), f"{REAL[kind]}[2,{n}]", "s32[2]"]
        for uplo in "LU":
            for mode in "VN":
                flags = {"mode": ord(mode), "uplo": ord(uplo)}
                native, judged = both(f"lapack_{letter}{name}_ffi", results, [a], **flags)
                same((native[1:], judged[1:]), n)
                if mode == "V":  # the same up to signs and phases
                    turned = np.sum(np.conj(judged[0]) * native[0], axis=-2, keepdims=True)
                    close(judged[0] * turned / np.abs(turned), native[0], 50 * n)


@each_kind
def test_singular_values(letter: str):
    kind = KINDS[letter]
    for m, n in ((1, 1), (3, 5), (7, 2)):
        a, k = drawn(kind, 2, m, n), min(m, n)
        for name, modes in (("gesdd", "ASN"), ("gesvd", "S")):
            for mode in modes:
                wide, high = (k, k) if mode == "S" else (m, n)
                results = [of(kind, 2, m, n), f"{REAL[kind]}[2,{k}]", of(kind, 2, m, wide)]
                results += [of(kind, 2, high, n), "s32[2]"]
                native, judged = both(f"lapack_{letter}{name}_ffi", results, [a], mode=ord(mode))
                close(native[1], judged[1])
                close(native[4], judged[4])
                for _, s, u, v, _ in (native, judged) if mode != "N" else ():
                    close((u[..., :k] * s[:, None]).astype(a.dtype) @ v[..., :k, :], a, 50)
                    close(adjoint(u) @ u, np.eye(u.shape[-1], dtype=a.dtype)[None].repeat(2, 0))
                    close(v @ adjoint(v), np.eye(v.shape[-2], dtype=a.dtype)[None].repeat(2, 0))


@each_kind
def test_eigenvalues_of_any_matrices(letter: str):
    kind = KINDS[letter]
    numbers = "c64" if REAL[kind] == "f32" else "c128"
    for n in (1, 6, 12):
        a = drawn(kind, 2, n, n)
        for sides in ("VV", "NV", "VN", "NN") if n == 6 else ("VV",):
            values = [f"{kind}[2,{n}]"] * (1 if kind[0] == "c" else 2)
            results = [*values, of(numbers, 2, n, n), of(numbers, 2, n, n), "s32[2]"]
            flags = {"compute_left": ord(sides[0]), "compute_right": ord(sides[1])}
            native, judged = both(f"lapack_{letter}geev_ffi", results, [a], **flags)
            close(np.sort_complex(_joined(native)), np.sort_complex(_joined(judged)), 50)
            close(native[-1], judged[-1])
            for found in (native, judged):
                w, left, right = _joined(found)[:, None, :], *found[-3:-1]
                close(a @ right, (right * w).astype(right.dtype), 50 * n)
                close(adjoint(a) @ left, (left * np.conj(w)).astype(left.dtype), 50 * n)
                for side, x in zip(sides, (left, right)):
                    close(np.linalg.norm(x, axis=-2), np.full((2, n), side == "V", REAL_OF[kind]))


REAL_OF = {kind: NUMPY[real] for kind, real in REAL.items()}


def _joined(found: list[np.ndarray]) -> np.ndarray:
    """Eigenvalues, complex or in two parts, as complex numbers."""
    numbers = found[0] if found[0].dtype.kind == "c" else found[0] + 1j * found[1]
    return numbers.astype(found[-2].dtype)


@each_kind
def test_schur_forms(letter: str):
    kind = KINDS[letter]
    for n in (1, 2, 8, 13):
        a = drawn(kind, 2, n, n)
        values = [f"{kind}[2,{n}]"] * (1 if kind[0] == "c" else 2)
        results = [of(kind, 2, n, n), of(kind, 2, n, n), *values, "s32[2]", "s32[2]"]
        for mode in "VN" if n == 8 else "V":
            flags = {"mode": ord(mode), "sort": ord("N")}
            native, judged = both(f"lapack_{letter}gees_ffi", results, [a], **flags)
            same((native[-2:], judged[-2:]))
            t, z = judged[:2]
            parts = [x[2:-2] for x in (native, judged)]
            spectrum = [np.sort_complex(np.ravel(sum(p) if len(p) == 1 else p[0] + 1j * p[1]))
                        for p in parts]  # fmt: skip
            close(*spectrum, 50 * n)
            below = np.tril(t, -1 if kind[0] == "c" else -2)
            assert not below.any()
            side = np.diagonal(t, -1, 1, 2)
            assert not (side[:, 1:] * side[:, :-1]).any()
            if mode == "V":
                close(z @ t @ adjoint(z), a, 50)
                close(adjoint(z) @ z, np.eye(n, dtype=a.dtype)[None].repeat(2, 0))
