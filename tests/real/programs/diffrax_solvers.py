"""Diffrax: explicit, implicit and stochastic solvers, and a gradient through a solve."""

import diffrax
import jax
import jax.numpy as jnp


def lorenz(t, y, args):
    s, r, b = args
    return jnp.stack([s * (y[1] - y[0]), y[0] * (r - y[2]) - y[1], y[0] * y[1] - b * y[2]])


def robertson(t, y, args):
    slow, mixed, fast = 0.04 * y[0], 1e2 * y[1] * y[2], 3e3 * y[1] ** 2
    return jnp.stack([mixed - slow, slow - mixed - fast, fast])


def explicit(args):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(lorenz),
        diffrax.Tsit5(),
        0.0,
        1.0,
        0.01,
        jnp.ones(3),
        args=args,
        stepsize_controller=diffrax.PIDController(1e-5, 1e-5),
        saveat=diffrax.SaveAt(ts=jnp.linspace(0, 1, 5)),
    ).ys


def implicit():
    return diffrax.diffeqsolve(
        diffrax.ODETerm(robertson),
        diffrax.Kvaerno3(),
        0.0,
        10.0,
        1e-3,
        jnp.array([1.0, 0.0, 0.0]),
        stepsize_controller=diffrax.PIDController(1e-4, 1e-6),
    ).ys


def stochastic():
    path = diffrax.VirtualBrownianTree(0.0, 1.0, 1e-2, (), jax.random.key(5))
    noise = diffrax.ControlTerm(lambda t, y, args: 0.1 * y, path)
    terms = diffrax.MultiTerm(diffrax.ODETerm(lambda t, y, args: -y), noise)
    return diffrax.diffeqsolve(terms, diffrax.Heun(), 0.0, 1.0, 0.05, jnp.float32(1.0)).ys


def run():
    args = jnp.array([10.0, 28.0, 8 / 3])
    return {
        "explicit": jax.jit(explicit)(args),
        "gradient": jax.jit(jax.grad(lambda a: explicit(a)[1].sum()))(args),
        "implicit": jax.jit(implicit)(),
        "stochastic": jax.jit(stochastic)(),
    }
