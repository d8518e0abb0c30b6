"""Blackjax: Hamiltonian chains, tempered particles, and NUTS after a window of adaptation."""

import blackjax
import jax
import jax.numpy as jnp


def run():
    x = jax.random.normal(jax.random.key(0), (100, 3))
    noise = jax.random.normal(jax.random.key(1), (100,))
    signs = jnp.where(x @ jnp.arange(3.0) + noise > 0.5, 1.0, -1.0)

    def likely(at):
        score = signs * (x @ at["weights"] + at["shift"])
        return -jnp.sum(jax.nn.softplus(-score)) - jnp.sum(at["weights"] ** 2) - at["shift"] ** 2

    start = {"weights": jnp.zeros(3), "shift": jnp.float32(0)}

    @jax.jit
    def hamiltonian(key):
        chain = blackjax.hmc(likely, 0.05, jnp.ones(4), 8)

        def step(state, key):
            state, told = chain.step(key, state)
            return state, (state.position, told.acceptance_rate)

        return jax.lax.scan(step, chain.init(start), jax.random.split(key, 25))[1]

    @jax.jit
    def nuts(key):
        adapting, drawing = jax.random.split(key)
        window = blackjax.window_adaptation(blackjax.nuts, likely)
        (state, found), _ = window.run(adapting, start, num_steps=100)
        chain = blackjax.nuts(likely, **found)

        def step(state, key):
            state, _ = chain.step(key, state)
            return state, state.position

        return jax.lax.scan(step, state, jax.random.split(drawing, 50))[1]

    chain = hamiltonian(jax.random.key(2))
    with jax.enable_x64(True):  # in f32 rounding parts such chains soon
        x, signs, start = jax.tree.map(lambda told: told.astype(jnp.float64), (x, signs, start))
        return {"hamiltonian": chain, "nuts": nuts(jax.random.key(3))}
