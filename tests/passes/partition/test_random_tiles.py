"""`stateful-rng-spmd-partitioner`: tiles of random numbers are drawn where they are."""

import numpy as np
import pytest

import hloom
from hloom.interp import evaluate_lockstep
from tests.pass_case import leaves

TILED = "devices=[2,2,2]<=[8] last_tile_dim_replicate"


def program(kind: str, of: str, low: str, high: str, sharding: str = TILED) -> hloom.Module:
    scalar = of[: of.index("[")] + "[]"
    return hloom.parse(f"""HloModule m, num_partitions=8
ENTRY e {{
  low = {scalar} constant({low})
  high = {scalar} constant({high})
  a = {of} rng(low, high), distribution={kind}, sharding={{{sharding}}}
  b = {of} rng(low, high), distribution={kind}, sharding={{{sharding}}}
  ROOT r = ({of}, {of}) tuple(a, b), sharding={{{{{sharding}}}, {{{sharding}}}}}
}}""")


def partitioned(module: hloom.Module, name: str = "stateful-rng-spmd-partitioner") -> hloom.Module:
    assert hloom.pass_named(name).run(module).changed
    hloom.pass_named("dce").run(module)
    hloom.verify(module)
    return module


def results(module: hloom.Module, is_native: bool) -> np.ndarray:
    """[instruction, device, ...]"""
    if is_native:
        of_devices = hloom.compile(module).run_devices([[]] * 8)
    else:
        of_devices = evaluate_lockstep(module, [[]] * 8)
    return np.array([[np.asarray(x) for x in leaves(r)] for r in of_devices]).swapaxes(0, 1)


@pytest.mark.parametrize("is_native", [False, True])
@pytest.mark.parametrize(
    ("kind", "of", "low", "high", "mean", "deviation"),
    [
        ("rng_uniform", "f32[64,128]", "2", "4", 3.0, (4 / 12) ** 0.5),
        ("rng_normal", "f64[64,128]", "1", "3", 1.0, 3.0),
        ("rng_uniform", "s32[64,128]", "0", "8", 3.5, (63 / 12) ** 0.5),
    ],
)
def test_tiles_are_independent_and_copies_alike(kind, of, low, high, mean, deviation, is_native):
    values = results(partitioned(program(kind, of, low, high)), is_native)
    assert values.shape == (2, 8, 32, 64)
    np.testing.assert_array_equal(values[:, 0::2], values[:, 1::2])
    tiles = values[:, 0::2].reshape(8, -1).astype(np.float64)
    assert abs(tiles.mean() - mean) < 5 * deviation / tiles.size**0.5
    assert abs(tiles.std() - deviation) < 0.05 * deviation
    correlation = np.corrcoef(tiles) - np.eye(8)
    assert np.abs(correlation).max() < 5 / tiles.shape[1] ** 0.5


def test_only_the_state_is_sent() -> None:
    sent = {}
    for name in ("spmd-partitioner", "stateful-rng-spmd-partitioner"):
        module = partitioned(program("rng_uniform", "f32[64,128]", "0", "1"), name)
        gathered = [i for i in module.instructions() if i.opcode == "all-reduce"]
        sent[name] = [i.shape.size_bytes for i in gathered]
    assert sent == {
        "spmd-partitioner": [64 * 128 * 4] * 2,
        "stateful-rng-spmd-partitioner": [16] * 2,
    }


def test_uneven_and_whole_ones() -> None:
    module = partitioned(program("rng_uniform", "f32[5,7]", "0", "1"))
    assert results(module, True).shape == (2, 8, 3, 4)
    whole = partitioned(program("rng_uniform", "f32[5,7]", "0", "1", "replicated"))
    values = results(whole, True)
    np.testing.assert_array_equal(values, np.broadcast_to(values[:, :1], values.shape))
