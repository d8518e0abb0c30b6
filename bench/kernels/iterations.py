"""Loops of JAX, against XLA:CPU: `python -m bench.kernels.iterations [-k WORD]`.

Scans, whiles, solvers, filters, recurrent networks and their gradients, dynamic programming,
samplers and simulations, as users write them. One table with the worst first, as
`bench.kernels.operations` has it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from bench.kernels.operations import Function, Operation, contest


def iterations() -> Iterator[Operation]:
    """All of them; a name begins with its family."""
    for family in (_recurrent, _filters, _solvers, _programming, _simulations, _small_algebra):
        for name, function, *operands in family():
            yield Operation(name, function, tuple(operands))


def rnn(w: Any, u: Any, h: Any, xs: Any) -> Any:
    """States of a plain recurrent network."""
    return lax.scan(lambda h, x: ((k := jnp.tanh(h @ w + x @ u)), k), h, xs)[1]


def lstm(w: Any, h: Any, c: Any, xs: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(jnp.concatenate([x, h], -1) @ w, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return lax.scan(step, (h, c), xs)[1]


def gru(w: Any, v: Any, h: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        z, r = jnp.split(jax.nn.sigmoid(jnp.concatenate([x, h], -1) @ w), 2, -1)
        n = jnp.tanh(jnp.concatenate([x, r * h], -1) @ v)
        h = (1 - z) * n + z * h
        return h, h

    return lax.scan(step, h, xs)[1]


def slope(of: Function, count: int = 1) -> Function:
    """Gradients of the sum of squares, with respect to the first arguments."""
    by = tuple(range(count))
    return lambda *x: jax.grad(lambda *y: (of(*(0.05 * z for z in y)) ** 2).sum(), by)(*x)


def _recurrent() -> Iterator[tuple[Any, ...]]:
    for width, batch, steps in ((64, 1, 1000), (128, 16, 64), (256, 1, 256), (256, 32, 64)):
        square, state = f"f32[{width},{width}]", f"f32[{batch},{width}]"
        inputs = f"f32[{steps},{batch},{width}]"
        name = f"{width} wide, batch {batch}, {steps} steps"
        yield f"rnn {name}", rnn, square, square, state, inputs
        yield f"rnn gradient {name}", slope(rnn, 2), square, square, state, inputs
    state, inputs = "f32[8,96]", "f32[100,8,64]"
    yield "lstm", lstm, "f32[160,384]", state, state, inputs
    yield "lstm gradient", slope(lstm), "f32[160,384]", state, state, inputs
    yield "gru", gru, "f32[160,192]", "f32[160,96]", state, inputs
    yield "gru gradient", slope(gru, 2), "f32[160,192]", "f32[160,96]", state, inputs

    def leaves(a: Any, b: Any, c: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            y, z = carry
            return (jnp.tanh(a * y + b * z + x), jnp.sin(c * z) + y), y

        return lax.scan(step, (a, b), xs)[1].sum()

    scalars = ("f32[]", "f32[]", "f32[]", "f32[10000]")
    yield "scalar scan", leaves, *scalars
    yield "scalar scan gradient", jax.grad(leaves, (0, 1, 2)), *scalars


def _filters() -> Iterator[tuple[Any, ...]]:
    def kalman(f: Any, h: Any, x: Any, p: Any, zs: Any) -> Any:
        def step(carry: Any, z: Any) -> Any:
            x, p = carry
            x, p = f @ x, f @ p @ f.T * 0.01 + 0.1 * jnp.eye(4)
            s = h @ p @ h.T + jnp.eye(2) * 9
            k = jnp.linalg.solve(s, h @ p).T
            x = x + k @ (z - h @ x)
            return (x * 0.5, p - k @ h @ p), x

        return lax.scan(step, (x, p @ p.T), zs)[1]

    small = ("f32[4,4]", "f32[2,4]", "f32[4]", "f32[4,4]", "f32[500,2]")
    yield "kalman of 4 states", kalman, *small

    def forward(a: Any, b: Any, start: Any, seen: Any) -> Any:
        steps = lax.scan(
            lambda p, o: ((k := jax.nn.logsumexp(p[:, None] + a, 0) + b[:, o]), k), start, seen
        )
        return steps[1]

    yield "hmm forward", forward, "f32[32,32]", "f32[32,50]", "f32[32]", "s32[500]<50"

    def viterbi(a: Any, b: Any, start: Any, seen: Any) -> Any:
        def step(p: Any, o: Any) -> Any:
            each = p[:, None] + a
            return each.max(0) + b[:, o], each.argmax(0)

        return lax.scan(step, start, seen)

    yield "viterbi", viterbi, "f32[32,32]", "f32[32,50]", "f32[32]", "s32[500]<50"
    smooth = lambda xs: lax.scan(lambda m, x: ((k := 0.9 * m + 0.1 * x), k), xs[0], xs)[1]  # noqa: E731
    yield "exponential average of rows", smooth, "f32[4096,256]"
    yield "exponential average of numbers", smooth, "f32[100000]"

    def biquad(c: Any, xs: Any) -> Any:
        def step(s: Any, x: Any) -> Any:
            y = c[0] * x + s[0]
            return (c[1] * x - 0.1 * y + s[1], c[2] * x - 0.01 * y), y

        return lax.scan(step, (0.0 * c[0], 0.0 * c[0]), xs)[1]

    yield "biquad filter", biquad, "f32[3]", "f32[100000]"


def _solvers() -> Iterator[tuple[Any, ...]]:
    def runge(rhs: Function, steps: int, y: Any, *args: Any) -> Any:
        def step(_: Any, y: Any) -> Any:
            h = 1e-3
            a = rhs(y, *args)
            b = rhs(y + h / 2 * a, *args)
            c = rhs(y + h / 2 * b, *args)
            return y + h / 6 * (a + 2 * b + 2 * c + rhs(y + h * c, *args))

        return lax.fori_loop(0, steps, step, y)

    def lorenz(y: Any) -> Any:
        a, b, c = y[0], y[1], y[2]
        return jnp.stack([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c])

    yield "ode lorenz", partial(runge, lorenz, 10000), "f32[3]"
    yield "ode lorenz of 1000", partial(runge, lorenz, 300), "f32[3,1000]"
    dense = lambda y, w: jnp.tanh(w @ y)  # noqa: E731
    yield "ode of a network", partial(runge, dense, 200), "f32[128]", "f32[128,128]"

    def gradients(a: Any, b: Any) -> Any:
        a = a @ a.T / a.shape[0] + jnp.eye(a.shape[0])

        def step(carry: Any) -> Any:
            x, r, p, rr, k = carry
            q = a @ p
            alpha = rr / (p @ q)
            r2 = r - alpha * q
            rr2 = r2 @ r2
            return x + alpha * p, r2, r2 + rr2 / rr * p, rr2, k + 1

        first = (jnp.zeros_like(b), b, b, b @ b, 0)
        return lax.while_loop(lambda c: (c[4] < 50) & (c[3] > 1e-30), step, first)[0]

    yield "conjugate gradients 512", gradients, "f32[512,512]", "f32[512]"
    power = lambda a, x: lax.fori_loop(  # noqa: E731
        0, 100, lambda _, x: (y := a @ x) / jnp.linalg.norm(y), x
    )
    for n in (64, 300, 1024):
        yield f"power iteration {n}", power, f"f32[{n},{n}]", f"f32[{n}]"
    yield from _fixed_points()


def _fixed_points() -> Iterator[tuple[Any, ...]]:
    newton = lambda c: lax.fori_loop(  # noqa: E731
        0, 60, lambda _, x: x - (x**3 - c) / (3 * x**2 + 1), jnp.ones_like(c)
    )
    yield "newton of 65536", newton, "f32[65536]"

    def jacobi(u: Any) -> Any:
        def step(_: Any, u: Any) -> Any:
            inner = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4
            return u.at[1:-1, 1:-1].set(inner)

        return lax.fori_loop(0, 100, step, u)

    yield "jacobi 256", jacobi, "f32[256,256]"

    def sinkhorn(c: Any) -> Any:
        k = jnp.exp(-jnp.abs(c))
        one = jnp.ones(c.shape[0])

        def step(_: Any, uv: Any) -> Any:
            u = 1 / (k @ uv[1])
            return u, 1 / (k.T @ u)

        return lax.fori_loop(0, 50, step, (one, one))

    yield "sinkhorn 256", sinkhorn, "f32[256,256]"

    def descent(w: Any, x: Any, y: Any) -> Any:
        loss = lambda w: ((jnp.tanh(x @ w) - y) ** 2).mean()  # noqa: E731
        return lax.fori_loop(0, 100, lambda _, w: w - 0.1 * jax.grad(loss)(w), w)

    yield "gradient descent", descent, "f32[64]", "f32[1000,64]", "f32[1000]"


def _programming() -> Iterator[tuple[Any, ...]]:
    def levenshtein(a: Any, b: Any) -> Any:
        first = jnp.arange(b.shape[0] + 1)

        def row(before: Any, x: Any) -> Any:
            def cell(left: Any, y: Any) -> Any:
                up, diagonal, other = y
                best = jnp.minimum(jnp.minimum(left + 1, up + 1), diagonal + (x != other))
                return best, best

            start = before[0] + 1
            _, cells = lax.scan(cell, start, (before[1:], before[:-1], b))
            return jnp.concatenate([start[None], cells]), None

        return lax.scan(row, first, a)[0][-1]

    yield "levenshtein 200", levenshtein, "s32[200]<26", "s32[200]<26"

    def knapsack(weights: Any, values: Any) -> Any:
        def item(best: Any, wv: Any) -> Any:
            w, v = wv
            at = jnp.arange(best.shape[0])
            other = jnp.where(at >= w, best[jnp.maximum(at - w, 0)] + v, 0)
            return jnp.maximum(best, other), None

        return lax.scan(item, jnp.zeros(2001), (weights, values))[0]

    yield "knapsack", knapsack, "s32[200]<90", "f32[200]"

    def warshall(d: Any) -> Any:
        relax = lambda k, d: jnp.minimum(d, d[:, k, None] + d[None, k, :])  # noqa: E731
        return lax.fori_loop(0, d.shape[0], relax, jnp.abs(d))

    yield "floyd warshall 200", warshall, "f32[200,200]"

    def updates(x: Any, xs: Any) -> Any:
        return lax.fori_loop(
            0, xs.shape[0], lambda k, x: x.at[k * 3].set(xs[k] + x[(k * 7) % 1000]), x
        )

    yield "updates in place", updates, "f32[100000]", "f32[10000]"

    def rows(x: Any) -> Any:
        def step(k: Any, x: Any) -> Any:
            new = lax.dynamic_slice(x, (k, 0), (1, x.shape[1])) * 0.5 + 1
            return lax.dynamic_update_slice(x, new, (k + 1, 0))

        return lax.fori_loop(0, x.shape[0] - 1, step, x)

    yield "rows updated in place", rows, "f32[2000,256]"

    def collatz(n: Any) -> Any:
        def each(n: Any) -> Any:
            step = lambda c: (jnp.where(c[0] % 2 == 0, c[0] // 2, 3 * c[0] + 1), c[1] + 1)  # noqa: E731
            return lax.while_loop(lambda c: c[0] > 1, step, (n + 1, 0))[1]

        return jax.vmap(each)(n)

    yield "collatz of 4096", collatz, "s32[4096]<5000"


def _simulations() -> Iterator[tuple[Any, ...]]:
    def bodies(x: Any, v: Any, m: Any) -> Any:
        def step(_: Any, xv: Any) -> Any:
            x, v = xv
            d = x[None] - x[:, None]
            pull = (d * (m[None, :, None] / ((d**2).sum(-1, keepdims=True) + 0.1) ** 1.5)).sum(1)
            v = v + 1e-3 * pull
            return x + 1e-3 * v, v

        return lax.fori_loop(0, 20, step, (x, v))

    yield "n-body 256", bodies, "f32[256,3]", "f32[256,3]", "f32[256]"

    def life(board: Any) -> Any:
        def step(_: Any, b: Any) -> Any:
            around = [jnp.roll(b, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)]
            count = sum(around[1:], around[0]) - b
            return ((count == 3) | ((b == 1) & (count == 2))).astype(b.dtype)

        return lax.fori_loop(0, 50, step, board)

    yield "life 256, s32", life, "s32[256,256]<2"
    yield "life 256, s8", life, "s8[256,256]<2"

    yield from _samplers()
    yield from _fields()


def _samplers() -> Iterator[tuple[Any, ...]]:
    def metropolis(x: Any, moves: Any, draws: Any) -> Any:
        energy = lambda x: (x**2).sum(-1) + jnp.cos(3 * x).sum(-1)  # noqa: E731

        def step(x: Any, md: Any) -> Any:
            y = x + 0.1 * md[0]
            take = jnp.log(jnp.abs(md[1]) + 1e-9) < energy(x) - energy(y)
            return jnp.where(take[:, None], y, x), None

        return lax.scan(step, x, (moves, draws))[0]

    shapes = ("f32[64,8]", "f32[500,64,8]", "f32[500,64]")
    yield "metropolis", metropolis, *shapes

    def hamiltonian(q: Any, p: Any) -> Any:
        force = jax.grad(lambda q: -(q**2).sum() / 2 - (q[1:] * q[:-1]).sum() / 10)

        def step(_: Any, qp: Any) -> Any:
            q, p = qp
            p = p + 5e-3 * force(q)
            q = q + 1e-2 * p
            return q, p + 5e-3 * force(q)

        return lax.fori_loop(0, 1000, step, (q, p))

    yield "leapfrog of 100", hamiltonian, "f32[100]", "f32[100]"


def _fields() -> Iterator[tuple[Any, ...]]:
    def waves(u: Any, v: Any) -> Any:
        def step(_: Any, uv: Any) -> Any:
            u, v = uv
            around = sum(jnp.roll(u, s, a) for s in (1, -1) for a in (0, 1)) - 4 * u
            v = v + 0.1 * around
            return u + 0.1 * v, v

        return lax.fori_loop(0, 50, step, (u, v))

    yield "waves 256", waves, "f32[256,256]", "f32[256,256]"

    def diffusion(u: Any, v: Any) -> Any:
        pad = lambda x: jnp.pad(x, 1, mode="wrap")  # noqa: E731

        def around(x: Any) -> Any:
            y = pad(x)
            return y[:-2, 1:-1] + y[2:, 1:-1] + y[1:-1, :-2] + y[1:-1, 2:] - 4 * x

        def step(_: Any, uv: Any) -> Any:
            u, v = uv
            r = u * v * v
            return (u + 0.1 * around(u) - r + 0.05 * (1 - u), v + 0.05 * around(v) + r - 0.1 * v)

        return lax.fori_loop(0, 50, step, (u * 0.1, v * 0.1))

    yield "reaction and diffusion 200", diffusion, "f32[200,200]", "f32[200,200]"
    mandel = lambda x, y: lax.fori_loop(  # noqa: E731
        0, 50, lambda _, z: (z[0] ** 2 - z[1] ** 2 + x, 2 * z[0] * z[1] + y), (x, y)
    )
    yield "mandelbrot", mandel, "f32[512,512]", "f32[512,512]"


def _small_algebra() -> Iterator[tuple[Any, ...]]:
    yield "3x3 products", lambda a, b: a @ b, "f32[50000,3,3]", "f32[50000,3,3]"
    yield "3x3 inverses", jnp.linalg.inv, "f32[10000,3,3]"
    yield (
        "3x3 solves",
        lambda a, b: jnp.linalg.solve(a, b[..., None]),
        "f32[10000,3,3]",
        "f32[10000,3]",
    )
    yield "3x3 determinants", jnp.linalg.det, "f32[20000,3,3]"
    chain = lambda xs: lax.scan(lambda m, x: ((k := m @ x * 0.5), k), jnp.eye(3), xs)[1]  # noqa: E731
    yield "chain of 3x3 products", chain, "f32[5000,3,3]"
    chol = lambda a: jnp.linalg.cholesky(a @ a.swapaxes(-1, -2) + 6 * jnp.eye(6))  # noqa: E731
    yield "6x6 choleskys", chol, "f32[5000,6,6]"
    rotate = lambda q, x: x + 2 * jnp.cross(q[:, :3], jnp.cross(q[:, :3], x) + q[:, 3:] * x)  # noqa: E731
    yield "quaternions turn", rotate, "f32[100000,4]", "f32[100000,3]"


def main() -> None:
    contest(iterations(), __doc__)


if __name__ == "__main__":
    main()
