"""Plain JAX: a state space model by associative scan, a recurrent one by scan, experts by top_k."""

import jax
import jax.numpy as jnp
import optax

WIDTH, STATES, WORDS, EXPERTS = 16, 4, 20, 4


def drawn(*shape, seed):
    return 0.1 * jax.random.normal(jax.random.key(seed), shape)


def state_space(p, x):
    """A selective scan: each position decays what came before it by as much as it says."""
    kernel = p["taps"][:, None, :]
    x = jax.lax.conv_general_dilated(
        x,
        kernel,
        (1,),
        [(3, 0)],
        feature_group_count=WIDTH,
        dimension_numbers=("NWC", "WIO", "NWC"),
    )
    step = jax.nn.softplus(x @ p["step"])[..., None]
    decay = jnp.exp(-step * jnp.exp(p["rate"]))
    added = step * (x @ p["into"])[:, :, None, :] * x[..., None]

    def after(a, b):
        return a[0] * b[0], b[0] * a[1] + b[1]

    _, states = jax.lax.associative_scan(after, (decay, added), axis=1)
    return jnp.einsum("bldn,bln->bld", states, x @ p["out"])


def recurrent(p, x):
    def step(carry, now):
        hidden, cell = carry
        gates = jnp.concatenate([now, hidden], -1) @ p["gates"]
        keep, write, show, new = jnp.split(gates, 4, axis=-1)
        cell = jax.nn.sigmoid(keep + 1) * cell + jax.nn.sigmoid(write) * jnp.tanh(new)
        hidden = jax.nn.sigmoid(show) * jnp.tanh(cell)
        return (hidden, cell), hidden

    start = (jnp.zeros_like(x[:, 0]), jnp.zeros_like(x[:, 0]))
    return jax.lax.scan(step, start, x.swapaxes(0, 1))[1].swapaxes(0, 1)


def experts(p, x):
    """Each position asks the two experts that its router likes best."""
    flat = x.reshape(-1, WIDTH)
    much, which = jax.lax.top_k(jax.nn.softmax(flat @ p["router"]), 2)
    order = jnp.argsort(which.reshape(-1), stable=True)
    position = order // 2
    sizes = jnp.bincount(which.reshape(-1), length=EXPERTS).astype(jnp.int32)
    hidden = jax.nn.silu(jax.lax.ragged_dot(flat[position], p["up"], sizes))
    told = jax.lax.ragged_dot(hidden, p["down"], sizes) * much.reshape(-1)[order][:, None]
    return jnp.zeros_like(flat).at[position].add(told).reshape(x.shape)


def trained(block, weights, tokens):
    weights = {
        **weights,
        "words": drawn(WORDS, WIDTH, seed=90),
        "head": drawn(WIDTH, WORDS, seed=91),
    }
    optimizer = optax.adamw(1e-2)

    def loss(p):
        x = p["words"][tokens[:, :-1]]
        said = (x + block(p, x)) @ p["head"]
        return optax.softmax_cross_entropy_with_integer_labels(said, tokens[:, 1:]).mean()

    @jax.jit
    def step(p, state):
        value, gradient = jax.value_and_grad(loss)(p)
        change, state = optimizer.update(gradient, state, p)
        return optax.apply_updates(p, change), state, value

    state, losses = optimizer.init(weights), []
    for _ in range(6):
        weights, state, value = step(weights, state)
        losses.append(value)
    return jnp.stack(losses)


def run():
    tokens = jax.random.randint(jax.random.key(0), (3, 33), 0, WORDS)
    scanned = {
        "taps": drawn(4, WIDTH, seed=1),
        "step": drawn(WIDTH, WIDTH, seed=2),
        "into": drawn(WIDTH, STATES, seed=3),
        "out": drawn(WIDTH, STATES, seed=4),
        "rate": jnp.log(jnp.tile(jnp.arange(1.0, STATES + 1), (WIDTH, 1))),
    }
    routed = {
        "router": drawn(WIDTH, EXPERTS, seed=6),
        "up": drawn(EXPERTS, WIDTH, 32, seed=7),
        "down": drawn(EXPERTS, 32, WIDTH, seed=8),
    }
    return {
        "state space": trained(state_space, scanned, tokens),
        "recurrent": trained(recurrent, {"gates": drawn(2 * WIDTH, 4 * WIDTH, seed=5)}, tokens),
        "experts": trained(experts, routed, tokens),
    }
