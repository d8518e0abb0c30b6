"""Odd values to put into graphs: other integers, shapes, literals, attributes."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from hloom.types.dtype import BY_NAME, DType
from hloom.types.layout import default_layout, layout
from hloom.types.literal import Literal
from hloom.types.shape import (
    OPAQUE_SHAPE,
    TOKEN_SHAPE,
    UNBOUNDED,
    Shape,
    buffer_shape,
    shape,
    tuple_shape,
)

HUGE = (2**31 - 1, 2**31, 2**32, 10**12, 2**62, 2**63 - 1)
SMALL = (0, 0, 1, 1, 2, 3, 4, 5, 7, -1, -1, -2)
NAMES = ("", "x", "add", "%y", "a b", "é", "{", "\n", "0", "x" * 300, "constant")
TYPES = tuple(t for t in BY_NAME.values() if t.is_array_element)


def odd_integer(old: int, rng: random.Random) -> int:
    near = (old + 1, old - 1, 2 * old, -old, old)
    return rng.choice((*near, *SMALL, rng.choice(HUGE), -rng.choice(HUGE)))


def odd_shape(old: Shape, rng: random.Random) -> Shape:
    """Another shape, often close to the old one."""
    kind = rng.random()
    if kind < 0.08:
        return rng.choice(
            (TOKEN_SHAPE, OPAQUE_SHAPE, tuple_shape(()), tuple_shape((old,)), shape("f32"))
        )
    if old.is_tuple:
        parts = list(old.elements)
        if parts and kind < 0.7:
            at = rng.randrange(len(parts))
            parts[at] = odd_shape(parts[at], rng)
        elif parts and kind < 0.85:
            del parts[rng.randrange(len(parts))]
        else:
            parts.append(parts[0] if parts else shape("s32", (2,)))
        return tuple_shape(parts)
    if not old.is_array:
        return shape("f32", (2,))
    if kind < 0.12:
        return buffer_shape(old)
    if kind < 0.35:
        return old.with_dtype(rng.choice(TYPES))
    if kind < 0.45:
        order = list(range(old.rank))
        rng.shuffle(order)
        changed = tuple(order) if rng.random() < 0.6 else odd_tuple(tuple(order), rng)
        return old.with_layout(layout(changed, memory_space=rng.choice((0, 0, 0, 5, 1))))
    if kind < 0.55:
        flags = tuple(rng.random() < 0.5 for _ in old.dims)
        dims = tuple(UNBOUNDED if f and rng.random() < 0.1 else d for f, d in zip(flags, old.dims))
        return shape(old.dtype, dims, old.layout, flags)
    dims = list(old.dims)
    if dims and kind < 0.85:
        at = rng.randrange(len(dims))
        dims[at] = odd_integer(dims[at], rng)
    elif dims and kind < 0.92:
        del dims[rng.randrange(len(dims))]
    else:
        dims.insert(rng.randrange(len(dims) + 1), rng.choice((*SMALL, *HUGE)))
    if rng.random() < 0.8:
        dims = [max(0, d) for d in dims]
    flags = old.dynamic if len(dims) == old.rank else ()
    given = old.layout if rng.random() < 0.1 else default_layout(len(dims))
    return shape(old.dtype, tuple(dims), given, flags)


def odd_tuple(old: tuple, rng: random.Random) -> tuple:
    """A tuple changed in one place, shortened, lengthened or reordered."""
    parts = list(old)
    kind = rng.random()
    if not parts:
        return ()
    at = rng.randrange(len(parts))
    if kind < 0.5:
        parts[at] = odd_value(parts[at], rng)
    elif kind < 0.6:
        del parts[at]
    elif kind < 0.7:
        parts.insert(at, parts[at])
    elif kind < 0.85:
        rng.shuffle(parts)
    elif kind < 0.9:
        parts = []
    else:
        parts[at] = parts[rng.randrange(len(parts))]
    return tuple(parts)


def odd_value(old: Any, rng: random.Random) -> Any:
    """Another value of the same Python type; the old one where none is known."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return odd_integer(old, rng)
    if isinstance(old, float):
        return rng.choice((0.0, -1.0, 1e300, float("inf"), float("nan")))
    if isinstance(old, str):
        return rng.choice(NAMES)
    if isinstance(old, DType):
        return rng.choice(TYPES)
    if isinstance(old, Shape):
        return odd_shape(old, rng)
    if isinstance(old, Literal):
        return odd_literal(old, rng)
    if type(old) is tuple:
        return odd_tuple(old, rng)
    if dataclasses.is_dataclass(old) and not isinstance(old, type):
        names = [f.name for f in dataclasses.fields(old) if f.init]
        if names:
            name = rng.choice(names)
            return dataclasses.replace(old, **{name: odd_value(getattr(old, name), rng)})
    return old


def odd_literal(old: Literal, rng: random.Random) -> Literal:
    """Values that do not fit where they stand: another type, another size, a tuple."""
    kind = rng.random()
    if kind < 0.3 and old.shape.is_array:
        return Literal.of(rng.choice((0, 1, 5)), rng.choice(TYPES))
    if kind < 0.5:
        return Literal(tuple_shape((old.shape,)), None, (old,))
    if kind < 0.6:
        return Literal.token()
    if kind < 0.7:
        return Literal(tuple_shape(()), None, ())
    return Literal.of([rng.choice((0, 1, 2))] * rng.choice((0, 1, 3)), "s32")
