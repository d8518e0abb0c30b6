"""Plain JAX: proximal policy optimisation of a cart with a pole, environment and all in scans."""

import jax
import jax.numpy as jnp
import optax

CARTS, STEPS = 8, 32


def begun(key):
    return jax.random.uniform(key, (4,), minval=-0.05, maxval=0.05)


def moved(state, action, key):
    _, speed, angle, turn = state
    push = jnp.where(action == 1, 10.0, -10.0) + 0.05 * turn**2 * jnp.sin(angle)
    cosine = jnp.cos(angle)
    turning = (9.8 * jnp.sin(angle) - cosine * push / 1.1) / (0.5 * (4 / 3 - cosine**2 / 11))
    speeding = push / 1.1 - 0.05 * turning * cosine / 1.1
    new = state + 0.02 * jnp.stack([speed, speeding, turn, turning])
    over = (jnp.abs(new[0]) > 2.4) | (jnp.abs(new[2]) > 0.2095)
    return jnp.where(over, begun(key), new), over


def policy(p, seen):
    hidden = jnp.tanh(jnp.tanh(seen @ p["first"]) @ p["second"])
    return jax.nn.log_softmax(hidden @ p["act"]), (hidden @ p["worth"])[..., 0]


def played(p, states, key):
    def step(states, key):
        choosing, moving = jax.random.split(key)
        likely, worth = policy(p, states)
        action = jax.random.categorical(choosing, likely)
        new, over = jax.vmap(moved)(states, action, jax.random.split(moving, CARTS))
        chosen = jnp.take_along_axis(likely, action[:, None], 1)[:, 0]
        return new, (states, action, chosen, worth, over)

    states, told = jax.lax.scan(step, states, jax.random.split(key, STEPS))
    last = policy(p, states)[1]

    def back(carry, now):
        gain, after = carry
        worth, over = now
        gain = 1 + 0.99 * after * (1 - over) - worth + 0.94 * (1 - over) * gain
        return (gain, worth), gain

    *_, worth, over = told
    _, gains = jax.lax.scan(back, (jnp.zeros(CARTS), last), (worth, over), reverse=True, unroll=4)
    return states, (*told[:3], gains, gains + worth), over.sum()


def loss(p, part):
    seen, action, before, gain, target = part
    likely, worth = policy(p, seen)
    ratio = jnp.exp(jnp.take_along_axis(likely, action[:, None], 1)[:, 0] - before)
    gain = (gain - gain.mean()) / (gain.std() + 1e-8)
    clipped = jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain)
    return 0.5 * jnp.mean((worth - target) ** 2) - clipped.mean()


OPTIMIZER = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4))


@jax.jit
def update(p, state, states, key):
    playing, shuffling = jax.random.split(key)
    states, told, ended = played(p, states, playing)
    flat = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), told)

    def learn(carry, part):
        p, state = carry
        value, gradient = jax.value_and_grad(loss)(p, part)
        change, state = OPTIMIZER.update(gradient, state, p)
        return (optax.apply_updates(p, change), state), value

    def epoch(carry, key):
        order = jax.random.permutation(key, CARTS * STEPS)
        parts = jax.tree.map(lambda x: x[order].reshape(4, -1, *x.shape[1:]), flat)
        return jax.lax.scan(learn, carry, parts)

    (p, state), losses = jax.lax.scan(epoch, (p, state), jax.random.split(shuffling, 2))
    return p, state, states, losses, ended


def run():
    keys = jax.random.split(jax.random.key(0), 6)
    p = {
        "first": jax.random.normal(keys[0], (4, 32)) / 2,
        "second": jax.random.normal(keys[1], (32, 32)) / 6,
        "act": jax.random.normal(keys[2], (32, 2)) / 100,
        "worth": jax.random.normal(keys[3], (32, 1)) / 6,
    }
    state = OPTIMIZER.init(p)
    states = jax.vmap(begun)(jax.random.split(keys[4], CARTS))
    losses, ends = [], []
    for key in jax.random.split(keys[5], 3):
        p, state, states, values, ended = update(p, state, states, key)
        losses.append(values)
        ends.append(ended)
    return {"losses": jnp.stack(losses), "ends": jnp.stack(ends)}
