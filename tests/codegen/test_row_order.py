"""In which order kernels walk the rows that they fold."""

import re

import numpy as np
import pytest

import hloom
from hloom.codegen.row_order import row_order
from hloom.codegen.tile import Body
from hloom.codegen.walk import block_elements
from hloom.targets.cpu.device import host_device
from tests.codegen.pairs import sum_of_pairs


def forces_text(points: int, left: int, right: int) -> str:
    """For each of some points and rows a sum along the row: of points and rows, and of rows."""
    return sum_of_pairs((points, left, right), (0, 1), (1, 2), 2, "multiply", "tanh(d)")


def check_forces(points: int, left: int, right: int):
    """The program run, beside numpy."""
    module = hloom.parse(forces_text(points, left, right))
    exe = hloom.compile(module, threads=2)
    draw = np.random.default_rng(0)
    x = draw.standard_normal((points, left)).astype(np.float32)
    f = draw.standard_normal((left, right)).astype(np.float32)
    expected = np.tanh(x[:, :, None].astype(float) * f[None]).sum(-1)
    np.testing.assert_allclose(np.asarray(exe(x, f)), expected, rtol=1e-4, atol=1e-4)


def order_of(points: int, left: int, right: int):
    """The order of the results' dimensions in which the fused program is walked."""
    module = hloom.parse(forces_text(points, left, right))
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
    check_forces(points, left, right)
    assert order_of(points, left, right) == ((1, 0) if min(points, left) > 1 else None)


@pytest.mark.parametrize(("points", "left", "right"), [(300, 5, 100), (3, 20, 100), (400, 40, 40)])
def test_what_is_small_is_read_as_results_lie(points: int, left: int, right: int):
    check_forces(points, left, right)
    assert order_of(points, left, right) is None


@pytest.mark.parametrize(
    ("left", "depth", "right"),
    [(50, 3, 20000), (50, 3, 20001), (1, 3, 20000), (7, 5, 40003), (50, 3, 2000)],
)
def test_rows_of_a_block_follow_one_another(left: int, depth: int, right: int):
    module = hloom.parse(sum_of_pairs((left, depth, right), (1, 2), (0, 1), 1))
    exe = hloom.compile(module, threads=2)
    draw = np.random.default_rng(0)
    x = draw.standard_normal((depth, right)).astype(np.float32)
    y = draw.standard_normal((left, depth)).astype(np.float32)
    expected = np.abs(x[None] - y[:, :, None]).sum(1)
    np.testing.assert_allclose(np.asarray(exe(x, y)), expected, rtol=1e-5)
    if left > 1 and right > 2 * block_elements(host_device()):
        grid = re.search(r"grid\(%\d+: (\d+), %\d+: (\d+)\)", exe.as_text("kernels"))
        assert grid is not None
        assert int(grid.group(2)) == left
