"""Dots inside loops whose factors follow memory along what they contract."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.codegen.row_products import contracts_rows
from hloom.targets.cpu.device import host_device
from tests.codegen.test_scratch_sums import NUMPY

KINDS = {**NUMPY, "s32": np.int32, "s8": np.int8}


def product(dims: str, lhs: str, rhs: str, kind: str, contracting: tuple[int, int]) -> str:
    """A dot that a loop adds to its state three times."""
    return f"""HloModule m
cond {{ p = (s32[], {kind}[{lhs}], {kind}[{rhs}], {kind}[{dims}]) parameter(0)
  k = s32[] get-tuple-element(p), index=0  n = s32[] constant(3)
  ROOT r = pred[] compare(k, n), direction=LT }}
body {{ p = (s32[], {kind}[{lhs}], {kind}[{rhs}], {kind}[{dims}]) parameter(0)
  k = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)  next = s32[] add(k, one)
  a = {kind}[{lhs}] get-tuple-element(p), index=1  b = {kind}[{rhs}] get-tuple-element(p), index=2
  s = {kind}[{dims}] get-tuple-element(p), index=3
  d = {kind}[{dims}] dot(a, b), lhs_contracting_dims={{{contracting[0]}}},
    rhs_contracting_dims={{{contracting[1]}}}
  t = {kind}[{dims}] add(s, d)
  ROOT r = (s32[], {kind}[{lhs}], {kind}[{rhs}], {kind}[{dims}]) tuple(next, a, b, t) }}
ENTRY e {{ a = {kind}[{lhs}] parameter(0)  b = {kind}[{rhs}] parameter(1)
  k = s32[] constant(0)  zero = {kind}[] constant({"(0, 0)" if kind == "c64" else 0})
  s = {kind}[{dims}] broadcast(zero), dimensions={{}}
  i = (s32[], {kind}[{lhs}], {kind}[{rhs}], {kind}[{dims}]) tuple(k, a, b, s)
  w = (s32[], {kind}[{lhs}], {kind}[{rhs}], {kind}[{dims}]) while(i), condition=cond, body=body
  ROOT r = {kind}[{dims}] get-tuple-element(w), index=3 }}
"""


def forms(m: int, k: int) -> list[tuple[str, str, str, tuple[int, int]]]:
    return [
        (f"{m}", f"{m},{k}", f"{k}", (1, 0)),  # a matrix by a vector
        (f"{m}", f"{k}", f"{m},{k}", (0, 1)),  # a vector by a transposed matrix
        (f"{m}", f"{k},{m}", f"{k}", (0, 0)),  # results follow memory
        ("", f"{k}", f"{k}", (0, 0)),
        (f"2,{m}", f"2,{k}", f"{m},{k}", (1, 1)),
        (f"{m},3", f"{m},{k}", f"3,{k}", (1, 1)),
    ]


@pytest.mark.parametrize("kind", list(KINDS))
def test_equals_the_sum(kind: str):
    rng = np.random.default_rng(0)
    for m, k in [(1, 16), (3, 15), (16, 16), (17, 33), (40, 100), (5, 64), (33, 17), (8, 257)]:
        for dims, lhs, rhs, contracting in forms(m, k):
            a, b = (
                rng.integers(-2, 3, [int(x) for x in s.split(",")]).astype(KINDS[kind])
                for s in (lhs, rhs)
            )
            got = hloom.compile(product(dims, lhs, rhs, kind, contracting))(a, b)
            wide = np.complex128 if kind == "c64" else np.float64
            expected = 3 * np.tensordot(
                a.astype(wide), b.astype(wide), ([*contracting[:1]], [*contracting[1:]])
            )
            if kind == "s8":
                expected = expected.astype(np.int64).astype(np.int8)
            np.testing.assert_array_equal(
                np.asarray(got), expected.astype(KINDS[kind]), err_msg=f"{dims} {lhs} {rhs}"
            )


def test_lanes_go_along_rows():
    """No lane of a matrix by a vector reads a row of its own."""
    text = hloom.compile(product("64", "64,96", "96", "f32", (1, 0))).as_text("kernels")
    assert "strides(96, 1)" in text
    assert "strides(96)" not in text


def test_which_dots_contract_rows():
    size = host_device().compute.vector_bytes
    for k in (size // 4 - 1, size // 4):
        for dims, lhs, rhs, contracting in forms(5, k):
            module = hloom.parse(product(dims, lhs, rhs, "f32", contracting))
            [dot] = [i for c in module.computations for i in c.instructions if i.opcode == "dot"]
            in_rows = contracting != (0, 0) or not dims
            assert contracts_rows(dot, size) == (in_rows and k * 4 >= size), (dims, lhs, rhs)


@pytest.mark.parametrize("n", [1, 2, 3, 15, 16, 17])
@pytest.mark.parametrize("m", [1, 2, 16, 33])
def test_of_rows_that_are_computed(m: int, n: int):
    """One factor is a difference, another a part of an array: no lane reads a row of its own."""
    rng = np.random.default_rng(m)
    for k in (15, 16, 40, 64, 129):
        module = hloom.parse(f"""HloModule m
ENTRY e {{ a = f32[{m},{k}] parameter(0)  b = f32[{m},{k}] parameter(1)
  d = f32[{m},{k}] subtract(a, b)  w = f32[{n},{k + 3}] parameter(2)
  part = f32[{n},{k}] slice(w), slice={{[0:{n}], [2:{k + 2}]}}
  ROOT r = f32[{m},{n}] dot(d, part), lhs_contracting_dims={{1}}, rhs_contracting_dims={{1}} }}""")
        a, b, w = (rng.integers(-4, 5, s).astype(np.float32) for s in ((m, k), (m, k), (n, k + 3)))
        result = hloom.compile(module)(a, b, w)
        np.testing.assert_array_equal(np.asarray(result), (a - b) @ w[:, 2 : k + 2].T)


def test_lanes_go_along_rows_that_are_computed():
    """Two results side by side, of a product of rows in a loop, as in gradients of small nets."""
    text = product("16,2", "16,64", "2,64", "f32", (1, 1))
    step = "f = f32[] convert(k)  g = f32[16,64] broadcast(f), dimensions={}  "
    step += "h = f32[16,64] multiply(a, g)  t = f32[16,2] dot(h, b)"
    text = text.replace("d = f32[16,2] dot(a, b)", step).replace("t = f32[16,2] add(s, d)", "")
    step = hloom.compile(text)
    kernels = step.as_text("kernels")
    assert (
        "gather" not in kernels and "strides(64" not in kernels and "axis(0) kind(add)" in kernels
    )
    a, b = np.ones((16, 64), np.float32), np.arange(128, dtype=np.float32).reshape(2, 64)
    np.testing.assert_array_equal(np.asarray(step(a, b)), 2 * a @ b.T)
