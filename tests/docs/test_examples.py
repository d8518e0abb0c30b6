"""The programs in `examples/` are valid, small, and compute what they say."""

import numpy as np
import pytest

import hloom
from tests.docs.pages import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.hlo"))


def example(name: str):
    return hloom.load(ROOT / "examples" / f"{name}.hlo")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_is_valid_and_reads_back(path):
    module = hloom.load(path)
    hloom.verify(module)
    again = hloom.parse(hloom.show(module, large_constants=True))
    assert hloom.difference(module, again) is None
    assert path.stat().st_size < 200_000


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_runs_on_random_arguments(path):
    module = hloom.load(path)
    arguments = hloom.random_arguments(module, seed=0)
    devices = module.num_partitions
    for result in hloom.evaluate_lockstep(module, [arguments] * devices):
        for part in result.elements if result.is_tuple else (result,):
            assert np.isfinite(part.array).all()


@pytest.mark.parametrize("name", ["softmax", "softmax_optimized"])
def test_softmax(name):
    x = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    expected = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(hloom.evaluate(example(name), x).array, expected, rtol=1e-6)


def test_collatz():
    module = example("collatz")
    for n in (1, 6, 27):
        steps, k = 0, n
        while k != 1:
            k, steps = (3 * k + 1 if k % 2 else k // 2), steps + 1
        assert int(hloom.evaluate(module, np.int32(n)).array) == steps


def test_pieces_of_a_sharded_program_make_the_whole():
    whole, pieces = example("sharded_mlp"), example("sharded_mlp_partitioned")
    down, up, x, y = (a.array for a in hloom.random_arguments(whole, seed=0))
    rows, parts = (slice(0, 4), slice(4, 8)), (slice(0, 32), slice(32, 64))
    cut = [[down[p], up[:, p], x[r], y[r]] for r in rows for p in parts]
    loss, new_down, new_up = hloom.evaluate(whole, down, up, x, y).elements
    for k, result in enumerate(hloom.evaluate_lockstep(pieces, cut)):
        p = parts[k % 2]
        got = [part.array for part in result.elements]
        np.testing.assert_allclose(got[0], loss.array, rtol=1e-5)
        np.testing.assert_allclose(got[1], new_down.array[p], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(got[2], new_up.array[:, p], rtol=1e-4, atol=1e-5)
