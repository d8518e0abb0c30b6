"""What the interpreter computes with, and its way from and to literals.

A *value* is one of:

* an array: `np.ndarray` of `shape.dtype.numpy`, logical row-major, one item per element, types
  narrower than a byte through ml_dtypes. A dynamic dimension has its run-time size;
* a tuple: a Python `tuple` of values;
* a token: `TOKEN`.

A buffer (`b(f32[4])`) is the array it holds. Opaque values are whatever a custom call returned.
Nobody writes into a value he was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.types.dtype import TOKEN as TOKEN_TYPE
from hloom.types.literal import Literal
from hloom.types.shape import Shape

Value = Any
"""An array, a tuple of values, or `TOKEN`."""


class _Token:
    """The one value of type token."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "TOKEN"

    def __copy__(self) -> _Token:
        return self

    def __deepcopy__(self, memo: object) -> _Token:
        return self


TOKEN: Final = _Token()
