"""Loops over tables, grids, particles and chains."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.kernels.families.draw import Draw


def _tables(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp
    from jax import lax

    def relaxed(d: Any) -> Any:
        relax = lambda k, d: jnp.minimum(d, d[:, k, None] + d[None, k, :])  # noqa: E731
        return lax.fori_loop(0, d.shape[0], relax, d)

    n = draw.one([33, 100, 128, 256])
    yield "floyd and warshall", relaxed, f"f32[{n},{n}]<9"

    def closure(a: Any) -> Any:
        reach = lambda k, a: a | (a[:, k, None] & a[None, k, :])  # noqa: E731
        return lax.fori_loop(0, a.shape[0], reach, a)

    yield "transitive closure", closure, f"pred[{n},{n}]"

    def edit(a: Any, b: Any) -> Any:
        places = jnp.arange(b.shape[0] + 1)

        def row(before: Any, x: Any) -> Any:
            least = jnp.minimum(before[1:] + 1, before[:-1] + (b != x))
            least = jnp.concatenate([before[:1] + 1, least])
            return lax.cummin(least - places) + places, None

        return lax.scan(row, places, a)[0][-1]

    yield "edit distance by rows", edit, "s32[200]<9", f"s32[{draw.one([100, 300])}]<9"


def _sequences(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def common(a: Any, b: Any) -> Any:
        def row(before: Any, x: Any) -> Any:
            def cell(left: Any, ypq: Any) -> Any:
                y, up, corner = ypq
                best = jnp.where(x == y, corner + 1, jnp.maximum(left, up))
                return best, best

            return (
                jnp.pad(lax.scan(cell, 0, (b, before[1:], before[:-1]))[1], (1, 0)),
                None,
            )

        return lax.scan(row, jnp.zeros(b.shape[0] + 1, jnp.int32), a)[0][-1]

    yield "common subsequence", common, "s32[150]<9", "s32[150]<9"

    def warped(x: Any, y: Any) -> Any:
        def row(before: Any, a: Any) -> Any:
            def cell(left: Any, bpq: Any) -> Any:
                b, up, corner = bpq
                best = jnp.abs(a - b) + jnp.minimum(jnp.minimum(left, up), corner)
                return best, best

            cells = lax.scan(cell, jnp.float32(1e9), (y, before[1:], before[:-1]))[1]
            return jnp.concatenate([jnp.full(1, 1e9), cells]), None

        first = jnp.full(y.shape[0] + 1, 1e9).at[0].set(0)
        return lax.scan(row, first, x)[0][-1]

    yield "time warping", warped, "f32[150]", "f32[150]"
    yield "time warping of 8", jax.vmap(warped), "f32[8,100]", "f32[8,100]"


def _updated(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp
    from jax import lax

    def coins(values: Any) -> Any:
        def coin(ways: Any, v: Any) -> Any:
            add = lambda k, w: w.at[k].add(jnp.where(k >= v, w[jnp.maximum(k - v, 0)], 0))  # noqa: E731
            return lax.fori_loop(1, ways.shape[0], add, ways), None

        return lax.scan(coin, jnp.zeros(1000).at[0].set(1), values + 1)[0]

    yield "coins", coins, "s32[10]<50"

    def bellman(weight: Any, a: Any, b: Any) -> Any:
        def step(_: Any, d: Any) -> Any:
            return d.at[b].min(d[a] + weight)

        return lax.fori_loop(0, 60, step, jnp.full(500, 1e9).at[0].set(0))

    yield "bellman and ford", bellman, "f32[3000]<9", "s32[3000]<500", "s32[3000]<500"

    def insertion(x: Any) -> Any:
        def swap(i: Any, x: Any) -> Any:
            a, b = x[i], x[i + 1]
            return x.at[i].set(jnp.minimum(a, b)).at[i + 1].set(jnp.maximum(a, b))

        once = lambda _, x: lax.fori_loop(0, x.shape[0] - 1, swap, x)  # noqa: E731
        return lax.fori_loop(0, x.shape[0], once, x)

    yield "bubbles", insertion, "f32[120]"


def _grids(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp
    from jax import lax

    def life(board: Any) -> Any:
        def step(b: Any, _: Any) -> Any:
            p = jnp.pad(b, 1, mode="wrap")
            n, m = b.shape
            around = sum(p[i : i + n, j : j + m] for i in range(3) for j in range(3)) - b
            b = ((around == 3) | ((b == 1) & (around == 2))).astype(b.dtype)
            return b, b.sum()

        return lax.scan(step, board, None, 40)

    n = draw.one([64, 100, 256, 300])
    for kind in ("s32", "u8"):
        yield f"life of {kind}", life, f"{kind}[{n},{n}]<2"

    def rule(cells: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            code = 4 * jnp.roll(c, 1) + 2 * c + jnp.roll(c, -1)
            return (110 >> code) & 1, c

        return lax.scan(step, cells, None, 200)[1]

    yield "rule 110", rule, f"s32[{draw.one([100, 1000])}]<2"


def _waves(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp
    from jax import lax

    n = draw.one([64, 100, 256, 300])

    def wave(u: Any) -> Any:
        def step(_: Any, uv: Any) -> Any:
            u, v = uv
            p = jnp.pad(u, 1)
            around = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u
            v = 0.99 * v + 0.1 * around
            return u + v, v

        return lax.fori_loop(0, 60, step, (u, 0 * u))[0]

    def gray(u: Any, v: Any) -> Any:
        around = lambda x: (  # noqa: E731
            jnp.roll(x, 1, 0) + jnp.roll(x, -1, 0) + jnp.roll(x, 1, 1) + jnp.roll(x, -1, 1) - 4 * x
        )

        def step(_: Any, uv: Any) -> Any:
            u, v = uv
            r = u * v * v
            return u + 0.16 * around(u) - r + 0.035 * (1 - u), v + 0.08 * around(v) + r - 0.1 * v

        return lax.fori_loop(0, 50, step, (u, v))

    def ising(spins: Any, draws: Any) -> Any:
        n, m = spins.shape
        black = (jnp.arange(n)[:, None] + jnp.arange(m)[None]) % 2

        def half(s: Any, r: Any, of: int) -> Any:
            around = jnp.roll(s, 1, 0) + jnp.roll(s, -1, 0) + jnp.roll(s, 1, 1) + jnp.roll(s, -1, 1)
            flip = (r < jnp.exp(-0.8 * s * around)) & (black == of)
            return jnp.where(flip, -s, s)

        step = lambda s, r: (half(half(s, r, 0), 1 - r, 1), s.mean())  # noqa: E731
        return lax.scan(step, jnp.sign(spins), draws)

    shape = f"f32[{n},{n}]"
    yield "wave", wave, shape
    yield "gray and scott", gray, f"{shape}<1", f"{shape}<1"
    yield "ising", ising, "f32[64,64]", "f32[50,64,64]<1"


def _chains(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def walk(seed: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            x, key = carry
            key, a, b = jax.random.split(key, 3)
            y = x + 0.5 * jax.random.normal(a, x.shape)
            energy = lambda x: (x**2).sum() / 2 + jnp.cos(x).sum()  # noqa: E731
            take = jnp.log(jax.random.uniform(b)) < energy(x) - energy(y)
            x = jnp.where(take, y, x)
            return (x, key), x

        return lax.scan(step, (jnp.zeros(dims), jax.random.PRNGKey(seed)), None, 300)[1]

    dims = draw.one([1, 4, 50])
    yield f"metropolis of {dims}", walk, "s32[]<99"

    def hamiltonian(x: Any, y: Any, seed: Any) -> Any:
        energy = lambda w: jax.nn.softplus(-y * (x @ w)).sum() + (w**2).sum() / 2  # noqa: E731
        force = jax.grad(energy)

        def leap(_: Any, qp: Any) -> Any:
            q, p = qp
            p = p - 5e-3 * force(q)
            q = q + 1e-2 * p
            return q, p - 5e-3 * force(q)

        def step(q: Any, key: Any) -> Any:
            a, b = jax.random.split(key)
            p = jax.random.normal(a, q.shape)
            new, momentum = lax.fori_loop(0, 10, leap, (q, p))
            change = energy(new) + (momentum**2).sum() / 2 - energy(q) - (p**2).sum() / 2
            q = jnp.where(jnp.log(jax.random.uniform(b)) < -change, new, q)
            return q, q

        keys = jax.random.split(jax.random.PRNGKey(seed), 30)
        return lax.scan(step, jnp.zeros(x.shape[1]), keys)[1]

    rows, n = draw.one([100, 400]), draw.one([3, 10, 30])
    yield "hamiltonian", hamiltonian, f"f32[{rows},{n}]", f"f32[{rows}]", "s32[]<99"


def _distributions(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def markov(p: Any) -> Any:
        p = jax.nn.softmax(p, 1)
        return lax.fori_loop(0, 200, lambda _, x: x @ p, jnp.ones(p.shape[0]) / p.shape[0])

    n = draw.one([10, 64, 200])
    yield "markov chain", markov, f"f32[{n},{n}]"
    ranks = lambda a: lax.while_loop(  # noqa: E731
        lambda c: (c[1] > 1e-7) & (c[2] < 100),
        lambda c: ((new := 0.85 * (a.T @ c[0]) / n + 0.15), jnp.abs(new - c[0]).sum(), c[2] + 1),
        (jnp.ones(n), jnp.float32(1), 0),
    )[0]
    yield "page rank", ranks, f"f32[{n},{n}]<1"

    def paths(noise: Any) -> Any:
        step = lambda s, z: (s * jnp.exp(-1e-3 + 0.05 * z), s)  # noqa: E731
        return jnp.maximum(lax.scan(step, jnp.ones(noise.shape[1]), noise)[1].mean(0) - 1, 0).mean()

    yield "option prices", paths, f"f32[100,{draw.one([1000, 20000])}]"

    def sinkhorn(c: Any) -> Any:
        def step(fg: Any, _: Any) -> Any:
            f, g = fg
            f = -0.5 * jax.nn.logsumexp((g[None] - c) / 0.5, 1)
            return (f, -0.5 * jax.nn.logsumexp((f[:, None] - c) / 0.5, 0)), None

        n, m = c.shape
        return lax.scan(step, (jnp.zeros(n), jnp.zeros(m)), None, 30)[0]

    yield "sinkhorn in logs", sinkhorn, f"f32[{draw.one([50, 128])},{draw.one([60, 200])}]<1"


def _bodies(draw: Draw) -> Iterator[tuple[Any, ...]]:
    import jax.numpy as jnp
    from jax import lax

    def verlet(x: Any, v: Any) -> Any:
        def pull(x: Any) -> Any:
            d = x[:, None] - x[None]
            r2 = (d**2).sum(-1) + 0.5
            return (d * (1 / r2**4 - 1 / r2**2)[..., None]).sum(1)

        def step(xv: Any, _: Any) -> Any:
            x, v = xv
            v = v + 5e-4 * pull(x)
            x = x + 1e-3 * v
            return (x, v + 5e-4 * pull(x)), (v**2).sum()

        return lax.scan(step, (x, v), None, 20)

    n, d = draw.one([10, 64, 150]), draw.one([2, 3])
    yield "bodies", verlet, f"f32[{n},{d}]", f"f32[{n},{d}]"

    def string(x: Any) -> Any:
        def step(xv: Any, _: Any) -> Any:
            x, v = xv
            stretch = jnp.diff(x, axis=0)
            force = jnp.pad(stretch, ((0, 1), (0, 0))) - jnp.pad(stretch, ((1, 0), (0, 0)))
            v = 0.999 * (v + 0.1 * force)
            return (x + 0.1 * v, v), x.mean(0)

        return lax.scan(step, (x, 0 * x), None, 300)

    yield "masses on springs", string, f"f32[{draw.one([10, 200])},3]"

    def pendulums(state: Any) -> Any:
        def step(s: Any, _: Any) -> Any:
            a, p = s[..., 0], s[..., 1]
            p = p - 0.01 * jnp.sin(a)
            return jnp.stack([a + 0.01 * p, p], -1), None

        return lax.scan(step, state, None, 300)[0]

    yield "pendulums", pendulums, f"f32[{draw.one([1, 100, 3000])},2]"

    def means(x: Any) -> Any:
        def step(_: Any, c: Any) -> Any:
            near = ((x[:, None] - c[None]) ** 2).sum(-1).argmin(1)
            mine = (near[:, None] == jnp.arange(c.shape[0])).astype(x.dtype)
            return (mine.T @ x) / (mine.sum(0)[:, None] + 1e-6)

        return lax.fori_loop(0, 20, step, x[:k])

    k = draw.one([4, 10])
    yield "k means", means, f"f32[{draw.one([500, 3000])},{draw.one([2, 8])}]"


FAMILIES = (_tables, _sequences, _updated, _grids, _waves, _chains, _distributions, _bodies)
