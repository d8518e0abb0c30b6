"""What a library takes and gives, read from its header: one description for every language.

A header of hloom is constants and comments of one form (header.py), so that whoever has the two
files that a C program needs, has all that Python, Rust, Go, Java and build systems need.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hloom.api import HloError, Shape, UsageError, size_bytes
from hloom.types.text import shape_from_text

_FUNCTION = re.compile(
    r"^int (\w+)\(const void \*const \*inputs, void \*const \*outputs, void \*workspace\);",
    re.MULTILINE,
)
_SIZED = re.compile(
    r"^int (\w+)\(((?:int64_t \w+, )+)const void \*const \*inputs, void \*const \*outputs, "
    r"void \*workspace\);",
    re.MULTILINE,
)
_SIZED_ARRAY = re.compile(
    r"^/\* (input|output) \d+: (\w+)\[([^\]]*)\](\S*) \*/\n#define (\w+) \d+\n"
    r"(?:#define .*\n|typedef .*\n)*(?:/\* May be the memory of (\w+),)?",
    re.MULTILINE,
)
_BUCKET = re.compile(r"(?:(\d+)\*)?([A-Za-z_]\w*)")
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


@dataclass(frozen=True)
class SizedArray:
    """An input or an output of a function that takes any size."""

    dtype: str
    dims: tuple[str, ...]
    """Numbers, or sizes, or multiples of sizes: `batch`, `2*batch`."""
    layout: str
    alignment: int
    in_place: str | None = None
    """As that of `Array`."""

    def of_sizes(self, name: str, sizes: Mapping[str, int]) -> Array:
        """What it is for certain sizes."""
        numbers = []
        for d in self.dims:
            bucket = _BUCKET.fullmatch(d)
            numbers.append(int(d) if bucket is None else int(bucket[1] or 1) * sizes[bucket[2]])
        shape = shape_from_text(f"{self.dtype}[{','.join(map(str, numbers))}]{self.layout}")
        return Array(name, shape, size_bytes(shape), self.alignment, self.in_place)


@dataclass(frozen=True)
class SizedFunction:
    """The function of a library that takes any size up to the largest."""

    name: str
    sizes: tuple[str, ...]
    inputs: dict[str, SizedArray]
    outputs: dict[str, SizedArray]
    workspace_bytes: int
    workspace_alignment: int
    errors: dict[int, str]

    def for_arrays(self, shapes: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
        """The sizes of a call with arrays of these shapes; `UsageError` where they do not fit."""
        sizes: dict[str, int] = {}
        for name, shape in shapes.items():
            for d, n in zip(self.inputs[name].dims, shape):
                bucket = _BUCKET.fullmatch(d)
                if bucket is not None and n % int(bucket[1] or 1) == 0:
                    sizes.setdefault(bucket[2], n // int(bucket[1] or 1))
        if missing := [s for s in self.sizes if s not in sizes]:
            raise UsageError(
                f"{self.name} cannot tell {missing[0]} from the arrays that it is given",
                rule="library-buckets",
            )
        return tuple([sizes[s] for s in self.sizes])

    def of_sizes(self, sizes: Sequence[int]) -> Function:
        """What it takes and gives for certain sizes."""
        known = dict(zip(self.sizes, sizes))
        return Function(
            self.name,
            tuple([a.of_sizes(n, known) for n, a in self.inputs.items()]),
            tuple([a.of_sizes(n, known) for n, a in self.outputs.items()]),
            self.workspace_bytes,
            self.workspace_alignment,
            self.errors,
        )


def sized_function(header: str | Path) -> SizedFunction | None:
    """The function of a header that takes any size, if there is one."""
    text = Path(header).read_text(encoding="utf-8")
    match = _SIZED.search(text)
    if match is None:
        return None
    name, prefix = match[1], match[1].upper()
    constants = {k: int(v) for k, v in _CONSTANT.findall(text)}
    arrays: dict[str, dict[str, SizedArray]] = {"input": {}, "output": {}}
    for what, dtype, dims, layout, constant, other in _SIZED_ARRAY.findall(text):
        before = f"{prefix}_{what.upper()}_"
        if constant.startswith(before):
            alignment = constants[f"{constant}_ALIGNMENT"]
            of_dims = tuple(filter(None, dims.split(",")))
            array = SizedArray(dtype, of_dims, layout, alignment, other or None)
            arrays[what][constant.removeprefix(before)] = array
    return SizedFunction(
        name,
        tuple(re.findall(r"int64_t (\w+)", match[2])),
        arrays["input"],
        arrays["output"],
        constants[f"{prefix}_WORKSPACE_BYTES"],
        constants[f"{prefix}_WORKSPACE_ALIGNMENT"],
        {int(status): words for status, words in _ERROR.findall(text[match.end() :])},
    )


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
