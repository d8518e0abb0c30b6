"""Attributes of typed custom calls from their text: a dictionary as MLIR writes it.

    {uplo = 76 : ui8, scale = 2.5e-01 : f32, name = "x", sizes = array<i64: 1, 2>, inner = {a}}

A custom call with API_VERSION_TYPED_FFI carries this as its `backend_config`. What has no form in
a call frame (symbols, types, lists of mixed things) is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.types.dtype import BY_NAME, DType


@dataclass(frozen=True, slots=True)
class Typed:
    """An attribute that is a number or an array of numbers: the values and their element type."""

    dtype: DType
    value: Any
    """A numpy scalar, or a one-dimensional array."""


Attribute = Typed | str | Mapping[str, "Attribute"]
"""One attribute of a custom call."""

_TOKEN = re.compile(
    r'\s*(?:("(?:[^"\\]|\\.)*")|(0x[0-9a-fA-F]+|-?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)'
    r"|([A-Za-z_][\w.$]*)|([{}\[\]()<>=,:\-]))",
    re.DOTALL,
)
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t"}
_FLOATS = {"f8E4M3FN": "f8e4m3fn", "f8E5M2": "f8e5m2", "index": "s64", "i1": "pred"}


def parsed_attributes(text: str) -> dict[str, Attribute]:
    """The attributes by name; `UsageError` says where the text is wrong. Empty text has none."""
    if not text.strip():
        return {}
    reader = _Reader(text)
    attributes = reader.dictionary()
    reader.end()
    return attributes


def attributes_of_config(config: str, is_typed: bool) -> dict[str, Attribute]:
    """What a handler is given as attributes: typed ones, or the text of the config."""
    return parsed_attributes(config) if is_typed else {"opaque": config}


def element_type(word: str) -> DType | None:
    """The element type that MLIR calls so."""
    plain = re.fullmatch(r"(?:si|i|ui)(\d+)", word)
    name = _FLOATS.get(word)
    if name is None and plain:
        name = ("u" if word[0] == "u" else "s") + plain[1]
    return BY_NAME.get(name or word.lower())


class _Reader:
    """Reads one text, token by token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.kind, self.token = 0, ""
        self.start = 0
        self.step()

    def wrong(self, what: str) -> UsageError:
        near = self.text[self.start : self.start + 30]
        return UsageError(
            f"{what} at character {self.start} of a custom call's attributes, near {near!r}",
            rule="attributes",
            hint='they are written {a = 1 : i64, b = "x", c = array<i64: 1, 2>}',
        )

    def step(self) -> str:
        """Go on to the next token; the one that was current."""
        last = self.token
        m = _TOKEN.match(self.text, self.at)
        self.start = self.at
        if m is None:
            if self.text[self.at :].strip():
                self.start += len(self.text[self.at :]) - len(self.text[self.at :].lstrip())
                raise self.wrong("a strange character")
            self.kind, self.token = 0, ""
            return last
        self.kind = m.lastindex or 0
        self.token = m[self.kind]
        self.start = m.start(self.kind)
        self.at = m.end()
        return last

    def take(self, mark: str) -> bool:
        if self.kind == 4 and self.token == mark:
            self.step()
            return True
        return False

    def expect(self, mark: str) -> None:
        if not self.take(mark):
            raise self.wrong(f"{mark!r} is missing")

    def end(self) -> None:
        if self.kind:
            raise self.wrong("something follows")

    def word(self) -> str:
        if self.kind != 3:
            raise self.wrong("a name is missing")
        return self.step()

    # -- attributes

    def dictionary(self) -> dict[str, Attribute]:
        self.expect("{")
        attributes: dict[str, Attribute] = {}
        while not self.take("}"):
            if attributes:
                self.expect(",")
            name = self.string() if self.kind == 1 else self.word()
            if name in attributes:
                raise self.wrong(f"attribute {name} is given twice, again")
            attributes[name] = self.attribute() if self.take("=") else {}
        return attributes

    def attribute(self) -> Attribute:
        if self.kind == 1:
            return self.string()
        if self.kind == 2 or self.token == "-":
            return self.number()
        if self.token == "{":
            return self.dictionary()
        if self.kind == 3:
            word = self.step()
            if word in ("true", "false"):
                return Typed(BY_NAME["pred"], np.bool_(word == "true"))
            if word == "unit":
                return {}
            if word == "array":
                return self.array()
            if word == "dense":
                return self.dense()
            raise self.wrong(f"attributes like {word!r} cannot be handed over")
        raise self.wrong("a value that cannot be handed over")

    def string(self) -> str:
        inside = self.step()[1:-1].encode(errors="surrogateescape")

        def plain(m: re.Match[bytes]) -> bytes:
            return bytes.fromhex(m[1].decode()) if len(m[1]) == 2 else _LETTERS.get(m[1], m[1])

        return _ESCAPE.sub(plain, inside).decode(errors="surrogateescape")

    def digits(self) -> str:
        sign = "-" if self.take("-") else ""
        if self.kind == 3 and self.token in ("true", "false"):
            return self.step()
        if self.kind != 2:
            raise self.wrong("a number is missing")
        return sign + self.step()

    def type(self) -> DType:
        word = self.word()
        if word == "complex":
            self.expect("<")
            part = self.type()
            self.expect(">")
            dtype = {"f32": BY_NAME["c64"], "f64": BY_NAME["c128"]}.get(part.name)
        else:
            dtype = element_type(word)
        if dtype is None or not dtype.is_array_element:
            raise self.wrong(f"no element type is called {word!r}")
        return dtype

    def number(self) -> Typed:
        digits = self.digits()
        if self.take(":"):
            dtype = self.type()
        else:
            whole = digits.lstrip("-").isdigit() or digits.startswith("0x")
            dtype = BY_NAME["s64" if whole else "f64"]
        return Typed(dtype, self.value(digits, dtype))

    def value(self, digits: str, dtype: DType) -> Any:
        """A number of a type; floats in hexadecimal are bits, integers are taken modulo 2^n."""
        if digits in ("true", "false"):
            return dtype.numpy.type(digits == "true")
        if dtype.is_floating:
            if digits.startswith("0x"):
                bits = int(digits, 16)
                size = dtype.numpy.itemsize
                if bits >> 8 * size:
                    raise self.wrong(f"{digits} is too long for {dtype}")
                return np.frombuffer(bits.to_bytes(size, "little"), dtype.numpy)[0]
            return dtype.numpy.type(float(digits))
        try:
            number = int(digits, 16) if "0x" in digits else int(digits)
        except ValueError:
            raise self.wrong(f"{digits} is no {dtype}") from None
        if dtype.is_pred:
            return np.bool_(number)
        if not -(1 << dtype.bits - 1) <= number < 1 << dtype.bits:
            raise self.wrong(f"{number} does not fit in {dtype}")
        if not dtype.is_unsigned_int and number >> dtype.bits - 1 > 0:
            number -= 1 << dtype.bits
        elif dtype.is_unsigned_int:
            number %= 1 << dtype.bits
        return np.array(number).astype(dtype.numpy)[()]

    def array(self) -> Typed:
        """`<i64: 1, 2>`."""
        self.expect("<")
        dtype = self.type()
        values = []
        if self.take(":"):
            while not values or self.take(","):
                values.append(self.value(self.digits(), dtype))
        self.expect(">")
        return Typed(dtype, np.array(values, dtype.numpy))

    def dense(self) -> Typed:
        """`<[[1, 2], [3, 4]]> : tensor<2x2xi64>`, row-major, as an array of one dimension."""
        self.expect("<")
        elements: list[Any] = []
        raw = None
        if self.kind == 1:
            raw = self.step()[1:-1]
        elif self.token != ">":
            self.nested(elements)
        self.expect(">")
        self.expect(":")
        count, dtype = self.tensor()
        if raw is not None:
            data = bytes.fromhex(raw.removeprefix("0x"))
            array = np.frombuffer(data, dtype.numpy)
        else:
            array = np.array([self.element(e, dtype) for e in elements], dtype.numpy)
        if array.size == 1:
            array = np.repeat(array, count)
        if array.size != count:
            raise self.wrong(f"{array.size} elements where {count} are wanted")
        return Typed(dtype, array)

    def nested(self, items: list[Any]) -> None:
        if not self.take("["):
            items.append(self.pair() if self.token == "(" else self.digits())
            return
        while not self.take("]"):
            self.nested(items)
            self.take(",")

    def pair(self) -> tuple[str, str]:
        self.expect("(")
        real = self.digits()
        self.expect(",")
        imaginary = self.digits()
        self.expect(")")
        return real, imaginary

    def element(self, x: Any, dtype: DType) -> Any:
        if not isinstance(x, tuple):
            return self.value(x, dtype)
        part = BY_NAME["f32" if dtype.name == "c64" else "f64"]
        return complex(self.value(x[0], part), self.value(x[1], part))

    def tensor(self) -> tuple[int, DType]:
        """`tensor<2x3xf32>` or `vector<...>`: the number of elements, and their type."""
        if self.word() not in ("tensor", "vector"):
            raise self.wrong("a tensor type is missing")
        # Sizes and the type are one run of letters and digits, which tokens cut anywhere.
        close = self.text.find(">", self.start)
        inside = re.fullmatch(r"<\s*((?:\d+\s*x\s*)*)(.+)", self.text[self.start : close], re.S)
        if close < 0 or inside is None:
            raise self.wrong("a tensor type is missing")
        count = 1
        for n in re.findall(r"\d+", inside[1]):
            count *= int(n)
        self.at = self.start + inside.start(2)
        self.step()
        dtype = self.type()
        self.expect(">")
        return count, dtype
