"""Weights of JAX functions by name: the leaves of arguments that are parameters of a model.

The name of a leaf is its path: `params.Dense_0.kernel` of flax.linen's dicts, `conv.kernel` of the
state that `nnx.split` gives.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import numpy as np

from hloom.aot.tensors import NamedWeights
from hloom.api import UsageError

Numbers = int | Iterable[int] | None


def named_leaves(
    jax: Any,
    function: Any,
    arguments: tuple[Any, ...],
    weights: Numbers | Mapping[str, Numbers],
    static: Collection[int],
    as_array: Callable[[Any], np.ndarray[Any, Any]],
) -> NamedWeights:
    """Which leaves of which functions are weights, and those values that are there. `jax` is the
    module, which this room does not import."""
    functions = {"": (function, *arguments)}
    if isinstance(function, Mapping):
        functions = dict(function)
    of_each: Any = weights if isinstance(weights, Mapping) else dict.fromkeys(functions, weights)
    chosen: Mapping[str, Numbers] = of_each
    if unknown := sorted(set(chosen) - set(functions)):
        raise UsageError(f"weight_argnums names no function {unknown[0]}", rule="library-entries")
    names: dict[str, Mapping[int, str]] = {}
    values: dict[str, np.ndarray[Any, Any]] = {}
    for key, (f, *positional) in functions.items():
        numbers = chosen.get(key)
        numbers = [] if numbers is None else [numbers] if isinstance(numbers, int) else numbers
        names[key] = _of_function(jax, f, positional, numbers, static, as_array, values)
    if values and len(values) < len({n for of in names.values() for n in of.values()}):
        raise UsageError(
            "some weights are arrays and others are shapes only: a file is written of all or none",
            rule="weights-by-name",
        )
    return NamedWeights(names, values)


def _of_function(
    jax: Any,
    function: Any,
    positional: list[Any],
    numbers: Iterable[int],
    static: Collection[int],
    as_array: Callable[[Any], np.ndarray[Any, Any]],
    values: dict[str, np.ndarray[Any, Any]],
) -> dict[int, str]:
    """The names of one function's weights by the number of the leaf; their values are added."""
    count = len(positional)
    fixed = {n % count for n in static if -count <= n < count}
    wanted = {n % count if -count <= n < count else n for n in numbers}
    if wrong := sorted(wanted & fixed | {n for n in wanted if n >= count or n < 0}):
        raise UsageError(
            f"argument {wrong[0]} cannot be weights: there are {count}, and static ones are none",
            rule="weights-by-name",
        )
    names: dict[int, str] = {}
    number = 0
    for k, argument in enumerate(positional):
        if k in fixed:
            continue
        for path, leaf in jax.tree_util.tree_flatten_with_path(argument)[0]:
            if k in wanted:
                name = _name(jax, path) or _parameter(function, k)
                if name in names.values():
                    raise UsageError(
                        f"two weights are called {name}",
                        rule="weights-by-name",
                        hint="pass them as one argument, a dict of both",
                    )
                names[number] = name
                if not isinstance(leaf, jax.ShapeDtypeStruct):
                    values[name] = as_array(leaf)
            number += 1
    return names


def _name(jax: Any, path: Any) -> str:
    """The path of a leaf; the attribute in which flax keeps an array is no part of it."""
    keys = list(path)
    if len(keys) > 1 and getattr(keys[-1], "name", "") in ("value", "raw_value"):
        keys.pop()
    return jax.tree_util.keystr(tuple(keys), simple=True, separator=".")


def _parameter(function: Any, number: int) -> str:
    """What the function calls an argument that is one array."""
    try:
        return list(inspect.signature(function).parameters)[number]
    except (TypeError, ValueError, IndexError):
        return f"argument{number}"
