"""Random inputs for a module, such that running it makes sense.

Indices stay inside what they index, divisors are not zero, loops end soon, matrices to be
factorised can be: see `ranges.py`. Everything else is small and mixed, so that results stay far
from overflow and rounding differences stay small. Same module and seed, same inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError, HloError
from hloom.interp.ranges import ValueRange, value_ranges
from hloom.interp.values import default_memory_limit, nesting_limit, refused, value_bytes
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module, expect_module
from hloom.types.aligned import aligned_empty
from hloom.types.dtype import DType
from hloom.types.literal import Literal
from hloom.types.shape import UNBOUNDED, Shape

ANYTHING = ValueRange()
_UNBOUNDED_SIZE = 3
PIECE = 1 << 16
"""Elements drawn at a time; a multiple of 4, as numpy takes bytes from one draw of 32 bits."""
Empty = Callable[[Shape, tuple[int, ...]], np.ndarray]
"""What gives the memory of an array: its shape, and the sizes it has."""


def aligned(shape: Shape, sizes: tuple[int, ...]) -> np.ndarray:
    """An array with any values, where a program can use it as it stands."""
    return aligned_empty(sizes, shape.dtype.numpy)


def random_arguments(
    module: Module,
    seed: int = 0,
    memory_limit_bytes: int | None = None,
    *,
    empty: Empty = aligned,
) -> list[Literal]:
    """One literal for each parameter of the entry, in memory that `empty` gives.

    Dynamic dimensions get one fraction of their bound, the same everywhere, so that arrays that
    meet have equal sizes. Opaque parameters and more bytes than allowed (by default what an
    evaluation may hold) are an `EvalError`.
    """
    rng = np.random.default_rng(seed)
    _check(module, "random_arguments", memory_limit_bytes)
    try:
        ranges = value_ranges(module)
    except HloError:
        raise
    except Exception as error:
        raise refused(error, None) from error
    fraction = rng.uniform(0.3, 1.0)

    def drawn(p: Instruction, path: tuple[int, ...], shape: Shape) -> np.ndarray:
        sizes = _sizes(shape, fraction)
        about = ranges.get((p, path), ANYTHING)
        return random_array(shape.dtype, sizes, rng, about, empty(shape, sizes))

    with nesting_limit():
        return [_literal(p, p.shape, (), drawn) for p in module.entry.parameters]


def unset_arguments(
    module: Module, memory_limit_bytes: int | None = None, *, empty: Empty = aligned
) -> list[Literal]:
    """One literal for each parameter of the entry: whatever stands in the memory that `empty`
    gives, but no third truth value. Dynamic dimensions are at their bounds."""
    _check(module, "unset_arguments", memory_limit_bytes)

    def unset(p: Instruction, path: tuple[int, ...], shape: Shape) -> np.ndarray:
        array = empty(shape, _sizes(shape, 1.0))
        if shape.dtype.is_pred:
            array.fill(False)
        return array

    with nesting_limit():
        return [_literal(p, p.shape, (), unset) for p in module.entry.parameters]


def _check(module: Module, caller: str, memory_limit_bytes: int | None) -> None:
    """Refuse what has no arguments, or larger ones than so many bytes."""
    expect_module(module, caller)
    if module.entry_or_none is None:
        raise EvalError(f"module {module.name} has no entry computation")
    limit = default_memory_limit() if memory_limit_bytes is None else memory_limit_bytes
    check_memory_of(module.entry.parameters, limit)


def check_memory_of(parameters: Sequence[Instruction], limit: int) -> None:
    """Refuse parameters that cannot be filled in."""
    needed = 0
    for p in parameters:
        for leaf in p.shape.leaves():
            if leaf.is_array and any(size < 0 for size in leaf.dims) and not leaf.is_unbounded:
                raise EvalError(f"no array has the shape {leaf}", instruction=f"%{p.name}")
        needed += value_bytes(p.shape)
        if needed > limit:
            raise EvalError(
                f"random arguments would take {needed} bytes, more than the {limit} allowed",
                instruction=f"%{p.name}",
            )


def _literal(
    parameter: Instruction,
    shape: Shape,
    path: tuple[int, ...],
    array_of: Callable[[Instruction, tuple[int, ...], Shape], np.ndarray],
) -> Literal:
    if shape.is_tuple:
        parts = [
            _literal(parameter, part, (*path, k), array_of) for k, part in enumerate(shape.elements)
        ]
        return Literal(shape, None, tuple(parts))
    if shape.is_token:
        return Literal.token()
    if shape.is_buffer:
        shape = shape.elements[0]
    if not shape.is_array:
        raise EvalError(f"no values are known for {shape}", instruction=f"%{parameter.name}")
    try:
        array = array_of(parameter, path, shape)
    except (ValueError, MemoryError) as error:
        raise EvalError(
            f"no random {shape.text_without_layout} can be made: {error}",
            instruction=f"%{parameter.name}",
        ) from error
    return Literal.owning(array, shape)


def _sizes(shape: Shape, fraction: float) -> tuple[int, ...]:
    """Of an array whose dynamic dimensions have so much of their bounds."""
    return tuple(
        _dynamic_size(size, fraction) if shape.is_dynamic_dim(d) else size
        for d, size in enumerate(shape.dims)
    )


def _dynamic_size(bound: int, fraction: float) -> int:
    return _UNBOUNDED_SIZE if bound == UNBOUNDED else int(np.ceil(bound * fraction))


def random_array(
    dtype: DType,
    sizes: tuple[int, ...],
    rng: np.random.Generator,
    range_: ValueRange = ANYTHING,
    out: np.ndarray | None = None,
) -> np.ndarray:
    """An array of this type and these sizes that holds what is wanted; `out`, if it is given.

    By default floats and complex parts are standard normal, integers lie in -8..8 (0..8 without
    a sign, less for narrow types).
    """
    if out is None:
        out = np.empty(sizes, dtype.numpy)
    if dtype.is_pred:
        _fill(out, lambda n: rng.integers(0, 2, n))
    elif range_.matrix and len(sizes) >= 2 and sizes[-1] == sizes[-2]:
        out[...] = _matrix(dtype, sizes, rng, range_.matrix)
    elif dtype.is_integral:
        _fill_integers(out, dtype, rng, range_)
    elif dtype.is_complex:
        _fill(np.real(out), rng.standard_normal)
        _fill(np.imag(out), rng.standard_normal)
    else:
        _fill_floats(out, dtype, rng, range_)
    return out


def _fill(out: np.ndarray, draw: Callable[[int], np.ndarray], via: Any = None) -> None:
    """Draws the elements of an array in order, a piece at a time, each rounded to `via` first.

    So that no more memory is taken than the array has itself: numpy draws in 64 bits.
    """
    if not out.flags.c_contiguous:  # the parts of complex numbers
        flat: Any = out.flat
    else:
        flat = out.reshape(-1)
    for start in range(0, out.size, PIECE):
        piece = draw(min(PIECE, out.size - start))
        flat[start : start + PIECE] = piece if via is None else piece.astype(via).astype(out.dtype)


def _fill_floats(
    out: np.ndarray, dtype: DType, rng: np.random.Generator, range_: ValueRange
) -> None:
    via = np.float32 if dtype.bits < 32 else np.float64
    if range_.low is not None or range_.high is not None:
        low = range_.low if range_.low is not None else min(-1.0, range_.high or 0.0)
        high = range_.high if range_.high is not None else max(1.0, low + 1.0)
        _fill(out, lambda n: rng.uniform(low, max(low, high), n), via)
    elif not dtype.is_signed:
        _fill(out, lambda n: np.exp2(rng.integers(-3, 4, n).astype(np.float64)), via)
    else:
        _fill(out, rng.standard_normal, via)
    if range_.ordered and out.ndim:
        out[...] = np.sort(out.astype(via), axis=0).astype(out.dtype)


def _fill_integers(
    out: np.ndarray, dtype: DType, rng: np.random.Generator, range_: ValueRange
) -> None:
    least = -(1 << (dtype.bits - 1)) if dtype.is_signed_int else 0
    most = (1 << (dtype.bits - dtype.is_signed_int)) - 1
    via = _carrier(dtype)
    if range_.bits:
        _fill(out, lambda n: rng.integers(least, most, n, endpoint=True, dtype=via), via)
        return
    wanted_low, wanted_high = range_.low, range_.high
    if wanted_low is not None and wanted_high is not None and -1 < wanted_low < 0 < wanted_high < 1:
        # What keeps the sums of a product small is said of floats: weights that are integers, and
        # are converted, would all be 0.
        wanted_low = wanted_high = None
    low = int(max(least, -8 if wanted_low is None else wanted_low))
    high = int(min(most, max(low, 8) if wanted_high is None else wanted_high))
    high = max(low, high)
    if range_.distinct and out.size <= high - low + 1:
        values = (rng.permutation(high - low + 1)[: out.size] + low).reshape(out.shape)
        out[...] = values.astype(via).astype(out.dtype)
    else:
        _fill(out, lambda n: rng.integers(low, high, n, endpoint=True), via)
    if range_.ordered and out.ndim:
        out[...] = np.sort(out.astype(via), axis=0).astype(out.dtype)


def _carrier(dtype: DType) -> type:
    """A numpy type of its own that holds every value of an integer type."""
    if dtype.bits < 8:
        return np.int8 if dtype.is_signed_int else np.uint8
    return dtype.numpy.type


def _matrix(
    dtype: DType, sizes: tuple[int, ...], rng: np.random.Generator, kind: str
) -> np.ndarray:
    """Matrices that can be factorised, or solved with, without losing digits."""
    n = sizes[-1]
    x = rng.standard_normal(sizes)
    if dtype.is_complex:
        x = x + 1j * rng.standard_normal(sizes)
    if kind == "definite":
        x = x @ np.conj(np.swapaxes(x, -1, -2))
    x /= max(1, n)
    diagonal = np.arange(n)
    x[..., diagonal, diagonal] += 1 if kind == "definite" else 2
    return x
