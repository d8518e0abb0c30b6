"""The table of the plugin, called through ctypes by the offsets of abi.h."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hloom.api import library_path

HEADER = Path(__file__).parents[2] / "hloom/runtime/native/pjrt/abi.h"


@cache
def offsets(struct: str) -> dict[str, int]:
    """Where the fields of a struct stand."""
    found = re.findall(rf"PJRT_AT\({struct}, (\w+), (\d+)\)", HEADER.read_text())
    return {name: int(at) for name, at in found}


@cache
def size(struct: str) -> int:
    return int(re.findall(rf"PJRT_SIZE\({struct}, (\d+)\)", HEADER.read_text())[0])


class Failed(Exception):
    """An error of the table: its code and message."""


class Table:
    """The functions by name, without PJRT_."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(library_path())
        self._library.GetPjrtApi.restype = ctypes.c_void_p
        self.address = self._library.GetPjrtApi()
        self.held: list[Any] = []

    def pointer(self, name: str) -> int:
        at = self.address + offsets("PJRT_Api")[f"PJRT_{name}"]
        return ctypes.c_void_p.from_address(at).value or 0

    def call(self, name: str, **fields: Any) -> Any:
        """Call with these fields set; a function that gives a field, by its name."""
        struct = f"PJRT_{name}_Args"
        raw = (ctypes.c_char * size(struct))()
        ctypes.c_size_t.from_buffer(raw).value = size(struct)
        for field, value in fields.items():
            if isinstance(value, bytes):
                value = ctypes.create_string_buffer(value, len(value) + 1)
            if isinstance(value, ctypes.Array):
                self.held.append(value)
                value = ctypes.addressof(value)
            ctypes.c_uint64.from_buffer(raw, offsets(struct)[field]).value = value
        function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(self.pointer(name))
        if error := function(ctypes.addressof(raw)):
            raise Failed(self._told(error))

        def given(field: str, kind: Any = ctypes.c_uint64) -> Any:
            return kind.from_buffer(raw, offsets(struct)[field]).value

        return given

    def _told(self, error: int) -> str:
        raw = (ctypes.c_uint64 * 5)(40, 0, error, 0, 0)
        told = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.pointer("Error_Message"))
        told(ctypes.addressof(raw))
        text = ctypes.string_at(raw[3], raw[4]).decode()
        freed = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.pointer("Error_Destroy"))
        destroyed = (ctypes.c_uint64 * 3)(24, 0, error)  # by a name: it must outlive the call
        freed(ctypes.addressof(destroyed))
        return text

    def options(self, **values: int | str) -> tuple[Any, int]:
        """An array of named values, and how many."""
        raw = (ctypes.c_uint64 * (7 * len(values)))()
        for k, (name, value) in enumerate(values.items()):
            letters = ctypes.create_string_buffer(name.encode())
            self.held.append(letters)
            entry = [56, 0, ctypes.addressof(letters), len(name), 1, 0, 1]
            if isinstance(value, str):
                text = ctypes.create_string_buffer(value.encode())
                self.held.append(text)
                entry[4:] = [0, ctypes.addressof(text), len(value)]
            else:
                entry[4:6] = [4 if isinstance(value, bool) else 1, value]
            raw[7 * k : 7 * k + 7] = entry
        return raw, len(values)

    def program(self, text: bytes, form: bytes) -> Any:
        """A PJRT_Program."""
        code, name = ctypes.create_string_buffer(text), ctypes.create_string_buffer(form)
        self.held += [code, name]
        fields = [48, 0, ctypes.addressof(code), len(text), ctypes.addressof(name), len(form)]
        return (ctypes.c_uint64 * 6)(*fields)


def names() -> Sequence[str]:
    """Every function of the table."""
    found = [n for n in offsets("PJRT_Api") if n.startswith("PJRT_")]
    return [n.removeprefix("PJRT_") for n in found]
