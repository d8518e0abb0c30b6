"""Concatenations inside other kernels."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from tests.covering import covering


def joined(sizes: list[int], dims: tuple[int, int, int], d: int, inside: str) -> hloom.Module:
    """A product of an array with parts of given sizes joined along a dimension."""

    def shape(n: int) -> str:
        return "f32[" + ",".join(str(n if k == d else x) for k, x in enumerate(dims)) + "]"

    lines = ["HloModule m", "ENTRY e {"]
    for k, n in enumerate(sizes):
        lines.append(f" p{k} = {shape(n)} parameter({k})")
        lines.append(f" q{k} = {shape(n)} {inside}(p{k})")
    whole = shape(sum(sizes))
    parts = ", ".join(f"q{k}" for k in range(len(sizes)))
    lines.append(f" c = {whole} concatenate({parts}), dimensions={{{d}}}")
    lines.append(f" y = {whole} parameter({len(sizes)})")
    lines.append(f" ROOT r = {whole} multiply(c, y)\n}}")
    return hloom.parse("\n".join(lines))


@pytest.mark.parametrize(
    ("d", "sizes", "inside"),
    covering(
        [0, 1, 2],
        [[1], [1, 1], [3, 1], [1, 1, 1], [2, 0, 3, 1], [1] * 64, [5, 1, 7, 2, 1, 1, 9]],
        ["negate", "exponential"],
    ),
)
def test_equals_numpys(d: int, sizes: list[int], inside: str):
    rng = np.random.default_rng(len(sizes))
    for dims in ((3, 4, 5), (1, 2, 33), (2, 1, 257)):
        shapes = [[n if k == d else x for k, x in enumerate(dims)] for n in [*sizes, sum(sizes)]]
        *parts, y = (rng.standard_normal(s).astype(np.float32) for s in shapes)
        result = hloom.compile(joined(sizes, dims, d, inside))(*parts, y)
        of = [-x if inside[0] == "n" else np.exp(x) for x in parts]
        np.testing.assert_allclose(
            np.asarray(result), np.concatenate(of, d) * y, rtol=2e-6, atol=1e-7
        )


def test_products_of_a_row_each():
    """What a loop over rows was unrolled into: each row of the result asks for its own product."""
    steps = 40
    lines = ["HloModule m", "ENTRY e {", f" c = f32[2,{steps},16] parameter(0)"]
    for k in range(steps):
        lines += [
            f" h{k} = f32[2,96,16] parameter({k + 1})",
            f" t{k} = f32[2,1,16] slice(c), slice={{[0:2], [{k}:{k + 1}], [0:16]}}",
            f" v{k} = f32[2,16] reshape(t{k})",
            f" d{k} = f32[2,96] dot(h{k}, v{k}), lhs_batch_dims={{0}}, rhs_batch_dims={{0}},"
            " lhs_contracting_dims={2}, rhs_contracting_dims={1}",
            f" r{k} = f32[2,1,96] reshape(d{k})",
        ]
    rows = ", ".join(f"r{k}" for k in range(steps))
    lines.append(f" j = f32[2,{steps},96] concatenate({rows}), dimensions={{1}}")
    lines.append(f" y = f32[2,{steps},96] parameter({steps + 1})")
    lines.append(f" ROOT z = f32[2,{steps},96] multiply(j, y)\n}}")
    step = hloom.compile(hloom.parse("\n".join(lines)))
    rng = np.random.default_rng(0)
    c = rng.integers(-3, 4, (2, steps, 16)).astype(np.float32)
    h = rng.integers(-3, 4, (steps, 2, 96, 16)).astype(np.float32)
    y = rng.integers(-3, 4, (2, steps, 96)).astype(np.float32)
    result = np.asarray(step(c, *h, y))
    np.testing.assert_array_equal(result, np.einsum("tbdn,btn->btd", h, c) * y)
    assert "if " in step.as_text("kernels")


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.bool_])
@pytest.mark.parametrize("columns", [16, 17, 31, 33, 49, 64, 100, 127, 129, 4097])
def test_narrow_numbers_turned_round(kind: type, columns: int) -> None:
    """Neighbours along both axes, as a game of life adds them: masks of 33 lanes were taken apart,
    at 8 ns for an element."""
    x = np.random.default_rng(0).integers(0, 2, (19, columns)).astype(kind)
    name = {np.int8: "s8", np.int16: "s16", np.bool_: "pred"}[kind]
    whole, opcode = f"{name}[19,{columns}]", "xor" if kind is np.bool_ else "add"
    module = hloom.parse(f"""HloModule m
ENTRY e {{
  x = {whole} parameter(0)
  below = {name}[18,{columns}] slice(x), slice={{[1:19], [0:{columns}]}}
  first = {name}[1,{columns}] slice(x), slice={{[0:1], [0:{columns}]}}
  up = {whole} concatenate(below, first), dimensions={{0}}
  right = {name}[19,{columns - 1}] slice(up), slice={{[0:19], [1:{columns}]}}
  left = {name}[19,1] slice(up), slice={{[0:19], [0:1]}}
  both = {whole} concatenate(right, left), dimensions={{1}}
  ROOT r = {whole} {opcode}(both, x)
}}""")
    turned = np.roll(x, (-1, -1), (0, 1))
    expected = turned ^ x if kind is np.bool_ else turned + x
    np.testing.assert_array_equal(np.asarray(hloom.compile(module)(x)), expected)
    if columns < 4097:
        assert all(n & (n - 1) == 0 for n in lanes(module))


def lanes(module: hloom.Module) -> set[int]:
    """How many lanes the loads of its kernels have."""
    kernels = hloom.compile(module).stages.lowering.kernels.values()
    tiles = [op.result.shape for k in kernels for op in k.ops() if op.opcode == "load"]
    return {shape[-1] for shape in tiles if shape}


def test_one_number_of_a_joined_array() -> None:
    """A kernel of a single number that is chosen among arrays has no row."""
    module = hloom.parse("""HloModule m
ENTRY e {
  x = s8[3] parameter(0)
  y = s8[2] parameter(1)
  i = s32[] parameter(2)
  c = s8[5] concatenate(x, y), dimensions={0}
  g = s8[1] dynamic-slice(c, i), dynamic_slice_sizes={1}
  p = s8[] reshape(g)
  ROOT r = s8[] multiply(p, p)
}""")
    compiled = hloom.compile(module)
    x, y = np.array([1, 2, 3], np.int8), np.array([4, 5], np.int8)
    found = [int(np.asarray(compiled(x, y, np.int32(k)))) for k in range(5)]
    assert found == [1, 4, 9, 16, 25]
