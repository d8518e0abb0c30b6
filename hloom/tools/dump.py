"""Dumps of `hloom opt`: the module before, between and after passes.

Files are named `module_NNNN.NAME.STAGE.txt` (or `.hlo.pb`), as scripts expect.
"""

from __future__ import annotations

import gzip
import re
import time
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from hloom import api
from hloom.tools.terminal import write_text

READ = (
    "dump_to",
    "dump_hlo_as_text",
    "dump_hlo_as_proto",
    "dump_hlo_module_re",
    "dump_hlo_pass_re",
    "dump_include_timestamp",
    "dump_compress_protos",
    "dump_disable_metadata",
    "dump_compact_gte",
    "dump_hlo_as_long_text",
    "dump_large_constants",
    "dump_max_hlo_modules",
    "syntax_sugar_async_ops",
)
"""The options that are read here."""


@dataclass
class Dumper:
    """Writes dumps of one module, as the options say; does nothing where none is wanted."""

    options: api.Options
    module_name: str
    passes: tuple[str, ...] = ()
    """The names of the passes, in order; a dump after one also names the next."""
    at: int = 0
    """Which of them was dumped last."""
    written: list[str] = field(default_factory=list)

    @property
    def is_on(self) -> bool:
        options = self.options
        return bool(
            options["dump_to"]
            and options["dump_max_hlo_modules"] != 0
            and _search(options["dump_hlo_module_re"], self.module_name, "dump_hlo_module_re")
        )

    @property
    def text_options(self) -> api.PrintOptions:
        """How dumps are printed."""
        options = self.options
        long = options["dump_hlo_as_long_text"]
        base = api.PRESETS["default" if long else "short-parsable"]()
        return replace(
            base,
            large_constants=options["dump_large_constants"],
            compact_gte=options["dump_compact_gte"],
            metadata=base.metadata and not options["dump_disable_metadata"],
            async_sugar=options["syntax_sugar_async_ops"],
        )

    def dump(self, stage: str, module: api.Module) -> str | None:
        """Write the module under the name of a stage; the place it went to."""
        if not self.is_on:
            return None
        stage += self.following(stage)
        options, to = self.options, self.options["dump_to"]
        as_proto = options["dump_hlo_as_proto"]
        switches = {f.name: getattr(self.text_options, f.name) for f in fields(api.PrintOptions)}
        where = None
        if options["dump_hlo_as_text"] or not as_proto or to == "-":
            text = api.show(module, **switches)
            if to == "-":
                write_text(f"// {self.stem(stage)}\n{text}")
                return "-"
            where = self.write(f"{self.stem(stage)}.txt", text.encode("utf-8", "surrogateescape"))
        if as_proto:
            data = api.file_bytes(module, "hlo-proto")
            if options["dump_compress_protos"]:
                where = self.write(f"{self.stem(stage)}.hlo.pb.gz", gzip.compress(data, mtime=0))
            else:
                where = self.write(f"{self.stem(stage)}.hlo.pb", data)
        return where

    def following(self, stage: str) -> str:
        """`.before_y` behind a stage that ends in `after_x`, y being the pass that comes next."""
        name = stage.rpartition(".after_")[2] if ".after_" in stage else None
        if name not in self.passes:
            return ""
        count = len(self.passes)
        self.at = next(
            k % count for k in range(self.at, self.at + count + 1) if self.passes[k % count] == name
        )
        last = self.at + 1 == count
        self.at += 1
        return f".before_{'pipeline-end' if last else self.passes[self.at]}"

    def stem(self, stage: str) -> str:
        stamp = ""
        if self.options["dump_include_timestamp"]:
            stamp = f"{time.time_ns() // 1000}."
        safe = re.sub(r"[^\w.-]", "_", f"{self.module_name}.{stage}")
        return f"{stamp}module_0001.{safe}"

    def write(self, name: str, data: bytes) -> str:
        folder = Path(self.options["dump_to"])
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise api.UsageError(f"cannot make folder {folder}: {error.strerror}") from None
        api.write_whole(folder / name, data)
        self.written.append(str(folder / name))
        return self.written[-1]


def _search(pattern: str, text: str, option: str) -> bool:
    try:
        return bool(re.search(pattern, text))
    except re.error as error:
        raise api.UsageError(f"--{option}: {pattern!r} is no regular expression: {error}") from None
