"""The models of `bench/peers.py`: weights keep numbers finite; what loses comes first."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax")

from bench.peer_models import MODELS, JaxOperations, transformer
from bench.peers import table


def test_models_have_names_of_their_own_and_weights_for_all_they_read():
    assert len({m.name for m in MODELS}) == len(MODELS)
    model = transformer("small", 1, (1, 8, 768), causal=True)
    rng = np.random.default_rng(0)
    weights = model.weights(rng)
    found = np.asarray(model.forward(JaxOperations(), weights, model.argument(rng)))
    assert found.shape == (1, 8, 768) and np.isfinite(found).all() and found.std() > 0.1


def test_filters_and_images_go_channels_last_to_jax():
    assert JaxOperations.placed("a.filter", np.zeros((8, 3, 5, 7))).shape == (5, 7, 3, 8)
    assert JaxOperations.placed("a", np.zeros((8, 3))).shape == (8, 3)
    assert JaxOperations.entered(np.zeros((1, 3, 4, 5))).shape == (1, 4, 5, 3)


def test_the_row_that_loses_most_comes_first():
    a = {"hloom": 1.0, "hloom, arguments": 0.5, "x": 2.0}  # itself is no other
    b = {"hloom": 3.0, "x": 1.5, "y": 2.0}
    rows = table({"a": a, "b": b, "c": {"hloom": 1.0, "y": 1.0}}).split("\n")
    assert [r.split("|")[1].strip() for r in rows[2:]] == ["b", "c", "a", "geometric mean"]
    assert rows[2].endswith("| 2.00 |") and rows[-1].endswith("| 1.00 |")
    assert rows[4].endswith("| 0.50 |")
