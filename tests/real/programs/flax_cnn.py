"""Flax linen: a small convolutional network with batch norm and dropout, trained by optax."""

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn


class Network(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        for features in (8, 16):
            x = nn.Conv(features, (3, 3))(x)
            x = nn.BatchNorm(use_running_average=not train)(x)
            x = nn.max_pool(nn.relu(x), (2, 2), (2, 2))
        x = nn.Dropout(0.2, deterministic=not train)(x.reshape(x.shape[0], -1))
        return nn.Dense(10)(nn.gelu(nn.LayerNorm()(nn.Dense(32)(x))))


def run():
    model, key = Network(), jax.random.key(0)
    images = jax.random.normal(key, (16, 14, 14, 1))
    labels = jax.random.randint(key, (16,), 0, 10)
    variables = model.init(key, images, train=False)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.05, momentum=0.9))
    state = optimizer.init(variables["params"])

    def loss_of(params, statistics, step):
        logits, new = model.apply(
            {"params": params, "batch_stats": statistics},
            images,
            train=True,
            rngs={"dropout": jax.random.fold_in(key, step)},
            mutable=["batch_stats"],
        )
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return losses.mean(), new["batch_stats"]

    @jax.jit
    def train_step(params, statistics, state, step):
        slope = jax.value_and_grad(loss_of, has_aux=True)
        (loss, statistics), gradients = slope(params, statistics, step)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), statistics, state, loss

    params, statistics, losses = variables["params"], variables["batch_stats"], []
    for step in range(8):
        params, statistics, state, loss = train_step(params, statistics, state, step)
        losses.append(loss)
    logits = model.apply({"params": params, "batch_stats": statistics}, images, train=False)
    return {"losses": jnp.stack(losses), "logits": logits}
