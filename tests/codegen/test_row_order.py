"""In which order kernels walk the rows that they fold."""

import re

import numpy as np
import pytest

import hloom
from hloom.codegen.row_order import row_order
from hloom.codegen.tile import Body
from hloom.targets.cpu.device import host_device

FORCES = """HloModule m

fold {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

ENTRY e {{
  x = f32[{points},{left}] parameter(0)
  f = f32[{left},{right}] parameter(1)
  z = f32[] constant(0)
  p = f32[{points},{left},{right}] broadcast(x), dimensions={{0,1}}
  q = f32[{points},{left},{right}] broadcast(f), dimensions={{1,2}}
  d = f32[{points},{left},{right}] multiply(p, q)
  s = f32[{points},{left},{right}] tanh(d)
  ROOT r = f32[{points},{left}] reduce(s, z), dimensions={{2}}, to_apply=fold
}}
"""


def forces(points: int, left: int, right: int):
    """The program run, beside numpy; its kernels."""
    module = hloom.parse(FORCES.format(points=points, left=left, right=right))
    exe = hloom.compile(module, threads=2)
    draw = np.random.default_rng(0)
    x = draw.standard_normal((points, left)).astype(np.float32)
    f = draw.standard_normal((left, right)).astype(np.float32)
    expected = np.tanh(x[:, :, None].astype(float) * f[None]).sum(-1)
    np.testing.assert_allclose(np.asarray(exe(x, f)), expected, rtol=1e-4, atol=1e-4)
    return exe.as_text("kernels")


def order_of(points: int, left: int, right: int):
    """The order of the results' dimensions in which the fused program is walked."""
    module = hloom.parse(FORCES.format(points=points, left=left, right=right))
    root = module.entry.root
    leaves = [(x, k) for k, x in enumerate(module.entry.parameters)]
    inside = [x for x in module.entry.in_order() if x.opcode != "parameter"]
    body = Body("forces", False, leaves, [(root, ())], inside)
    return row_order(body, host_device())


@pytest.mark.parametrize(
    ("points", "left", "right"),
    [(3, 500, 500), (1, 500, 500), (3, 1, 70000), (7, 333, 129), (2, 90000, 17), (5, 41, 3001)],
)
def test_what_is_large_is_read_once(points: int, left: int, right: int):
    forces(points, left, right)
    assert order_of(points, left, right) == ((1, 0) if min(points, left) > 1 else None)


@pytest.mark.parametrize(("points", "left", "right"), [(300, 5, 100), (3, 20, 100), (400, 40, 40)])
def test_what_is_small_is_read_as_results_lie(points: int, left: int, right: int):
    forces(points, left, right)
    assert order_of(points, left, right) is None


BLOCKS = """HloModule m

fold {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}}

ENTRY e {{
  x = f32[{depth},{right}] parameter(0)
  y = f32[{left},{depth}] parameter(1)
  z = f32[] constant(0)
  p = f32[{left},{depth},{right}] broadcast(x), dimensions={{1,2}}
  q = f32[{left},{depth},{right}] broadcast(y), dimensions={{0,1}}
  d = f32[{left},{depth},{right}] subtract(p, q)
  s = f32[{left},{depth},{right}] abs(d)
  ROOT r = f32[{left},{right}] reduce(s, z), dimensions={{1}}, to_apply=fold
}}
"""


@pytest.mark.parametrize(
    ("left", "depth", "right"),
    [(50, 3, 20000), (50, 3, 20001), (1, 3, 20000), (7, 5, 40003), (50, 3, 2000)],
)
def test_rows_of_a_block_follow_one_another(left: int, depth: int, right: int):
    module = hloom.parse(BLOCKS.format(left=left, depth=depth, right=right))
    exe = hloom.compile(module, threads=2)
    draw = np.random.default_rng(0)
    x = draw.standard_normal((depth, right)).astype(np.float32)
    y = draw.standard_normal((left, depth)).astype(np.float32)
    expected = np.abs(x[None] - y[:, :, None]).sum(1)
    np.testing.assert_allclose(np.asarray(exe(x, y)), expected, rtol=1e-5)
    if left > 1 and right >= 20000:
        grid = re.search(r"grid\(%\d+: (\d+), %\d+: (\d+)\)", exe.as_text("kernels"))
        assert grid is not None
        assert int(grid.group(2)) == left
