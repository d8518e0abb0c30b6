"""Writes weights.npz: the network trained on scikit-learn's digits, and 200 that it has not seen.

python train.py          # takes jax and scikit-learn, and half a minute
"""

from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from network import initial, scores
from sklearn.datasets import load_digits

STEPS, BATCH, RATE = 3000, 64, 2e-3

digits = load_digits()
pictures, labels = digits.images.astype(np.float32) / 16, digits.target.astype(np.int32)
order = np.random.default_rng(0).permutation(len(pictures))
pictures, labels = pictures[order], labels[order]
seen, unseen = slice(0, -200), slice(-200, None)


def loss(weights, x, y):
    chances = jax.nn.log_softmax(scores(weights, x))
    return -jnp.take_along_axis(chances, y[:, None], 1).mean()


@partial(jax.jit, donate_argnums=(0, 1))
def step(weights, moments, number, x, y):
    """One step of Adam."""
    gradients = jax.grad(loss)(weights, x, y)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, moments[1], gradients)
    rate = RATE * (1 - 0.999 ** (number + 1)) ** 0.5 / (1 - 0.9 ** (number + 1))
    weights = jax.tree.map(lambda w, m, v: w - rate * m / (v**0.5 + 1e-8), weights, first, second)
    return weights, (first, second)


weights = initial(jax.random.key(0))
zeros = jax.tree.map(jnp.zeros_like, weights)
moments = (zeros, jax.tree.map(jnp.zeros_like, weights))
draw = np.random.default_rng(1)
for number in range(STEPS):
    rows = draw.integers(0, len(pictures) - 200, BATCH)
    shift = draw.integers(-1, 2, 2)  # digits that people draw do not stand in the middle
    x = np.roll(pictures[rows], shift, (1, 2))
    weights, moments = step(weights, moments, number, x, labels[rows])
right = np.asarray(scores(weights, pictures[unseen]).argmax(1) == labels[unseen]).mean()
print(f"right on 200 that it has not seen: {right:.1%}")
np.savez_compressed(
    Path(__file__).with_name("weights.npz"),
    pictures=(pictures[unseen] * 16).astype(np.uint8),
    labels=labels[unseen].astype(np.uint8),
    **{name: np.asarray(w, np.float16) for name, w in weights.items()},
)
