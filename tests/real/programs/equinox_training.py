"""Equinox and optax: a recurrent network that learns to tell sums, and a fit by L-BFGS."""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax


class Recurrent(eqx.Module):
    cell: eqx.nn.GRUCell
    head: eqx.nn.MLP

    def __init__(self, key):
        ours, theirs = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(2, 8, key=ours)
        self.head = eqx.nn.MLP(8, 1, 16, 2, key=theirs)

    def __call__(self, row):
        start = jnp.zeros(8)
        state, _ = jax.lax.scan(lambda h, x: (self.cell(x, h), None), start, row)
        return self.head(state)


def run():
    rows = jax.random.normal(jax.random.key(2), (32, 10, 2))
    wanted = rows.sum((1, 2))[:, None]
    model = Recurrent(jax.random.key(0))
    optimizer = optax.lion(1e-3)
    state = optimizer.init(eqx.filter(model, eqx.is_array))

    @eqx.filter_jit
    def train_step(model, state):
        def loss_of(model):
            return jnp.mean((jax.vmap(model)(rows) - wanted) ** 2)

        loss, gradients = eqx.filter_value_and_grad(loss_of)(model)
        updates, state = optimizer.update(gradients, state, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), state, loss

    losses = []
    for _ in range(8):
        model, state, loss = train_step(model, state)
        losses.append(loss)
    return {"losses": jnp.stack(losses), "rosenbrock": lbfgs()}


def lbfgs():
    def valley(x):
        return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    solver = optax.lbfgs()

    @jax.jit
    def step(x, state):
        value, slope = optax.value_and_grad_from_state(valley)(x, state=state)
        updates, state = solver.update(slope, state, x, value=value, grad=slope, value_fn=valley)
        return optax.apply_updates(x, updates), state

    x = jnp.zeros(4)
    state = solver.init(x)
    for _ in range(60):
        x, state = step(x, state)
    return x  # all ones
