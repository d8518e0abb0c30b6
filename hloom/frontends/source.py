"""What is compiled: a module, or the bytes that one is read from when somebody needs it.

The bytes of a file say which program it holds as well as the module does, and sooner: a program
that is in the compile cache is found, loaded and run without being parsed, and without the rooms
that know graphs being imported, which takes longer than all the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hloom.ir.module import Module


class Source:
    """A program to compile. `module` is not changed by anybody, or is the caller's."""

    def __init__(
        self, read: Callable[[], Module], data: bytes | None = None, form: str = ""
    ) -> None:
        """`read` gives the module: of `data`, in the form of that name, where those are given."""
        self._read, self._data, self._form = read, data, form

    @staticmethod
    def of_module(module: Module) -> Source:
        """A module in memory, which its owner may change later."""
        return Source(lambda: module)

    @staticmethod
    def of_text(text: str) -> Source:
        """HLO text."""

        def read() -> Module:
            from hloom.ir.text.parse import parse_module

            return parse_module(text)

        return Source(read, text.encode("utf-8", "surrogatepass"), "text")

    @staticmethod
    def of_file(path: Path) -> Source:
        """A file of text, or a proto or a snapshot; one that cannot be read is an error later."""
        try:
            data = path.read_bytes()
        except OSError:
            data = None

        def read() -> Module:
            from hloom.frontends.files import load_file

            return load_file(path, data=data).module

        return Source(read, data, "".join(path.suffixes[-2:]).lower())

    @cached_property
    def module(self) -> Module:
        """The module; `HloError` where the bytes are none."""
        return self._read()

    @property
    def digest(self) -> str | None:
        """A hash that two sources share only if they hold the same program; None for modules."""
        if self._data is None:
            return None
        return sha256(self._form.encode() + b"\0" + self._data).hexdigest()

    def copy(self) -> Callable[[], Module]:
        """What gives a module of its own, equal to this one now, whenever it is asked for."""
        if self._data is not None:
            return self._read
        from hloom.ir.copy import copy_module

        copied = copy_module(self.module)
        return lambda: copied
