"""Arrays stacked along a new last dimension: lanes go over the rows, what parts share is computed
once."""

import numpy as np
import pytest

import hloom
from hloom.kernel.text import show_kernels
from hloom.program.thunks.kernel import Kernel
from tests.covering import covering


def stacked(kind: str, dims: tuple[int, ...], parts: int) -> hloom.Module:
    """Some arrays, each made of two arguments, as the elements of short rows."""
    rows = ",".join(map(str, dims))
    join = "xor" if kind == "pred" else "add"
    lines = [f" a{k} = {kind}[{rows},1] parameter({k})" for k in range(parts)]
    lines += [f" sum{k} = {kind}[{rows},1] {join}(a{k}, a{(k + 1) % parts})" for k in range(parts)]
    of = ", ".join(f"sum{k}" for k in range(parts))
    root = f" ROOT c = {kind}[{rows},{parts}] concatenate({of}), dimensions={{{len(dims)}}}"
    return hloom.parse("\n".join(["HloModule m", "ENTRY e {", *lines, root, "}"]))


@pytest.mark.parametrize(
    ("dims", "kind", "parts"),
    covering(
        [(8,), (16,), (17,), (33,), (257,), (4099,), (3, 5, 7)],
        ["f32", "u8", "f64", "c64", "s4", "pred"],
        [2, 3, 4, 5],
    ),
)
def test_any_number_of_parts(dims: tuple[int, ...], kind: str, parts: int):
    module = stacked(kind, dims, parts)
    arguments = hloom.random_arguments(module, seed=parts)
    have, want = hloom.compile(module)(*arguments), hloom.evaluate(module, *arguments)
    np.testing.assert_array_equal(
        np.asarray(have).astype(np.complex128), np.asarray(want.array).astype(np.complex128)
    )


@pytest.mark.parametrize("kind", ["f32", "u8", "s4", "bf16", "pred"])
@pytest.mark.parametrize("parts", [6, 8, 13, 16])
def test_more_parts(kind: str, parts: int):
    module = stacked(kind, (33,), parts)
    arguments = hloom.random_arguments(module, seed=parts)
    have, want = hloom.compile(module)(*arguments), hloom.evaluate(module, *arguments)
    np.testing.assert_array_equal(
        np.asarray(have).astype(np.float64), np.asarray(want.array).astype(np.float64)
    )


@pytest.mark.parametrize("parts", [2, 3, 4, 8])
def test_rows_are_stored_whole(parts: int):
    """Not each part by itself, an element at a time."""
    executable = hloom.compile(stacked("u8", (4096,), parts))
    [kernel] = executable.stages.lowering.kernels.values()
    text = show_kernels([kernel])
    assert f"strides(1,{parts})" in text.replace(", ", ",")
    assert f"strides({parts})" not in text


@pytest.mark.parametrize("dims", [(8,), (31,), (1003,), (3, 5, 7)])
@pytest.mark.parametrize("kind", ["f32", "u8", "f64", "bf16"])
def test_parts_stand_side_by_side(dims, kind):
    rows = ",".join(map(str, dims))
    text = f"""HloModule m
ENTRY e {{
  a = {kind}[{rows},1] parameter(0)
  b = {kind}[{rows},1] parameter(1)
  s = {kind}[{rows},1] add(a, b)
  m = {kind}[{rows},1] multiply(s, b)
  ROOT c = {kind}[{rows},3] concatenate(s, m, a), dimensions={{{len(dims)}}}
}}"""
    module = hloom.parse(text)
    arguments = hloom.random_arguments(module)
    executable = hloom.compile(module)
    kernels = [t for t in executable.stages.program.thunks if isinstance(t, Kernel)]
    assert len(kernels) == 1
    have, want = executable(*arguments), hloom.evaluate(module, *arguments)
    error = 2.0**-7 if kind == "bf16" else 0  # results of narrow floats may stay wider inside
    np.testing.assert_allclose(
        np.asarray(have).astype(np.float64), np.asarray(want.array).astype(np.float64), error
    )
