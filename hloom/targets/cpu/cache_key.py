"""What a compiled program depends on, part by part: the key of its entry in the compile cache.

The program itself is its text without what changes nothing (metadata), with the bytes of every
constant; names count, because kernels and messages carry them. hloom counts by the sizes and times
of its own files where it is a checkout, so that whoever works on it never runs old code.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hloom.ir.module import Module
from hloom.ir.text.options import PrintOptions
from hloom.ir.text.show import show_module
from hloom.targets.cpu.target import CpuTarget
from hloom.types.literal import Literal

_PRINTED = PrintOptions(
    metadata=False,
    original_value=False,
    operand_shape=False,
    program_shape=False,
    percent=False,
    operand_index_comments=False,
    async_sugar=False,
)


def key_parts(module: Module, target: CpuTarget) -> dict[str, str]:
    """Name and value of every part."""
    return {
        "program": program_digest(module),
        "options": options_text(target),
        **{f"machine {k}": v for k, v in target.machine.as_dict().items()},
        "hloom": hloom_version(),
        "llvm": _version("llvmlite"),
    }


def is_cacheable(target: CpuTarget) -> bool:
    """Whether nobody watches the compilation, so that it may as well not happen."""
    passes = target.passes
    watched = passes.dump or passes.log or passes.invariants or passes.check_facts
    return not watched and not passes.crash_on_noop_change and not passes.crash_on_silent_change


def program_digest(module: Module) -> str:
    """A hash that two modules share only if they compile to the same program."""
    digest = sha256(show_module(module, _PRINTED).encode("utf-8", "surrogateescape"))
    for c in module.computations_in_order():
        for i in c.instructions:
            if i.opcode == "constant":
                _add(i.attrs.literal, digest)
    return digest.hexdigest()


def _add(literal: Literal, digest: Any) -> None:
    for part in literal.elements:
        _add(part, digest)
    if literal.shape.is_array:
        array = literal.array
        digest.update(str(array.shape).encode())
        digest.update(array.tobytes())


def options_text(target: CpuTarget) -> str:
    """Everything of the target but the machine, as `name=value` words."""
    words = []
    for f in fields(target):
        if f.name not in ("machine", "processes"):
            words.append(f"{f.name}={_shown(getattr(target, f.name))}")
    return " ".join(words)


def _shown(value: Any) -> str:
    """The same text for equal options in any process: sets have no order."""
    if isinstance(value, frozenset):
        return "{" + ",".join(sorted(map(str, value))) + "}"
    if hasattr(value, "__dataclass_fields__"):
        inside = [f"{f.name}={_shown(getattr(value, f.name))}" for f in fields(value)]
        return f"({', '.join(inside)})"
    return str(value)


@cache
def hloom_version() -> str:
    """The version of hloom; in a checkout, a hash of its files' names, sizes and times too."""
    root, released = Path(__file__).parents[2], _version("hloom")
    if not (root.parent / ".git").exists():
        return released
    return f"{released}+{sources_digest(root)}"


def sources_digest(root: Path) -> str:
    """A hash of the names, sizes and times of all Python and C++ files in a folder."""
    digest = sha256()
    folders = [str(root)]
    while folders:
        found = []
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name != "__pycache__":
                        folders.append(entry.path)
                elif entry.name.endswith((".py", ".cc", ".h")):
                    status = entry.stat()
                    found.append(f"{entry.path} {status.st_size} {status.st_mtime_ns}")
        folders.sort()
        digest.update("\n".join(sorted(found)).encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


@cache
def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def differences(differs: Mapping[str, tuple[str, str]]) -> list[str]:
    """A line for each part of a key that differs: what an entry has, what is wanted."""
    lines = []
    for name, (old, new) in differs.items():
        if name.endswith("features"):
            was, now = set(old.split(",")), set(new.split(","))
            lines.append(f"{name}: {' '.join(sorted(was ^ now))}")
        elif name == "program":
            lines.append("program: it is another one")
        else:
            lines.append(f"{name}: {old or '(nothing)'} there, {new} here")
    return lines
