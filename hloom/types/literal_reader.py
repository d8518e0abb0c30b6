"""Reads a literal token by token: the slow and strict way, which knows where it is."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.types.convert import converted
from hloom.types.dtype import F64, S64, U64, DType
from hloom.types.limits import integer_range
from hloom.types.shape import Shape
from hloom.types.sizes import data_bytes
from hloom.types.syntax import LiteralSyntaxError, TokenReader

_TOKEN: Final = re.compile(
    r"-?(?:(?:\d+(?:\.\d*)?|(?<=-)\.\d+)(?:[eE][-+]?\d+)?|inf|nan(?:\(0x[0-9a-fA-F]+\))?)(?![\w.])"
)
_INTEGER: Final = re.compile(r"-?\d+(?![\w.])")
_PRED: Final = re.compile(r"(?:true|false|-?\d+)(?![\w.])")
_ELIDED: Final = re.compile(r"\{[ \t\r\n]*\.\.\.[ \t\r\n]*\}")
LARGEST_SPLAT: Final = 1 << 31
"""Bytes of a constant whose text is one number; memory must not be had for a few characters."""
_TOKEN_VALUE: Final = re.compile(r"token(?:\[\])?")


def rounded(values: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any] | None:
    """Numbers as read (f64, s64 or u64) in their type, or None where one is out of range.

    A finite number that only fits as infinity or NaN is out of range; formats that have neither
    saturate instead, as XLA's parser lets them.
    """
    if dtype.is_pred:
        return values != 0
    if dtype.is_integral:
        low, high = integer_range(dtype)
        if values.size and (int(values.min()) < low or int(values.max()) > high):
            return None
        return converted(values, U64 if values.dtype == np.uint64 else S64, dtype)
    narrow = converted(values, F64, dtype)
    if dtype.has_nan:
        with np.errstate(all="ignore"):
            shown = narrow.astype(np.float64)
            if (np.isfinite(values) & ~np.isfinite(shown)).any():
                return None
    return narrow


class LiteralReader(TokenReader):
    """A position in a text, and what can be read there."""

    syntax_error = LiteralSyntaxError

    def error(self, message: str) -> LiteralSyntaxError:
        return LiteralSyntaxError(message, self.position)

    def take_elided(self) -> bool:
        """Move past `{...}` if it comes next."""
        match = _ELIDED.match(self.text, self.skipped())
        if match:
            self.position = match.end()
        return match is not None

    def take_token_text(self) -> None:
        """Move past `token[]`, or past nothing: a token has no value to write."""
        match = _TOKEN_VALUE.match(self.text, self.skipped())
        if match:
            self.position = match.end()

    def array(self, shape: Shape) -> np.ndarray[Any, Any]:
        """The elements of an array shape, in numpy form.

        One number without braces stands for an array of it, as newer XLA writes it.
        """
        if shape.dims and not self.text.startswith("{", self.skipped()):
            return self.splat(shape)
        if shape.size > len(self.text) - self.position:
            # Checked before the memory is taken: a wrong size must not cost terabytes.
            raise self.error(f"{shape.size} elements are expected, more than the text can hold")
        elements = np.empty(shape.size, shape.dtype.numpy)
        if not shape.dims:
            elements[0] = self.element(shape.dtype)
            return elements.reshape(())
        rank, count = len(shape.dims), 0
        filled = [0] * rank  # how many blocks or elements each open level holds so far
        depth = 0
        while True:
            if self.take("{"):
                if depth == rank:
                    self.position -= 1
                    raise self.error(f"braces nest deeper than the {rank} dimensions")
                if depth:
                    self.count_one(filled, depth - 1, shape)
                filled[depth] = 0
                depth += 1
            elif depth == 0:
                self.expect("{")
            elif self.take("}"):
                depth -= 1
                if filled[depth] != shape.dims[depth]:
                    raise self.error(
                        f"dimension {depth} has {shape.dims[depth]} elements, "
                        f"but {filled[depth]} are given"
                    )
                if depth == 0:
                    return elements.reshape(shape.dims)
            elif not self.take(","):
                if depth != rank:
                    raise self.error(f"expected '{{' for dimension {depth}")
                self.count_one(filled, depth - 1, shape)
                elements[count] = self.element(shape.dtype)
                count += 1

    def splat(self, shape: Shape) -> np.ndarray[Any, Any]:
        """An array that has one number everywhere."""
        if (size := data_bytes(shape)) > LARGEST_SPLAT:
            raise self.error(
                f"a constant of {size} bytes is too large to be held; "
                "broadcast a scalar constant instead"
            )
        return np.full(shape.dims, self.element(shape.dtype), shape.dtype.numpy)

    def count_one(self, filled: list[int], level: int, shape: Shape) -> None:
        if filled[level] == shape.dims[level]:
            raise self.error(f"dimension {level} has only {shape.dims[level]} elements")
        filled[level] += 1

    def element(self, dtype: DType) -> Any:
        """One number as a numpy scalar."""
        if dtype.is_complex:
            self.expect("(")
            parts = np.empty(2, dtype.component.numpy)
            parts[0] = self.element(dtype.component)
            self.expect(",")
            parts[1] = self.element(dtype.component)
            self.expect(")")
            return parts.view(dtype.numpy)[0]
        pattern = _TOKEN if dtype.is_floating else _PRED if dtype.is_pred else _INTEGER
        match = pattern.match(self.text, self.skipped())
        if match is None:
            seen = self.text[self.position : self.position + 16].split("\n")[0]
            raise self.error(f"expected a value of type {dtype.name}, found {seen!r}")
        if dtype.is_floating:
            value = self.float_value(match[0], dtype)
        else:
            value = self.whole_value(match[0], dtype)
        self.position = match.end()
        return value

    def whole_value(self, token: str, dtype: DType) -> Any:
        if dtype.is_pred:
            return token == "true" or (token != "false" and token.strip("-0") != "")
        low, high = integer_range(dtype)
        value = int(token) if len(token) < 30 else high + 1
        if dtype is U64 and -(1 << 63) <= value < 0:
            value += 1 << 64  # XLA reads 64 bits of either sign: -1 is all ones
        if not low <= value <= high:
            raise self.error(f"{token[:40]} is out of the range {low}..{high} of {dtype.name}")
        wide, store = (np.uint64, U64) if dtype.is_unsigned_int else (np.int64, S64)
        return converted(np.array([value], wide), store, dtype)[0]

    def float_value(self, token: str, dtype: DType) -> Any:
        if token.endswith(")"):
            try:
                return nan_with_payload(dtype, int(token[token.index("0x") : -1], 16), token[0])
            except UsageError as error:
                raise self.error(error.message) from None
        number = float(token)
        if np.isinf(number) and "inf" not in token:
            raise self.error(f"{token[:40]} is out of the range of {dtype.name}")
        scalar = rounded(np.array([number]), dtype)
        if scalar is None:
            raise self.error(f"{token[:40]} is out of the range of {dtype.name}")
        return scalar[0]


def nan_with_payload(dtype: DType, payload: int, sign: str = "") -> Any:
    """The NaN of a float type with these mantissa bits; negative where `sign` is `-`."""
    if not dtype.has_infinity:
        raise UsageError(f"a NaN of type {dtype.name} has no payload")
    if not 0 < payload < 1 << dtype.mantissa_bits:
        raise UsageError(f"payload {payload:#x} does not fit a NaN of type {dtype.name}")
    exponent = ((1 << dtype.exponent_bits) - 1) << dtype.mantissa_bits
    negative = (1 << (dtype.bits - 1)) if sign == "-" else 0
    bits = np.array([negative | exponent | payload], np.dtype(f"u{dtype.size_bytes}"))
    return bits.view(dtype.numpy)[0]
