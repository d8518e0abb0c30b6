"""What JAX compiles, and what became of it, as files: `xla_dump_to` and its relatives.

They have the names that scripts look for: `module_0000.NAME.before_optimizations.txt`, and
`cpu_after_optimizations`; numbers count what this process has compiled.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

from hloom.api import Module, Options, UsageError, file_bytes, show

OPTIONS_READ = (
    "dump_to",
    "dump_hlo_as_text",
    "dump_hlo_as_proto",
    "dump_hlo_module_re",
    "dump_large_constants",
    "dump_max_hlo_modules",
)
"""The options that are read here."""
BEFORE, AFTER = "before_optimizations", "cpu_after_optimizations"
_numbers = itertools.count()


class Dumps:
    """Those of one compilation; nothing where none is asked for."""

    def __init__(self, options: Options, name: str) -> None:
        self.options = options
        self.folder = options["dump_to"]
        self.is_on = bool(self.folder) and self._is_wanted(name)
        if not self.is_on:
            return
        number, most = next(_numbers), options["dump_max_hlo_modules"]
        self.is_on = most < 0 or number < most
        self.stem = f"module_{number:04}.{re.sub('[^A-Za-z0-9_.-]', '_', name)}"

    def _is_wanted(self, name: str) -> bool:
        pattern = self.options["dump_hlo_module_re"]
        try:
            return re.search(pattern, name) is not None
        except re.error as error:
            raise UsageError(
                f"dump_hlo_module_re {pattern!r} is no regular expression: {error}", rule="option"
            ) from None

    def write(self, stage: str, module: Module) -> None:
        """The module as it is at this stage."""
        if not self.is_on:
            return
        as_proto = self.options["dump_hlo_as_proto"]
        if self.folder == "-":
            print(show(module))
            return
        folder = Path(self.folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if self.options["dump_hlo_as_text"] or not as_proto:
                text = show(module, large_constants=self.options["dump_large_constants"])
                (folder / f"{self.stem}.{stage}.txt").write_text(text)
            if as_proto:
                (folder / f"{self.stem}.{stage}.hlo.pb").write_bytes(file_bytes(module, "proto"))
        except OSError as error:
            raise UsageError(f"cannot dump to {self.folder}: {error}", rule="option") from None
