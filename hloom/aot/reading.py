"""What a library takes and gives, read from its header: one description for every language.

A header of hloom is constants and comments of one form (header.py), so that whoever has the two
files that a C program needs, has all that Python, Rust, Go, Java and build systems need.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hloom.api import HloError, Shape, UsageError
from hloom.types.text import shape_from_text

_FUNCTION = re.compile(
    r"^int (\w+)\(const void \*const \*inputs, void \*const \*outputs, void \*workspace\);",
    re.MULTILINE,
)
_CONSTANT = re.compile(r"^#define (\w+) (\d+)$", re.MULTILINE)
_ERROR = re.compile(r'status == (\d+)\s*\? "([^"]*)"')
_ARRAY = re.compile(
    r"^/\* (input|output) (\d+): (\w+\[[^*]*) \*/\n#define (\w+) \2\n"
    r"(?:#define .*\n|typedef .*\n)*(?:/\* May be the memory of (\w+),)?",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Array:
    """An input or an output."""

    name: str
    shape: Shape
    size_bytes: int
    alignment: int
    in_place: str | None = None
    """The input whose memory an output may be, or the other way round."""


@dataclass(frozen=True)
class Function:
    """A function of a library."""

    name: str
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    workspace_bytes: int
    workspace_alignment: int
    errors: dict[int, str]
    """What a status says, as far as the header tells."""


def functions(header: str | Path) -> list[Function]:
    """The functions that a header declares, in its order; `HloError` for one that is none."""
    path = Path(header)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror or error}",
            rule="library-header",
            hint="hloom compile model.hlo -o libmodel.so --header model.h writes both files",
        ) from None
    except UnicodeDecodeError:
        text = ""
    names = _FUNCTION.findall(text)
    try:
        if not names:
            raise ValueError("it declares no function")
        return [_function(name, text) for name in names]
    except (KeyError, ValueError) as error:
        reason = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise HloError(
            f"{path} is no header that hloom has written: {reason}",
            rule="library-header",
        ) from None


def _function(name: str, text: str) -> Function:
    constants = {k: int(v) for k, v in _CONSTANT.findall(text)}
    prefix = name.upper()
    arrays: dict[str, list[Array]] = {"input": [], "output": []}
    for what, number, shape, constant, other in _ARRAY.findall(text):
        before = f"{prefix}_{what.upper()}_"
        if not constant.startswith(before):
            continue
        if int(number) != len(arrays[what]):
            raise ValueError(f"{constant} is out of turn")
        arrays[what].append(
            Array(
                constant.removeprefix(before),
                shape_from_text(shape),
                constants[f"{constant}_BYTES"],
                constants[f"{constant}_ALIGNMENT"],
                other or None,
            )
        )
    for what in arrays:
        if len(arrays[what]) != constants[f"{prefix}_{what.upper()}S"]:
            raise ValueError(f"{prefix}_{what.upper()}S is not how many are described")
    return Function(
        name,
        tuple(arrays["input"]),
        tuple(arrays["output"]),
        constants[f"{prefix}_WORKSPACE_BYTES"],
        constants[f"{prefix}_WORKSPACE_ALIGNMENT"],
        {int(status): words for status, words in _ERROR.findall(text)},
    )
