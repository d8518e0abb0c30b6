"""Tinygp fits a Gaussian process, ott moves points onto points, both with gradients."""

import jax
import jax.numpy as jnp
import optax
import tinygp
from ott.geometry import pointcloud
from ott.solvers import linear


def fitted():
    at = jnp.sort(jax.random.uniform(jax.random.key(0), (40,), maxval=10.0))
    seen = jnp.sin(at) + 0.1 * jax.random.normal(jax.random.key(1), (40,))
    optimizer = optax.adam(0.05)

    def process(p):
        kernel = jnp.exp(p["height"]) * tinygp.kernels.Matern32(jnp.exp(p["scale"]))
        return tinygp.GaussianProcess(kernel, at, diag=0.02)

    def quick(p):
        kernel = tinygp.kernels.quasisep.Matern52(jnp.exp(p["scale"]), jnp.exp(p["height"]))
        return tinygp.GaussianProcess(kernel, at, diag=0.02).log_probability(seen)

    def step(carry, _):
        p, state = carry
        value, gradient = jax.value_and_grad(lambda p: -process(p).log_probability(seen))(p)
        change, state = optimizer.update(gradient, state)
        return (optax.apply_updates(p, change), state), value

    @jax.jit
    def fit(p):
        (p, _), losses = jax.lax.scan(step, (p, optimizer.init(p)), None, 15)
        return losses, process(p).condition(seen, jnp.linspace(0, 10, 9)).gp.loc

    p = {"height": jnp.float32(0), "scale": jnp.float32(0)}
    return {"fit": fit(p), "quick": jax.jit(jax.value_and_grad(quick))(p)}


def transported():
    x = jax.random.normal(jax.random.key(2), (16, 3))
    y = 1 + jax.random.normal(jax.random.key(3), (20, 3))

    def cost(x):
        return linear.solve(pointcloud.PointCloud(x, y, epsilon=0.5)).reg_ot_cost

    return jax.jit(jax.value_and_grad(cost))(x)


def run():
    return {"process": fitted(), "transport": transported()}
