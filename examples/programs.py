"""The JAX programs that `make_examples.py` turns into HLO."""

import jax
import jax.numpy as jnp


def softmax(x):
    powers = jnp.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def collatz(n):
    """How many steps from n to 1: halve what is even, else 3 n + 1."""

    def step(state):
        n, steps = state
        n = jax.lax.cond(n & 1 == 1, lambda n: 3 * n + 1, lambda n: n >> 1, n)
        return n, steps + 1

    _, steps = jax.lax.while_loop(lambda state: state[0] != 1, step, (n, 0))
    return steps


def convolved(x, kernel, stride=1):
    return jax.lax.conv_general_dilated(
        x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def normalised(x, scale, offset):
    mean, variance = x.mean(axis=(0, 1, 2)), x.var(axis=(0, 1, 2))
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + offset


def residual_block(x, weights):
    y = jax.nn.relu(normalised(convolved(x, weights["first"]), *weights["first_norm"]))
    y = normalised(convolved(y, weights["second"]), *weights["second_norm"])
    return jax.nn.relu(x + y)


def resnet_loss(weights, images, labels):
    x = jax.nn.relu(convolved(images, weights["stem"], stride=2))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    for block in weights["blocks"]:
        x = residual_block(x, block)
    logits = x.mean(axis=(1, 2)) @ weights["head"]
    likelihoods = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(likelihoods, labels[:, None], axis=1).mean()


def resnet_step(weights, images, labels):
    loss, slopes = jax.value_and_grad(resnet_loss)(weights, images, labels)
    return loss, jax.tree.map(lambda w, slope: w - 0.1 * slope, weights, slopes)


def mlp_loss(weights, x, y):
    hidden = jax.nn.gelu(x @ weights["up"])
    return jnp.mean((hidden @ weights["down"] - y) ** 2)


def mlp_step(weights, x, y):
    loss, slopes = jax.value_and_grad(mlp_loss)(weights, x, y)
    return loss, jax.tree.map(lambda w, slope: w - 0.1 * slope, weights, slopes)


# -- a ResNet-50, for inference: normalisation by stored statistics


def frozen_norm(x, weights):
    scale, offset, mean, variance = weights
    return (x - mean) * (scale * jax.lax.rsqrt(variance + 1e-5)) + offset


def bottleneck(x, weights, stride):
    """1x1, 3x3, 1x1: narrow in the middle; the shortcut is projected where sizes change."""
    y = jax.nn.relu(frozen_norm(convolved(x, weights["reduce"], stride), weights["reduce_norm"]))
    y = jax.nn.relu(frozen_norm(convolved(y, weights["middle"]), weights["middle_norm"]))
    y = frozen_norm(convolved(y, weights["expand"]), weights["expand_norm"])
    if "shortcut" in weights:
        x = frozen_norm(convolved(x, weights["shortcut"], stride), weights["shortcut_norm"])
    return jax.nn.relu(x + y)


RESNET50_STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))
"""How many blocks a stage has, and how wide they are in the middle."""


def resnet50(weights, images):
    """Probabilities of the classes, for images in NHWC."""
    x = jax.nn.relu(frozen_norm(convolved(images, weights["stem"], 2), weights["stem_norm"]))
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    for number, stage in enumerate(weights["stages"]):
        for k, block in enumerate(stage):
            x = bottleneck(x, block, 2 if k == 0 and number else 1)
    logits = x.mean(axis=(1, 2)) @ weights["head"] + weights["bias"]
    return jax.nn.softmax(logits)


# -- a small transformer that predicts the next word of each place


def rms_normed(x, scale):
    return x * jax.lax.rsqrt((x * x).mean(axis=-1, keepdims=True) + 1e-6) * scale


def attended(x, weights, heads):
    length, width = x.shape
    query, key, value = (
        (x @ weights[name]).reshape(length, heads, width // heads).swapaxes(0, 1)
        for name in ("query", "key", "value")
    )
    scores = query @ key.swapaxes(1, 2) * (width // heads) ** -0.5
    seen = jnp.tril(jnp.ones((length, length), bool))
    weight = jax.nn.softmax(jnp.where(seen, scores, -1e30), axis=-1)
    return (weight @ value).swapaxes(0, 1).reshape(length, width) @ weights["out"]


def language_model(weights, words, heads=4):
    """The logits of the word behind each of `words`."""
    x = weights["embedding"][words] + weights["places"]
    for layer in weights["layers"]:
        x = x + attended(rms_normed(x, layer["first_norm"]), layer, heads)
        y = rms_normed(x, layer["second_norm"])
        x = x + jax.nn.gelu(y @ layer["up"]) @ layer["down"]
    return rms_normed(x, weights["last_norm"]) @ weights["embedding"].T
