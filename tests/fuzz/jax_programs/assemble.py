"""The JAX program of a number: a chain of steps, and what is done to it.

`drawn(number)` sets `jax_enable_x64` as the program wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.fuzz.jax_programs import (  # noqa: F401  each adds its steps to the table
    elementwise,
    folds,
    indices,
    layers,
    loops,
    moves,
    products,
    sciences,
)
from tests.fuzz.jax_programs.sketch import STEPS, Sketch, Step, Unfit, kind_of_type

MOST_ELEMENTS = 1 << 24
MOST_OUTPUTS = 12
REFUSALS = (Unfit, TypeError, ValueError, NotImplementedError, IndexError, ZeroDivisionError)
"""What JAX raises while it traces a step that does not fit."""

Function = Callable[..., tuple[Any, ...]]


@dataclass
class Program:
    """A function of arrays, what it is called with, and how."""

    f: Function
    args: list[np.ndarray]
    label: str
    donated: tuple[int, ...]
    x64: bool
    has_bits: bool


def drawn(number: int) -> Program:
    """The program of a number."""
    for attempt in range(100):
        d = Sketch(number * 1000 + attempt)
        jax.config.update("jax_enable_x64", d.x64)
        try:
            return _program(d)
        except REFUSALS:
            continue
    raise Unfit(f"nothing fits for {number}")


def _program(d: Sketch) -> Program:
    chain = _Chain(d)
    chain.begin()
    for _ in range(d.pick((0, 1, 1, 2, 2, 3, 3, 4, 6, 9))):
        chain.go_on()
    if not chain.names:
        raise Unfit
    label, f = ["+".join(chain.names)], chain.function
    _ = shapes(f, d.args)
    for _ in range(d.pick((0, 0, 1, 2, 2, 3))):  # some do not fit
        name, wrap = d.pick(WRAPS)
        args = list(d.args)
        try:
            wrapped = wrap(d, f)
            outs = shapes(wrapped, d.args)
        except REFUSALS:
            d.args = args
            continue
        if outs and sum(o.size for o in outs) <= 2 * MOST_ELEMENTS:
            f, label = wrapped, [name, *label]
        else:
            d.args = args
    donated = tuple(k for k in range(len(d.args)) if d.chance(0.4)) if d.chance(0.2) else ()
    return Program(f, d.args, " of ".join(label), donated, d.x64, d.has_bits)


def shapes(f: Function, args: Sequence[np.ndarray]) -> tuple[Any, ...]:
    """Of what a function returns."""
    return jax.eval_shape(f, *(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in args))


class _Chain:
    """Steps, each of which goes on from what the one before made."""

    def __init__(self, d: Sketch) -> None:
        self.d = d
        self.links: list[tuple[Callable[..., Any], int, bool]] = []
        self.names: list[str] = []
        self.x: Any = None
        self.only_same = d.chance(0.15)

    def begin(self) -> None:
        d = self.d
        if d.chance(0.45):
            while not self.names:
                self._try(_picked(d, [s for s in STEPS.values() if s.fresh]))
            return
        k = d.arg(d.shape(d.pick((0, 1, 1, 2, 2, 2, 3, 3, 4))), d.main)
        self.x = d.aval(k)
        self.links.append((lambda env, _: env[k], 0, False))

    def go_on(self) -> None:
        kind = kind_of_type(self.x.dtype)
        fits = [
            s
            for s in STEPS.values()
            if not s.fresh and kind in s.kinds and (s.keeps_shape or not self.only_same)
        ]
        for _ in range(4):
            if self._try(_picked(self.d, fits)):
                return

    def _try(self, step: Step) -> bool:
        args = len(self.d.args)
        try:
            f = step.draw(self.d, self.x)
            made = jax.eval_shape(lambda env, x: f(env, x), list(self.d.args), self.x)
            leaves = jax.tree.leaves(made)
            if not leaves or any(v.size > MOST_ELEMENTS or not v.size for v in leaves):
                raise Unfit
        except REFUSALS:
            del self.d.args[args:]
            return False
        chosen = self.d.between(0, len(leaves) - 1)
        self.links.append((f, chosen, self.d.chance(0.7)))
        self.names.append(step.name)
        self.x = leaves[chosen]
        return True

    def function(self, *env: Any) -> tuple[Any, ...]:
        """The program: the last array, and what steps made beside it."""
        x, beside = None, []
        for f, chosen, kept in self.links:
            leaves = jax.tree.leaves(f(env, x))
            x = leaves.pop(chosen)
            beside += leaves if kept else []
        return (x, *beside)[:MOST_OUTPUTS]


def _picked(d: Sketch, steps: list[Step]) -> Step:
    weights = np.array([s.weight for s in steps])
    return steps[int(d.rng.choice(len(steps), p=weights / weights.sum()))]


# -- what is done to a program: each takes the sketch and a function of its arguments, may add
# arguments, and answers another function


def _floats(args: Sequence[Any]) -> list[int]:
    found = [k for k, a in enumerate(args) if kind_of_type(a.dtype) == "f"]
    if not found:
        raise Unfit
    return found


def _of_floats(f: Function, args: Sequence[Any], which: Sequence[int]) -> Function:
    """The function of its arguments of floats alone; of its results, those of floats."""

    def g(*values: Any) -> tuple[Any, ...]:
        env = list(args)
        for k, v in zip(which, values):
            env[k] = v
        return tuple(o for o in f(*env) if kind_of_type(o.dtype) == "f")

    return g


def _loss(outs: Sequence[Any]) -> Any:
    total: Any = 0.0
    for o in outs:
        o = o.astype(jnp.promote_types(o.dtype, jnp.float32))
        if o.ndim:
            waves = lax.broadcasted_iota(jnp.int32, o.shape, o.ndim - 1) % 7
            o = jnp.mean(o * (1 + waves.astype(o.dtype)))
        total = total + o
    if isinstance(total, float):
        raise Unfit  # no result has a slope
    return total


def gradient(d: Sketch, f: Function, remat: bool = False) -> Function:
    which = _floats(d.args)
    few = [k for k in which if d.chance(0.8)] or which

    def g(*args: Any) -> tuple[Any, ...]:
        inner = _of_floats(jax.checkpoint(f) if remat else f, args, few)
        value, found = jax.value_and_grad(lambda v: _loss(inner(*v)))([args[k] for k in few])
        return (value, *found)[:MOST_OUTPUTS]

    return g


def remat_gradient(d: Sketch, f: Function) -> Function:
    return gradient(d, f, remat=True)


def forward(d: Sketch, f: Function) -> Function:
    which = _floats(d.args)

    def g(*args: Any) -> tuple[Any, ...]:
        values = [args[k] for k in which]
        outs, slopes = jax.jvp(_of_floats(f, args, which), values, [jnp.cos(v) for v in values])
        return (*outs, *slopes)[:MOST_OUTPUTS]

    return g


def _batched(d: Sketch, count: int, some: float) -> list[bool]:
    """Give some arguments so many rows; which."""
    total = sum(a.size for a in d.args)
    if total * count > MOST_ELEMENTS:
        raise Unfit
    spread = [d.chance(some) for _ in d.args]
    spread[d.between(0, len(spread) - 1)] = True
    for k, wide in enumerate(spread):
        if wide:
            d.args[k] = _rows(d, d.args[k], count)
    return spread


def _rows(d: Sketch, a: np.ndarray, count: int) -> np.ndarray:
    """Copies of an argument that differ, and stay what it was: in range, or sorted."""
    flat = a.ravel()
    if kind_of_type(a.dtype) in "fc":
        factors = 1 + 0.1 * d.rng.random(count)
        return np.stack([(a * s).astype(a.dtype) for s in factors])
    if a.ndim == 0 or bool(np.all(flat[1:] >= flat[:-1])):
        return np.stack([a] * count)
    return np.stack([np.roll(a, s) for s in range(count)])


def batch(d: Sketch, f: Function) -> Function:
    spread = _batched(d, d.pick((1, 2, 3, 5, 8, 17)), 0.75)
    return jax.vmap(f, in_axes=tuple(0 if s else None for s in spread))


def _scalar(outs: Sequence[Any]) -> Any:
    for o in outs:
        if kind_of_type(o.dtype) == "f":
            return jnp.mean(o.astype(jnp.promote_types(o.dtype, jnp.float32)))
    return jnp.zeros((), jnp.float32)


def scan(d: Sketch, f: Function) -> Function:
    spread = _batched(d, d.pick((1, 2, 3, 7)), 0.6)

    def g(*args: Any) -> tuple[Any, ...]:
        def body(c: Any, rows: Any) -> Any:
            it = iter(rows)
            outs = f(*(next(it) if s else a for s, a in zip(spread, args)))
            return c * 0.5 + _scalar(outs).astype(c.dtype), outs

        xs = [a for s, a in zip(spread, args) if s]
        wide = jnp.result_type(jnp.float32, *(a for a in args if kind_of_type(a.dtype) == "f"))
        last, outs = lax.scan(body, jnp.zeros((), wide), xs)
        return (last, *outs)[:MOST_OUTPUTS]

    return g


def loop(d: Sketch, f: Function) -> Function:
    """The first result goes in again for an argument of its shape."""
    first = shapes(f, d.args)[0]
    same = [k for k, a in enumerate(d.args) if a.shape == first.shape and a.dtype == first.dtype]
    if not same:
        raise Unfit
    k, rounds = d.pick(same), d.between(1, 5)

    def g(*args: Any) -> tuple[Any, ...]:
        def body(_: Any, x: Any) -> Any:
            y = f(*args[:k], x, *args[k + 1 :])[0]
            return jnp.tanh(y) if kind_of_type(y.dtype) == "f" else y

        return (lax.fori_loop(0, rounds, body, args[k]),)

    return g


def condition(d: Sketch, f: Function) -> Function:
    d.args.append(np.asarray(d.chance(0.5)))

    def g(*args: Any) -> tuple[Any, ...]:
        twice = lambda *a: tuple(o + o for o in f(*a))  # noqa: E731
        return lax.cond(args[-1], f, twice, *args[:-1])

    return g


def nested(d: Sketch, f: Function) -> Function:
    inner = jax.jit(f)

    def g(*args: Any) -> tuple[Any, ...]:
        first = inner(*args)
        again = inner(*(a * 0.5 if kind_of_type(a.dtype) == "f" else a for a in args))
        return (*first, *again)[:MOST_OUTPUTS]

    return g


WRAPS = (
    *[("grad", gradient)] * 6,
    *[("vmap", batch)] * 4,
    *[("scan", scan)] * 3,
    *[("jvp", forward)] * 2,
    *[("fori_loop", loop)] * 2,
    ("cond", condition),
    ("remat", remat_gradient),
    ("jit", nested),
)
