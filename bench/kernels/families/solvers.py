"""Loops until something holds: differential equations, roots, linear systems, optimizers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from bench.kernels.families.draw import Draw


def regular(a: Any) -> Any:
    """A symmetric matrix with positive eigenvalues."""
    import jax.numpy as jnp

    return a @ a.T / a.shape[0] + jnp.eye(a.shape[0])


def rosenbrock(x: Any) -> Any:
    """A narrow valley."""
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def _fixed_steps(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def runge(rhs: Any, steps: int, y: Any, *args: Any) -> Any:
        def step(y: Any, _: Any) -> Any:
            a = rhs(y, *args)
            b = rhs(y + 5e-3 * a, *args)
            c = rhs(y + 5e-3 * b, *args)
            d = rhs(y + 1e-2 * c, *args)
            y = y + 1e-2 / 6 * (a + 2 * b + 2 * c + d)
            return y, y

        return lax.scan(step, y, None, steps)[1]

    def vanderpol(y: Any) -> Any:
        return jnp.stack([y[1], 2 * (1 - y[0] ** 2) * y[1] - y[0]])

    def lorenz(y: Any) -> Any:
        return jnp.stack(
            [10 * (y[1] - y[0]), y[0] * (28 - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]]
        )

    def preys(y: Any, k: Any) -> Any:
        return y * (k - jnp.roll(y, 1) + 0.1 * jnp.roll(y, -1))

    def network(y: Any, w: Any, v: Any) -> Any:
        return jnp.tanh(y @ w * 0.1) @ v * 0.1

    for of, n in ((vanderpol, 2), (lorenz, 3)):
        yield f"{of.__name__} alone", partial(runge, of, 2000), f"f32[{n}]"
        many = draw.one([17, 100, 1000, 5000])
        yield f"{of.__name__} of many", partial(runge, of, 100), f"f32[{n},{many}]"
        yield f"{of.__name__} of rows", jax.vmap(partial(runge, of, 100)), f"f32[{many},{n}]"
    n = draw.one([5, 64, 1000])
    yield "preys", partial(runge, preys, 500), f"f32[{n}]<1", f"f32[{n}]<1"
    n, batch = draw.one([16, 50]), draw.one([1, 8, 64])
    weights = f"f32[{n},64]", f"f32[64,{n}]"
    yield "neural ode", partial(runge, network, 50), f"f32[{batch},{n}]", *weights
    total = lambda *x: (runge(network, 30, *x)[-1] ** 2).sum()  # noqa: E731
    yield "neural ode gradient", jax.grad(total, (1, 2)), f"f32[{batch},{n}]", *weights

    def heat(u: Any) -> Any:
        def step(_: Any, u: Any) -> Any:
            return u.at[1:-1].add(0.2 * (u[2:] - 2 * u[1:-1] + u[:-2]))

        return lax.fori_loop(0, 500, step, u)

    yield "heat of a rod", heat, f"f32[{draw.one([100, 1001, 4096])}]"


def _adaptive(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def heun(rhs: Any, y: Any) -> Any:
        def step(carry: Any) -> Any:
            t, h, y, taken = carry
            h = jnp.minimum(h, 2 - t)
            a = rhs(t, y)
            b = rhs(t + h, y + h * a)
            error = jnp.sqrt(((h / 2 * (b - a)) ** 2).mean()) / 1e-4
            accept = error < 1
            y = jnp.where(accept, y + h / 2 * (a + b), y)
            t = jnp.where(accept, t + h, t)
            factor = jnp.clip(0.9 / jnp.sqrt(error + 1e-9), 0.2, 5.0)
            return t, h * factor, y, taken + 1

        first = (jnp.float32(0), jnp.float32(0.01), y, 0)
        return lax.while_loop(lambda c: (c[0] < 2) & (c[3] < 2000), step, first)

    spin = lambda t, y: jnp.roll(y, 1, -1) * jnp.cos(t) - y * 0.5  # noqa: E731
    pol = lambda _, y: jnp.stack([y[1], 3 * (1 - y[0] ** 2) * y[1] - y[0]])  # noqa: E731
    yield "adaptive spin", partial(heun, spin), f"f32[{draw.one([3, 16, 100])}]"
    yield "adaptive van der pol", partial(heun, pol), "f32[2]<2"
    yield "adaptive of many", jax.vmap(partial(heun, pol)), f"f32[{draw.one([32, 200])},2]<2"

    def bisect(c: Any) -> Any:
        def step(carry: Any) -> Any:
            low, high, k = carry
            middle = (low + high) / 2
            below = middle * jnp.exp(middle) < c
            return jnp.where(below, middle, low), jnp.where(below, high, middle), k + 1

        first = (jnp.float32(0), jnp.float32(10), 0)
        return lax.while_loop(lambda k: (k[1] - k[0] > 1e-6) & (k[2] < 60), step, first)[0]

    yield "bisection of many", jax.vmap(bisect), f"f32[{draw.one([100, 5000])}]<9"

    def newton(c: Any) -> Any:
        def step(carry: Any) -> Any:
            x, _, k = carry
            move = (x * jnp.exp(x) - c) / (jnp.exp(x) * (x + 1))
            return x - move, jnp.abs(move), k + 1

        go = lambda k: (k[1] > 1e-6) & (k[2] < 50)  # noqa: E731
        return lax.while_loop(go, step, (jnp.float32(1), jnp.float32(1), 0))[0]

    yield "newton alone", newton, "f32[]<5"
    yield "newton of many", jax.vmap(newton), f"f32[{draw.one([100, 5000])}]<5"

    def euclid(a: Any, b: Any) -> Any:
        return lax.while_loop(lambda c: c[1] != 0, lambda c: (c[1], c[0] % c[1]), (a, b))[0]

    n = draw.one([100, 3000])
    yield "gcd of many", jax.vmap(euclid), f"s32[{n}]<9999", f"s32[{n}]<9999"


def _linear(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    n = draw.one([30, 100, 200, 600])
    square, vector = f"f32[{n},{n}]", f"f32[{n}]"
    sparse = jax.scipy.sparse.linalg
    conjugate = lambda a, b: sparse.cg(lambda x: regular(a) @ x, b, maxiter=30)[0]  # noqa: E731
    stable = lambda a, b: sparse.bicgstab(lambda x: regular(a) @ x, b, maxiter=20)[0]  # noqa: E731
    yield "conjugate gradients", conjugate, square, vector
    yield "bicgstab", stable, square, vector
    n = draw.one([30, 100])
    least = lambda a, b: sparse.gmres(regular(a), b, maxiter=2, restart=10)[0]  # noqa: E731
    yield "gmres", least, f"f32[{n},{n}]", f"f32[{n}]"

    def lanczos(a: Any, v: Any) -> Any:
        m = a + a.T

        def step(carry: Any, _: Any) -> Any:
            v, before, beta = carry
            w = m @ v - beta * before
            alpha = w @ v
            w = w - alpha * v
            beta = jnp.linalg.norm(w)
            return (w / (beta + 1e-9), v, beta), (alpha, beta)

        return lax.scan(step, (v / jnp.linalg.norm(v), 0 * v, jnp.float32(0)), None, 40)[1]

    n = draw.one([64, 250, 500])
    yield "lanczos", lanczos, f"f32[{n},{n}]", f"f32[{n}]"

    def subspace(a: Any, q: Any) -> Any:
        def step(_: Any, q: Any) -> Any:
            y = a @ q
            return y / jnp.linalg.norm(y, axis=0)

        return lax.fori_loop(0, 40, step, q)

    yield "power of columns", subspace, f"f32[{n},{n}]", f"f32[{n},{draw.one([4, 16])}]"


def _eliminated(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp
    from jax import lax

    def seidel(a: Any, b: Any) -> Any:
        m = regular(a)

        def row(i: Any, x: Any) -> Any:
            rest = m[i] @ x - m[i, i] * x[i]
            return x.at[i].set((b[i] - rest) / m[i, i])

        sweep = lambda _, x: lax.fori_loop(0, b.shape[0], row, x)  # noqa: E731
        return lax.fori_loop(0, 5, sweep, 0 * b)

    n = draw.one([50, 128])
    yield "gauss and seidel", seidel, f"f32[{n},{n}]", f"f32[{n}]"

    def eliminate(a: Any) -> Any:
        m = regular(a)

        def step(k: Any, m: Any) -> Any:
            factor = jnp.where(jnp.arange(m.shape[0]) > k, m[:, k] / m[k, k], 0)
            return m - factor[:, None] * m[k][None, :]

        return lax.fori_loop(0, a.shape[0] - 1, step, m)

    yield "elimination", eliminate, f"f32[{n},{n}]"


def _optimized(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def adam(x: Any) -> Any:
        def step(carry: Any, t: Any) -> Any:
            x, m, v = carry
            value, g = jax.value_and_grad(rosenbrock)(x)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            scale = jnp.sqrt(1 - 0.999 ** (t + 1.0)) / (1 - 0.9 ** (t + 1.0))
            return (x - 1e-2 * scale * m / (jnp.sqrt(v) + 1e-8), m, v), value

        return lax.scan(step, (x, 0 * x, 0 * x), jnp.arange(300))

    yield "adam of rosenbrock", adam, f"f32[{draw.one([2, 10, 100])}]<1"

    def memory(x: Any) -> Any:
        keep = 6

        def two_loops(g: Any, s: Any, y: Any, rho: Any) -> Any:
            def down(q: Any, syr: Any) -> Any:
                a = syr[2] * (syr[0] @ q)
                return q - a * syr[1], a

            q, alphas = lax.scan(down, g, (s, y, rho), reverse=True)

            def up(r: Any, syra: Any) -> Any:
                s, y, rho, a = syra
                return r + s * (a - rho * (y @ r)), None

            return lax.scan(up, q * 1e-3, (s, y, rho, alphas))[0]

        def step(_: Any, carry: Any) -> Any:
            x, g, s, y, rho = carry
            new = x - 0.5 * two_loops(g, s, y, rho)
            change = jax.grad(rosenbrock)(new)
            push = lambda at, z: jnp.concatenate([at[1:], z[None]])  # noqa: E731
            slope = (change - g) @ (new - x)
            inverse = jnp.where(slope > 1e-9, 1 / slope, 0)
            return new, change, push(s, new - x), push(y, change - g), push(rho, inverse)

        zeros = jnp.zeros((keep, x.shape[0]))
        first = (x, jax.grad(rosenbrock)(x), zeros, zeros, jnp.zeros(keep))
        return lax.fori_loop(0, 60, step, first)[0]

    yield "l-bfgs", memory, f"f32[{draw.one([10, 100])}]<1"


def _fitted(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def logistic(w: Any, x: Any, y: Any) -> Any:
        def step(_: Any, w: Any) -> Any:
            p = jax.nn.sigmoid(x @ w)
            h = (x * (p * (1 - p))[:, None]).T @ x + jnp.eye(w.shape[0])
            return w - jnp.linalg.solve(h, x.T @ (p - y) + w)

        return lax.fori_loop(0, 10, step, w)

    n = draw.one([3, 8, 20])
    yield "logistic newton", logistic, f"f32[{n}]", f"f32[500,{n}]", "f32[500]<1"

    def perceptron(a: Any, b: Any, x: Any, y: Any) -> Any:
        loss = lambda p: ((jnp.tanh(x @ p[0]) @ p[1] - y) ** 2).mean()  # noqa: E731

        def step(p: Any, _: Any) -> Any:
            value, g = jax.value_and_grad(loss)(p)
            return jax.tree.map(lambda a, b: a - 0.05 * b, p, g), value

        return lax.scan(step, (0.1 * a, 0.1 * b), None, 100)

    n = draw.one([8, 32, 64])
    yield "perceptron trained", perceptron, f"f32[10,{n}]", f"f32[{n}]", "f32[128,10]", "f32[128]"

    def lasso(a: Any, b: Any) -> Any:
        def step(_: Any, xz: Any) -> Any:
            x, z = xz
            move = z - 1e-3 * (a.T @ (a @ z - b))
            new = jnp.sign(move) * jnp.maximum(jnp.abs(move) - 1e-3, 0)
            return new, new + 0.5 * (new - x)

        x = jnp.zeros(a.shape[1])
        return lax.fori_loop(0, 100, step, (x, x))[0]

    rows = draw.one([50, 200])
    yield "lasso", lasso, f"f32[{rows},{draw.one([30, 200])}]", f"f32[{rows}]"


FAMILIES = (_fixed_steps, _adaptive, _linear, _eliminated, _optimized, _fitted)
