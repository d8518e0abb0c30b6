"""Programs written in JAX, by name: a function and the arguments to lower and run it with."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import ml_dtypes
import numpy as np

jax.config.update("jax_enable_x64", True)


class Program(NamedTuple):
    """`slack` multiplies the tolerance where a formula loses digits by nature."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    slack: float = 1.0


PROGRAMS: dict[str, Program] = {}


def add(name: str, function: Callable[..., Any], *arguments: Any, slack: float = 1.0) -> None:
    """Make a program known; names tell the family before the first slash."""
    if name in PROGRAMS:
        raise ValueError(f"two programs are called {name}")
    PROGRAMS[name] = Program(function, arguments, slack)


def element_type(name: str) -> np.dtype:
    """A numpy type by its name there or in ml_dtypes."""
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def normal(*dims: int, of: str = "float32", seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Standard normal numbers; complex types get two of them, integers their rounding."""
    rng = np.random.default_rng([seed, *dims])
    numbers = rng.standard_normal(dims) * scale
    dtype = element_type(of)
    if dtype.kind == "c":
        return np.asarray(numbers + 1j * rng.standard_normal(dims) * scale).astype(dtype)
    if dtype.kind in "iub" or "int" in dtype.name:
        return whole(*dims, of=of, seed=seed)
    return np.asarray(numbers).astype(dtype)


def uniform(*dims: int, of: str = "float32", low: float = 0.1, high: float = 0.9, seed: int = 0):
    """Numbers evenly spread over an interval."""
    rng = np.random.default_rng([seed, *dims, 1])
    return np.asarray(rng.uniform(low, high, dims)).astype(element_type(of))


def whole(*dims: int, of: str = "int32", low: int | None = None, high: int = 7, seed: int = 0):
    """Integers from low to high, both included; low is -high, or 0 for types without a sign."""
    dtype = element_type(of)
    unsigned = dtype.kind in "ub" or dtype.name.startswith("uint")
    if dtype.name in ("int2", "uint2"):
        high = 1
    low = (0 if unsigned else -high) if low is None else low
    rng = np.random.default_rng([seed, *dims, 2])
    return np.asarray(rng.integers(low, high, dims, endpoint=True)).astype(dtype)


def raw(*dims: int, of: str = "uint32", seed: int = 0) -> np.ndarray:
    """Any bits at all: every special value of a float, every extreme of an integer."""
    dtype = element_type(of)
    rng = np.random.default_rng([seed, *dims, 3])
    count = int(np.prod(dims)) * dtype.itemsize
    highest = 15 if "float4" in of else 255
    numbers = rng.integers(0, highest, count, dtype=np.uint8, endpoint=True)
    return numbers.view(dtype).reshape(dims)


def special(of: str = "float32") -> np.ndarray:
    """Zeros, infinities, nan, halves, extremes and subnormal numbers of a float type."""
    dtype = element_type(of)
    info = ml_dtypes.finfo(dtype)
    numbers = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.3, -3.7, 7.0]
    numbers += [np.inf, -np.inf, np.nan, float(info.max), float(info.min), float(info.tiny)]
    return np.asarray(numbers).astype(dtype)
