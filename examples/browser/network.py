"""A small MobileNet for pictures of 8 x 8 pixels: depthwise separable convolutions, ten classes."""

import jax
import jax.numpy as jnp

LAYERS = ((16, 32, 2), (32, 64, 1))
"""Channels in, channels out, stride of each separable convolution."""


def initial(key):
    """Weights to begin training with, by name."""
    keys = iter(jax.random.split(key, 16))

    def normal(*dims):
        fan_in = max(1, dims[0] * dims[1] * dims[2] if len(dims) == 4 else dims[0])
        return jax.random.normal(next(keys), dims) * (2 / fan_in) ** 0.5

    weights = {"first": normal(3, 3, 1, 16), "first_bias": jnp.zeros(16)}
    for k, (inside, outside, _) in enumerate(LAYERS):
        weights[f"depth{k}"] = normal(3, 3, 1, inside)
        weights[f"point{k}"] = normal(1, 1, inside, outside)
        weights[f"bias{k}"] = jnp.zeros(outside)
    return weights | {"dense": normal(64, 10), "dense_bias": jnp.zeros(10)}


def scores(weights, picture):
    """Ten numbers for each picture, f32[n,8,8] with values from 0 to 1."""
    x = picture[..., None]
    x = jax.nn.relu(convolution(x, weights["first"]) + weights["first_bias"])
    for k, (inside, _, stride) in enumerate(LAYERS):
        x = convolution(x, weights[f"depth{k}"], stride, inside)
        x = jax.nn.relu(convolution(x, weights[f"point{k}"]) + weights[f"bias{k}"])
    return x.mean((1, 2)) @ weights["dense"] + weights["dense_bias"]


def convolution(x, kernel, stride=1, groups=1):
    """With as many pixels out as in, divided by the stride."""
    return jax.lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )
