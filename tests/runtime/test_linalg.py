"""Linear algebra by residuals: HLO's two instructions and JAX's custom calls, ours and LAPACK's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hloom.runtime import ffi, lapack
from hloom.runtime.call_frame import CallFrame, number_of, typed
from hloom.types.attributes import Attribute
from tests.runtime.native_call import NativeCall, native

PREFIX = {"f4": "s", "f8": "d", "c8": "c", "c16": "z"}
TYPES = list(PREFIX)
BATCH = 3


@pytest.fixture(scope="module", params=["ours", "ours, 2 threads", "lapack"])
def call(request: pytest.FixtureRequest) -> Any:
    with native(2 if "2" in request.param else 1) as opened:
        lapack.unregister(opened.library)
        if request.param == "lapack" and lapack.register(opened.library) is None:
            pytest.skip("no LAPACK here")
        yield opened
        lapack.unregister(opened.library)


def sizes_for(call: NativeCall) -> list[int]:
    return [1, 2, 3, 5, 8, 17, 40, 70]


def epsilon(kind: str) -> float:
    return float(np.finfo(kind).eps)


def drawn(kind: str, *shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed + sum(shape))
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape)).astype(kind) if kind[0] == "c" else x.astype(kind)


def real_of(kind: str) -> str:
    return {"c8": "f4", "c16": "f8"}.get(kind, kind)


def letter(c: str) -> Attribute:
    return typed(ord(c), "u8")


def columns(x: np.ndarray) -> np.ndarray:
    """The same matrices as column-major memory: what the layout {..., rows, columns} means."""
    return np.ascontiguousarray(np.swapaxes(x, -1, -2))


class Matrices:
    """A custom call on column-major matrices: dims are those of HLO, memory the transpose's."""

    def __init__(self, call: NativeCall, target: str, kind: str, **attributes: Attribute) -> None:
        self.call, self.attributes = call, attributes
        self.target = f"lapack_{PREFIX[kind]}{target}_ffi"

    def __call__(self, operands: list[Any], results: list[tuple[Any, str]]) -> list[np.ndarray]:
        """Operands and results as usual arrays; a result is (dims, type)."""
        memory = [columns(x) if x.ndim > 2 else np.array(x) for x in operands]
        made = [np.full(dims, 77, kind) for dims, kind in results]
        frame = CallFrame(memory, made, self.attributes)
        for k, x in enumerate(operands):  # dims of matrices are told as HLO has them
            for d in range(x.ndim):
                frame.raw.operands[k].dims[d] = x.shape[d]
        status = ffi.call(self.call.context, self.target, frame)
        assert status == 0, self.call.library.hl_context_message(self.call.context)
        return [
            x.reshape(*x.shape[:-2], x.shape[-1], x.shape[-2]).swapaxes(-1, -2) if x.ndim > 2 else x
            for x in made
        ]


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def close(x: Any, y: Any, kind: str, scale: float = 1.0) -> None:
    error = np.max(np.abs(np.asarray(x) - y), initial=0) / max(1.0, np.max(np.abs(y), initial=0))
    assert error < 40 * epsilon(kind) * max(1.0, scale), error


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("lower", [True, False])
def test_cholesky(call: NativeCall, kind: str, lower: bool):
    for n in sizes_for(call):
        x = drawn(kind, BATCH, n, n)
        a = x @ adjoint(x) + n * np.eye(n, dtype=kind)
        a[1, n // 2, n // 2] = -1
        given = np.where(np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T, a, 1e9)
        out = np.full_like(a, 5)
        call("hl_cholesky", number_of(a.dtype), BATCH, n, int(lower), given.astype(kind), out)
        assert np.isnan(out[1]).all()
        for k in (0, 2):
            product = out[k] @ adjoint(out[k]) if lower else adjoint(out[k]) @ out[k]
            close(product, a[k], kind)
            assert not np.triu(out[k] if lower else out[k].T, 1).any()


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("sides", [7, 16, 35])
def test_triangular_solve(call: NativeCall, kind: str, left: bool, lower: bool, sides: int):
    cases = [(1, 0, False), (5, 1, False), (5, 2, True), (8, 0, True), (70, 0, False)]
    cases += [(70, 2, False), (17, 1, True), (33, 2, False), (128, 1, False), (129, 1, False)]
    for n, trans, unit in cases:
        a = drawn(kind, BATCH, n, n) / n + 2 * np.eye(n, dtype=kind)
        a = a.astype(kind)
        b = drawn(kind, BATCH, n, sides) if left else drawn(kind, BATCH, sides, n)
        triangle = np.tril(a) if lower else np.triu(a)
        if unit:
            triangle = triangle - triangle * np.eye(n) + np.eye(n)
        used = (triangle, np.swapaxes(triangle, 1, 2), adjoint(triangle))[trans]
        out = np.empty_like(b)
        call("hl_triangular_solve", number_of(a.dtype), BATCH, *b.shape[1:], int(left), int(lower),
             trans, int(unit), a, b, out)  # fmt: skip
        close(used @ out if left else out @ used, b, kind, n)
        flags = {"side": letter("L" if left else "R"), "uplo": letter("L" if lower else "U"),
                 "trans_x": letter("NTC"[trans]), "diag": letter("U" if unit else "N")}  # fmt: skip
        (same,) = Matrices(call, "trsm", kind, **flags)([a, b], [(b.shape, kind)])
        close(same, out, kind, n)


@pytest.mark.parametrize("kind", TYPES)
def test_potrf_and_getrf(call: NativeCall, kind: str):
    for n in sizes_for(call):
        x = drawn(kind, BATCH, n, n)
        a = x @ adjoint(x) + n * np.eye(n, dtype=kind)
        made, info = Matrices(call, "potrf", kind, uplo=letter("L"))(
            [a], [(a.shape, kind), ((BATCH,), "i4")]
        )
        assert not info.any()
        close(np.tril(made) @ adjoint(np.tril(made)), a, kind)
        for m in (n, n + 3, max(1, n - 3)):
            a, k = drawn(kind, BATCH, m, n), min(m, n)
            lu, pivots, info = Matrices(call, "getrf", kind)(
                [a], [(a.shape, kind), ((BATCH, k), "i4"), ((BATCH,), "i4")]
            )
            assert not info.any()
            for b in range(BATCH):
                order = np.arange(m)
                for i, p in enumerate(pivots[b]):
                    order[[i, p - 1]] = order[[p - 1, i]]
                low, up = np.tril(lu[b][:, :k], -1) + np.eye(m, k), np.triu(lu[b][:k])
                assert np.abs(low).max() <= 1.5
                close(low @ up, a[b][order], kind, n)


@pytest.mark.parametrize("kind", TYPES)
def test_qr(call: NativeCall, kind: str):
    org, orm = ("ungqr", "unmqr") if kind[0] == "c" else ("orgqr", "ormqr")
    for m, n in [(1, 1), (5, 3), (3, 5), (8, 8), (40, 33), (70, 70), (33, 60)]:
        a, k = drawn(kind, BATCH, m, n), min(m, n)
        made, tau = Matrices(call, "geqrf", kind)([a], [(a.shape, kind), ((BATCH, k), kind)])
        (q,) = Matrices(call, org, kind)([made[..., :k], tau], [((BATCH, m, k), kind)])
        close(adjoint(q) @ q, np.broadcast_to(np.eye(k), (BATCH, k, k)), kind, n)
        close(q @ np.triu(made[:, :k]), a, kind, n)
        wide = np.zeros((BATCH, m, m), kind)
        wide[:, :, :k] = made[..., :k]
        (whole,) = Matrices(call, org, kind)([wide, tau], [((BATCH, m, m), kind)])
        for left in (True, False):
            for transpose in (True, False):
                c = drawn(kind, BATCH, m, 4) if left else drawn(kind, BATCH, 4, m)
                flags = {"left": typed(left, "pred"), "transpose": typed(transpose, "pred")}
                (got,) = Matrices(call, orm, kind, **flags)(
                    [made[..., :k], tau, c], [(c.shape, kind)]
                )
                used = adjoint(whole) if transpose else whole
                close(got, used @ c if left else c @ used, kind, n)
        order = np.zeros((BATCH, n), np.int32)
        made, order, tau = Matrices(call, "geqp3", kind)(
            [a, order], [(a.shape, kind), (order.shape, "i4"), ((BATCH, k), kind)]
        )
        (q,) = Matrices(call, org, kind)([made[..., :k], tau], [((BATCH, m, k), kind)])
        for b in range(BATCH):
            close(q[b] @ np.triu(made[b][:k]), a[b][:, order[b] - 1], kind, n)
            size = np.abs(np.diagonal(made[b]))
            assert (size[1:] <= size[:-1] * (1 + 1e-3)).all()


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh_and_tridiagonal(call: NativeCall, kind: str, uplo: str):
    names = ("heevd", "hetrd") if kind[0] == "c" else ("syevd", "sytrd")
    real = real_of(kind)
    for n in sizes_for(call):
        x = drawn(kind, BATCH, n, n)
        a = (x + adjoint(x)) / 2
        given = np.where(np.tri(n, dtype=bool) if uplo == "L" else np.tri(n, dtype=bool).T, a, 1e9)
        given = given.astype(kind)
        results = [(a.shape, kind), ((BATCH, n), real), ((BATCH,), "i4")]
        v, w, info = Matrices(call, names[0], kind, mode=letter("V"), uplo=letter(uplo))(
            [given], results
        )
        assert not info.any()
        close(w, np.linalg.eigvalsh(a.astype("c16")), kind, n)
        close(v * w[:, None, :], a @ v, kind, n)
        close(adjoint(v) @ v, np.broadcast_to(np.eye(n), a.shape), kind, n)
        _, w2, info = Matrices(call, names[0], kind, mode=letter("N"), uplo=letter(uplo))(
            [given], results
        )
        close(w2, w, kind, n)
        k = n - 1
        results = [
            (a.shape, kind),
            ((BATCH, n), real),
            ((BATCH, k), real),
            ((BATCH, k), kind),
            ((BATCH,), "i4"),
        ]
        _, d, e, _tau, info = Matrices(call, names[1], kind, uplo=letter(uplo))([given], results)
        for b in range(BATCH):
            t = (
                np.diag(d[b].astype("f8"))
                + np.diag(e[b].astype("f8"), 1)
                + np.diag(e[b].astype("f8"), -1)
            )
            close(np.linalg.eigvalsh(t), w[b], kind, n)
    bad = np.full((1, 3, 3), np.nan, kind)
    results = [(bad.shape, kind), ((1, 3), real), ((1,), "i4")]
    if call.library.hl_lapack_find(b"spotrf", None) == 0:
        _, _, info = Matrices(call, names[0], kind, mode=letter("V"), uplo=letter(uplo))(
            [bad], results
        )
        assert info[0] > 0


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("target", ["gesdd", "gesvd"])
def test_svd(call: NativeCall, kind: str, target: str):
    for m, n in [(1, 1), (5, 3), (3, 5), (8, 8), (40, 33), (20, 60)]:
        a, k = drawn(kind, BATCH, m, n), min(m, n)
        a[1, :, 0] = 0  # a matrix without full rank
        for mode, mu, nv in (("A", m, n), ("S", k, k), ("N", m, n)):
            results = [
                (a.shape, kind),
                ((BATCH, k), real_of(kind)),
                ((BATCH, m, mu), kind),
                ((BATCH, nv, n), kind),
                ((BATCH,), "i4"),
            ]
            _, s, u, vt, info = Matrices(call, target, kind, mode=letter(mode))([a], results)
            assert not info.any()
            close(s, np.linalg.svd(a.astype("c16"), compute_uv=False), kind, n)
            if mode == "N":
                continue
            close(u[..., :k] * s[:, None, :] @ vt[:, :k], a, kind, n)
            close(adjoint(u) @ u, np.broadcast_to(np.eye(mu), (BATCH, mu, mu)), kind, n)
            close(vt @ adjoint(vt), np.broadcast_to(np.eye(nv), (BATCH, nv, nv)), kind, n)


def eigenvalues(results: list[np.ndarray], is_complex: bool) -> np.ndarray:
    return results[0] if is_complex else results[0] + 1j * results[1]


@pytest.mark.parametrize("kind", TYPES)
def test_eig(call: NativeCall, kind: str):
    is_complex = kind[0] == "c"
    whole, real = ("c8" if kind in ("f4", "c8") else "c16"), real_of(kind)
    for n in sizes_for(call):
        a = drawn(kind, BATCH, n, n)
        values = [((BATCH, n), kind)] if is_complex else [((BATCH, n), real)] * 2
        results = [*values, (a.shape, whole), (a.shape, whole), ((BATCH,), "i4")]
        flags = {"compute_left": letter("V"), "compute_right": letter("V")}
        made = Matrices(call, "geev", kind, **flags)([a], results)
        assert not made[-1].any()
        w, left, right = eigenvalues(made, is_complex), made[-3], made[-2]
        close(a @ right, right * w[:, None, :], kind, 4 * n)
        close(adjoint(left) @ a, w[:, :, None] * adjoint(left), kind, 4 * n)
        close(np.linalg.norm(right, axis=1), np.ones((BATCH, n)), kind)
        for b in range(BATCH):
            close(np.sum(w[b]), np.trace(a[b]), kind, 4 * n)


@pytest.mark.parametrize("kind", TYPES)
def test_schur_and_hessenberg(call: NativeCall, kind: str):
    is_complex = kind[0] == "c"
    org = "ungqr" if is_complex else "orgqr"
    for n in sizes_for(call):
        a = drawn(kind, BATCH, n, n)
        values = [((BATCH, n), kind)] if is_complex else [((BATCH, n), real_of(kind))] * 2
        results = [(a.shape, kind), (a.shape, kind), *values, ((BATCH,), "i4"), ((BATCH,), "i4")]
        t, z, *rest = Matrices(call, "gees", kind, mode=letter("V"), sort=letter("N"))([a], results)
        assert not rest[-1].any()
        close(z @ t @ adjoint(z), a, kind, 4 * n)
        close(adjoint(z) @ z, np.broadcast_to(np.eye(n), a.shape), kind, 4 * n)
        assert not np.tril(t, -2 + is_complex).any()
        if not is_complex:
            below = np.diagonal(t, -1, 1, 2)
            assert not (below[:, 1:] * below[:, :-1]).any()  # no block is larger than 2 x 2
            d = np.diagonal(t, 0, 1, 2)
            np.testing.assert_array_equal(d[:, :-1][below != 0], d[:, 1:][below != 0])
        k = n - 1
        flags = {"low": typed(1, "s32"), "high": typed(n, "s32")}
        h, tau, _ = Matrices(call, "gehrd", kind, **flags)(
            [a], [(a.shape, kind), ((BATCH, k), kind), ((BATCH,), "i4")]
        )
        q = np.broadcast_to(np.eye(n, dtype=kind), a.shape).copy()
        if n > 1:
            (q[:, 1:, 1:],) = Matrices(call, org, kind)(
                [np.ascontiguousarray(h[:, 1:, :-1]), tau], [((BATCH, k, k), kind)]
            )
        close(q @ np.triu(h, -1) @ adjoint(q), a, kind, 4 * n)


@pytest.mark.parametrize("kind", TYPES)
def test_tridiagonal_systems(call: NativeCall, kind: str):
    for n in (1, 2, 3, 10, 50):
        low, d, up = (drawn(kind, BATCH, n, seed=s) for s in range(3))
        b = drawn(kind, BATCH, n, 4)
        vector = ((BATCH, n), kind)
        *_, x, info = Matrices(call, "gtsv", kind)(
            [low, d, up, b], [vector, vector, vector, (b.shape, kind), ((BATCH,), "i4")]
        )
        assert not info.any()
        for k in range(BATCH):
            a = np.diag(d[k]) + np.diag(low[k][1:], -1) + np.diag(up[k][:-1], 1)
            scale = float(np.abs(x[k]).max())
            close(a @ x[k], b[k], kind, scale * n)


@pytest.mark.parametrize("kind", TYPES)
def test_the_custom_calls_of_hlo(call: NativeCall, kind: str):
    for m, n in [(1, 1), (6, 4), (4, 6), (20, 20)]:
        a, k = drawn(kind, BATCH, m, n), min(m, n)
        packed, tau = np.empty_like(a), np.empty((BATCH, k), kind)
        assert ffi.call(call.context, "Qr", CallFrame([a], [packed, tau], {})) == 0
        q = np.empty((BATCH, m, k), kind)
        name = "ProductOfElementaryHouseholderReflectors"
        given = np.ascontiguousarray(packed[..., :k])
        assert ffi.call(call.context, name, CallFrame([given, tau], [q], {})) == 0
        close(q @ np.triu(packed[:, :k]), a, kind, n)
        close(adjoint(q) @ q, np.broadcast_to(np.eye(k), (BATCH, k, k)), kind, n)


def test_what_is_wrong_is_said(call: NativeCall):
    a = np.eye(3, dtype="f4")[None]
    frame = CallFrame([a], [a.copy(), np.zeros(1, "i4")], {})
    assert ffi.call(call.context, "lapack_spotrf_ffi", frame) == 3
    assert b"uplo" in call.library.hl_context_message(call.context)
    call.library.hl_context_free(call.context)
    call.context = call._fresh()
    with pytest.raises(RuntimeError, match="cholesky: type 4"):
        call("hl_cholesky", 4, 1, 3, 1, a, a)


@pytest.mark.parametrize("n", [2, 3, 5, 8, 17])
def test_where_a_lapack_is_there_signs_are_its_own(call, n):
    if call.library.hl_lapack_find(b"dsyevd", None) == 0:
        pytest.skip("no LAPACK here")
    a = drawn("f8", BATCH, n, n)
    a = a + adjoint(a)
    eigh = Matrices(call, "syevd", "f8", mode=letter("V"), uplo=letter("L"))
    vectors, values, _ = eigh([a], [(a.shape, "f8"), (a.shape[:2], "f8"), ((BATCH,), "i4")])
    wanted = np.linalg.eigh(a)
    np.testing.assert_allclose(values, wanted.eigenvalues, atol=1e-12)
    np.testing.assert_allclose(vectors, wanted.eigenvectors, atol=1e-9)
    svd = Matrices(call, "gesdd", "f8", mode=letter("A"))
    shapes = [(a.shape, "f8"), (a.shape[:2], "f8"), (a.shape, "f8"), (a.shape, "f8")]
    _, _, u, vt, _ = svd([a], [*shapes, ((BATCH,), "i4")])
    told = np.linalg.svd(a)
    np.testing.assert_allclose(u, told.U, atol=1e-9)
    np.testing.assert_allclose(vt, told.Vh, atol=1e-9)


@pytest.mark.parametrize("n", [7, 20, 64])
@pytest.mark.parametrize("finder", [lapack.register, lapack.unregister])
def test_a_batch_gives_what_each_matrix_gives_alone(finder, n):
    a = drawn("f4", 32, n, n)
    with native(2) as opened:
        finder(opened.library)
        svd = Matrices(opened, "gesdd", "f4", mode=letter("A"))

        def of(x: np.ndarray) -> list[np.ndarray]:
            square, row = (x.shape, "f4"), (x.shape[:2], "f4")
            return svd([x], [square, row, square, square, (x.shape[:1], "i4")])

        whole = of(a)
        for _ in range(5):
            for told, each in zip(of(a), whole):
                np.testing.assert_array_equal(told, each)
        for k in range(len(a)):
            for told, each in zip(of(a[k : k + 1]), whole):
                np.testing.assert_array_equal(told[0], each[k])
        lapack.unregister(opened.library)


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_a_column_that_starts_with_zero_has_the_sign_of_that_zero(call: NativeCall, zero):
    a = np.arange(9.0).reshape(1, 3, 3)
    a[0, 0, 0] = zero
    made, _ = Matrices(call, "geqrf", "f8")([a], [(a.shape, "f8"), ((1, 3), "f8")])
    np.testing.assert_allclose(np.triu(made[0]), np.linalg.qr(a[0]).R, atol=1e-12)
