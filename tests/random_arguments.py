"""Random arguments for a module, drawn so that most programs do something sensible with them.

Integers are small and not negative, so that they are valid as indices and sizes more often than
not; floats are near one, so that sums and products neither vanish nor overflow.
"""

from typing import Any

import numpy as np


def random_arguments(module: Any, rng: np.random.Generator) -> list[Any]:
    """One numpy array, or nested tuple of them, for each entry parameter."""
    return [random_value(p.shape, rng) for p in module.entry.parameters]


def arguments_on_devices(module: Any, rng: np.random.Generator) -> list[list[Any]]:
    """Arguments for each device of a module; parameters that are said to be replicated have the
    same on all."""
    devices = getattr(module, "replica_count", 1) * getattr(module, "num_partitions", 1)
    lists = [random_arguments(module, rng) for _ in range(devices)]
    for k, p in enumerate(module.entry.parameters):
        if is_replicated(p):
            for arguments in lists:
                arguments[k] = lists[0][k]
    return lists


def is_replicated(parameter: Any) -> bool:
    """Whether a parameter says that all devices have the same."""
    leaves = (parameter.extra or {}).get("parameter_replication", ())
    if leaves and all(leaves):
        return True
    return parameter.sharding is not None and parameter.sharding.kind == "replicated"


def random_value(shape: Any, rng: np.random.Generator) -> Any:
    """A value of a shape: an array of its dims, or a tuple of the elements' values."""
    if shape.is_tuple:
        return tuple(random_value(element, rng) for element in shape.elements)
    dtype = shape.dtype
    if dtype.is_pred:
        return rng.integers(0, 2, shape.dims).astype(np.bool_)
    if dtype.is_integral:
        largest = min(8, 2 ** (dtype.bits - (1 if dtype.is_signed_int else 0)))
        return rng.integers(0, largest, shape.dims).astype(dtype.numpy)
    values = rng.normal(size=shape.dims)
    if dtype.is_complex:
        values = values + 1j * rng.normal(size=shape.dims)
    return np.asarray(values).astype(dtype.numpy)
