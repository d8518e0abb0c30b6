"""Haiku and jraph: a network of graphs, and one of images with batch norms, dropout and an LSTM."""

import haiku as hk
import jax
import jax.numpy as jnp
import jraph
import numpy as np
import optax


def graphs():
    drawn = np.random.default_rng(0)
    told = []
    for number in range(6):
        nodes, edges = 4 + number, 7 + 2 * number
        told.append(
            jraph.GraphsTuple(
                nodes=drawn.standard_normal((nodes, 5)).astype(np.float32),
                edges=drawn.standard_normal((edges, 3)).astype(np.float32),
                globals=np.zeros((1, 4), np.float32),
                n_node=np.array([nodes]),
                n_edge=np.array([edges]),
                senders=drawn.integers(0, nodes, edges),
                receivers=drawn.integers(0, nodes, edges),
            )
        )
    return jraph.pad_with_graphs(jraph.batch_np(told), 48, 80, 7)


def graph_network(batch):
    def update(sizes):
        return jraph.concatenated_args(hk.nets.MLP(sizes))

    for _ in range(2):
        batch = jraph.GraphNetwork(update((8, 8)), update((8, 8)), update((8, 8)))(batch)
    return hk.Linear(2)(batch.globals)


def image_network(images, training):
    x = hk.Conv2D(8, 3)(images)
    for channels, stride in ((8, 1), (16, 2)):
        y = jax.nn.relu(hk.BatchNorm(True, True, 0.9)(x, training))
        y = hk.Conv2D(channels, 3, stride)(y)
        x = hk.Conv2D(channels, 1, stride)(x) + y
    core = hk.LSTM(16)
    rows, _ = hk.dynamic_unroll(core, x.mean(1).swapaxes(0, 1), core.initial_state(x.shape[0]))
    last = hk.dropout(hk.next_rng_key(), 0.2, rows[-1]) if training else rows[-1]
    return hk.Linear(10)(last)


def trained_on_graphs():
    batch, model = graphs(), hk.without_apply_rng(hk.transform(graph_network))
    known = jraph.get_graph_padding_mask(batch)
    labels, optimizer = jnp.arange(7) % 2, optax.adam(1e-2)

    @jax.jit
    def step(weights, state):
        def loss(weights):
            said = model.apply(weights, batch)
            each = optax.softmax_cross_entropy_with_integer_labels(said, labels)
            return (each * known).sum() / known.sum()

        value, gradient = jax.value_and_grad(loss)(weights)
        change, state = optimizer.update(gradient, state)
        return optax.apply_updates(weights, change), state, value

    weights = model.init(jax.random.key(0), batch)
    state, losses = optimizer.init(weights), []
    for _ in range(5):
        weights, state, value = step(weights, state)
        losses.append(value)
    return jnp.stack(losses)


def trained_on_images():
    model, optimizer = hk.transform_with_state(image_network), optax.lamb(1e-2)
    images, labels = jax.random.normal(jax.random.key(1), (8, 12, 12, 3)), jnp.arange(8)

    @jax.jit
    def step(weights, norms, state, key):
        def loss(weights):
            said, after = model.apply(weights, norms, key, images, True)
            each = optax.softmax_cross_entropy_with_integer_labels(said, labels)
            return each.mean(), after

        (value, after), gradient = jax.value_and_grad(loss, has_aux=True)(weights)
        change, state = optimizer.update(gradient, state, weights)
        return optax.apply_updates(weights, change), after, state, value

    weights, norms = jax.jit(lambda k: model.init(k, images, True))(jax.random.key(0))
    state, losses = optimizer.init(weights), []
    for number in range(4):
        weights, norms, state, value = step(weights, norms, state, jax.random.key(number))
        losses.append(value)
    return jnp.stack(losses)


def run():
    return {"graphs": trained_on_graphs(), "images": trained_on_images()}
