"""Convolutions of all forms, with larger windows than drawn instances have, mean the same."""

import numpy as np
import pytest

from hloom.interp import evaluate, random_arguments
from hloom.ir.builder import Builder
from hloom.ir.copy import copy_module
from hloom.ir.values.conv_dims import ConvolutionDimensions
from hloom.ir.values.window import Window, WindowDimension
from hloom.ir.verify import verify
from hloom.passes import pass_named
from hloom.passes.expand.conv_forms import forward_labels, gradient_labels
from tests.pass_case import difference, leaves


def any_convolution(rng):
    """A random convolution with a result that has elements."""
    rank = int(rng.integers(1, 3))
    features, batches = [(1, 1), (2, 1), (1, 2)][int(rng.integers(3))]
    lhs, rhs, rows = [0] * (rank + 2), [0] * (rank + 2), []
    x_order, y_order, out_order = (rng.permutation(rank + 2).tolist() for _ in range(3))
    for d in range(rank):
        size = int(rng.integers(1, 6))
        apart, between = (int(rng.choice([1, 1, 2, 3])) for _ in range(2))
        stride = int(rng.choice([1, 1, 2]))
        low, high = (int(n) for n in rng.integers(-1, 4, 2))
        row = WindowDimension(size, stride, low, high, apart, between, bool(rng.random() < 0.1))
        n = int(rng.integers(3, 8))
        while row.output_size(n) == 0:
            n += 1
        lhs[x_order[2 + d]], rhs[y_order[2 + d]] = n, size
        rows.append(row)
    lhs[x_order[0]], lhs[x_order[1]] = 2 * batches, 3 * features
    rhs[y_order[0]], rhs[y_order[1]] = 3, 2 * features * batches
    labels = ConvolutionDimensions(
        x_order[0],
        x_order[1],
        tuple(x_order[2:]),
        y_order[0],
        y_order[1],
        tuple(y_order[2:]),
        out_order[0],
        out_order[1],
        tuple(out_order[2:]),
    )
    b = Builder("convolution")
    x, y = (b.parameter(f"f32{dims}".replace(" ", "")) for dims in (lhs, rhs))
    made = b.convolution(
        x,
        y,
        window=Window(tuple(rows)),
        dim_labels=labels,
        feature_group_count=features,
        batch_group_count=batches,
    )
    return b.build(made)


@pytest.mark.parametrize("seed", range(6))
def test_any_convolution(seed):
    rng = np.random.default_rng(seed)
    for _ in range(25):
        module = any_convolution(rng)
        before = copy_module(module)
        pass_named("conv-canonicalization").run(module)
        verify(module)
        for i in module.instructions():
            if i.opcode != "convolution":
                continue
            rank, a = i.attrs.window.rank, i.attrs
            assert a.dim_labels in (forward_labels(rank), gradient_labels(rank))
            assert not any(d.window_reversal for d in a.window.dimensions)
            assert a.convolution_kind == "wgrad" or a.batch_group_count == 1
            for d in a.window.dimensions:
                assert d.base_dilation == 1 or d.stride != 1 or d.window_dilation != 1
        arguments = random_arguments(before, seed)
        want, have = (leaves(evaluate(m, *arguments)) for m in (before, module))
        assert difference(want[0], have[0], 1e-5) is None, f"{before}\n{module}"
        assert not pass_named("conv-canonicalization").run(module).changed
