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
