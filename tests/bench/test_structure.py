"""No fusion of a model of the bench is lost, and none computes anything twice, without notice.

The limits are what the cases come to, for AVX-512 and AVX2, and for AMX where that is said: nothing
that is measured. Who finds better code lowers them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
pytest.importorskip("jax", exc_type=ImportError)

import jax

from bench import models
from bench.structure import Structure, case, structure_of
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.matrix_tiles import matrix_tiles


@pytest.fixture(autouse=True)
def narrow_numbers() -> Iterator[None]:
    """As a user has them, whatever other tests of this process have asked of JAX."""
    with jax.enable_x64(False):
        yield


SLACK = 0.02
"""What a change of layout or of a tile may add."""
LIMITS = {
    "GPT-2, 12 layers, 256 tokens": Structure(120, 1.99, 1.0, 1.0),
    "the same, bf16": Structure(120, 1.99, 1.0, 1.0),
    "GPT-2, 4 layers, training step": Structure(162, 4.38, 1.001, 1.0),
    "BERT, 4 layers, 8 x 128 tokens": Structure(40, 4.74, 1.0, 1.0),
    "ViT, 4 layers, 197 patches": Structure(40, 1.76, 1.0, 1.0),
    "gated MLP, 256 tokens": Structure(3, 1.35, 1.0, 1.0),
    "gated MLP, bf16": Structure(3, 1.35, 1.0, 1.0),
    "decoder, one token": Structure(13, 1.09, 1.0, 1.0),
    "decoder, one token, bf16": Structure(13, 1.09, 1.0, 1.0),
    "attention, causal, 1024": Structure(1, 1.0, 1.0, 1.0),
    "attention, gradients, 512": Structure(11, 19.1, 1.007, 1.0),
    "loss over 8192 words, gradient": Structure(9, 2.5, 1.0, 1.0),
    "ConvNeXt block": Structure(4, 6.33, 1.0, 1.0),
    "EfficientNet block": Structure(7, 16.02, 1.0, 1.0),
    "residual block, training step": Structure(19, 10.11, 1.002, 1.0),
    "U-Net block": Structure(11, 4.09, 1.0, 1.0),
    "filter of 31 taps, 2 M samples": Structure(1, 1.0, 1.0, 1.0),
    "audio convolution": Structure(1, 1.0, 1.0, 1.0),
    "spectrogram": Structure(4, 5.45, 1.0, 1.0),
    "graph network layer": Structure(6, 19.8, 1.0, 1.0),
    "recommender": Structure(6, 0.81, 1.0, 1.0),
    "LSTM, 100 steps": Structure(11, 21.7, 1.0, 1.0),
    "Adam, 24 arrays": Structure(24, 1.0, 1.0, 1.0),
}


VECTORS = {"xla_cpu_max_isa": "AVX512"}
WITH_TILES = {"the same, bf16": Structure(120, 2.11, 1.0, 1.0)}
"""Where whole tiles are multiplied (AMX), rows that are computed are written once, not computed
again in each block of the product: more bytes, in 0.3 to 0.9 of the time."""


@pytest.mark.parametrize("name", LIMITS)
def test_a_case_stays_near_its_floor(name):
    assert not structure_of(*case(name), options=VECTORS).exceeded(LIMITS[name], SLACK)


@pytest.mark.skipif(
    not matrix_tiles(Machine.host()), reason="of machines that multiply whole tiles"
)
@pytest.mark.parametrize("name", [name for name in LIMITS if "bf16" in name])
def test_with_tiles_too(name):
    limit = WITH_TILES.get(name, LIMITS[name])
    assert not structure_of(*case(name)).exceeded(limit, SLACK)


def test_every_case_of_the_bench_has_a_limit():
    assert [*LIMITS] == [*models.CASES]


@pytest.mark.parametrize(
    ("name", "passes", "what"),
    [
        ("gated MLP, 256 tokens", "fusion", "steps bytes"),
        ("Adam, 24 arrays", "fusion", "steps bytes"),
        ("attention, causal, 1024", "attention-fusion", "steps bytes"),
    ],
)
def test_a_fusion_that_is_lost_is_noticed(name, passes, what):
    found = structure_of(*case(name), options={"xla_disable_hlo_passes": passes})
    assert [x.split()[0] for x in found.exceeded(LIMITS[name], SLACK)] == what.split()


def test_what_is_computed_twice_is_said():
    limit = Structure(2, 1.0, 1.0, 1.0)
    assert not Structure(2, 1.01, 1.01, 1.0).exceeded(limit, SLACK)
    assert Structure(2, 1.0, 1.5, 1.0).exceeded(limit, SLACK) == ["operations 1.5, at most 1"]
    assert Structure(2, 1.0, 1.0, 1.5).exceeded(limit, SLACK) == ["functions 1.5, at most 1"]
