"""What a caller hands in, checked: arrays, numbers and addresses, one error for each misfit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.program.program import Parameter
from hloom.types.literal import Literal

# What a caller's memory must be aligned to: the widest type of an element.
ARGUMENT_ALIGNMENT = 16


def ordered_back(array: np.ndarray[Any, Any], shape: Any) -> np.ndarray[Any, Any]:
    """The logical array of one whose memory is in the layout of the shape."""
    layout = shape.layout
    if layout is not None and not layout.is_default and shape.rank > 1:
        order = layout.minor_to_major[::-1]
        return array.transpose([order.index(d) for d in range(shape.rank)])
    return array


def checked_array(p: Parameter, argument: Any) -> np.ndarray[Any, Any]:
    """The argument as an array of the parameter's type and sizes; raises `UsageError`."""
    if isinstance(argument, int | float | complex):
        array = _number(p, argument)
    else:
        array = _as_array(p, argument)
    if array.dtype != p.shape.dtype.numpy:
        order = "" if array.dtype.isnative else " in the byte order of another machine"
        raise wrong_argument(p, f"has elements of type {array.dtype.name}{order}")
    if array.shape != p.shape.dims and not (
        p.shape.is_dynamic
        and array.ndim == p.shape.rank
        and all(
            n == b or (p.shape.is_dynamic_dim(d) and n <= b)
            for d, (n, b) in enumerate(zip(array.shape, p.shape.dims))
        )
    ):
        raise wrong_argument(p, f"has sizes {list(array.shape)}")
    return array


def _number(p: Parameter, argument: complex) -> np.ndarray[Any, Any]:
    """A number of Python's in the parameter's type, which must be able to hold it."""
    t = p.shape.dtype
    if t.is_pred:
        fits = isinstance(argument, bool)
    elif t.is_floating or t.is_complex:
        fits = t.is_complex or not isinstance(argument, complex)
    else:
        fits = isinstance(argument, int)
    if fits:
        try:
            scalar = np.asarray(argument, t.numpy)
            if t.is_floating or t.is_complex or int(scalar) == argument:
                return scalar
        except OverflowError:
            pass
    raise wrong_argument(p, f"is the {type(argument).__name__} {argument!r}")


def _as_array(p: Parameter, argument: Any) -> np.ndarray[Any, Any]:
    if isinstance(argument, Literal):
        return argument.array
    try:
        if hasattr(argument, "__array__") or not hasattr(argument, "__dlpack__"):
            return np.asarray(argument)
        return np.from_dlpack(argument)
    except (TypeError, ValueError, RuntimeError, BufferError) as error:
        what = f"is a {type(argument).__module__}.{type(argument).__name__} that numpy cannot read"
        raise wrong_argument(
            p, f"{what} ({(str(error) or type(error).__name__).splitlines()[0]})"
        ) from None


def wrong_argument(p: Parameter, what: str) -> UsageError:
    """The error that says which argument does not fit, and why."""
    place = f"argument {p.number}" + (f" at {p.index}" if p.index else "")
    return UsageError(
        f"{place} {what}, the program wants {p.shape.text_without_layout}", rule="argument-type"
    )


def check_alignment(address: int, size_bytes: int, what: str) -> None:
    """Raise `UsageError` for no memory, or memory not aligned as programs need it."""
    if size_bytes and not address:
        raise UsageError(
            f"{what} has the address 0, where there is no memory", rule="argument-type"
        )
    if size_bytes and address % ARGUMENT_ALIGNMENT:
        raise UsageError(
            f"{what} stands at address {address:#x}, which is no multiple of {ARGUMENT_ALIGNMENT}",
            rule="alignment",
            hint="pass memory aligned to 64 bytes, or an array that owns its data",
        )


def donated_numbers(name: str, donate: bool | int | Iterable[int], count: int) -> set[int]:
    """Which arguments are to be donated, of so many; `UsageError` for what is no number of one."""
    chosen: set[Any] = set()
    if isinstance(donate, Iterable):
        chosen = set(donate)
    elif not isinstance(donate, bool):
        chosen = {donate}
    if wrong := [n for n in chosen if not isinstance(n, int) or not 0 <= n < count]:
        raise UsageError(
            f"donate={wrong[0]!r}: {name} takes {count} arguments",
            rule="donation",
            hint="give numbers of arguments, from 0",
        )
    return chosen
