"""Arguments and results as `.npz` files.

A key is the name of a parameter or `arg_N`, with `.K` behind for an element of a tuple, and `@D`
behind that for device D alone: `weights`, `arg_0`, `state.1`, `arg_0@3`. Types that numpy does not
have (bfloat16 and narrower) are stored by numpy as raw bytes of their width and recognised by it.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hloom import api

PIECE = 1 << 20
"""Elements that are converted at a time."""


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of an `.npz` file; `UsageError` when it is none."""
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise api.UsageError(f"{path} is one array", hint="np.savez makes a file of names")
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        # What numpy says of a file that is none of its own is advice about pickles.
        why = getattr(error, "strerror", None) or "it holds no arrays that can be read"
        if isinstance(error, KeyError | zipfile.BadZipFile | zlib.error):
            why = f"{why} ({error})"
        raise api.UsageError(f"cannot read {path}: {why}", hint="an .npz file is needed") from None


def write_arrays(path: Path, values: dict[str, np.ndarray]) -> None:
    """Write an `.npz` file beside its place and rename it."""
    with api.written_whole(path) as file:
        np.savez(file, allow_pickle=False, **values)  # type: ignore[arg-type]


def pieces(*arrays: np.ndarray) -> Iterator[Any]:
    """Pieces of an array, or of several of one shape, in one order: whole ones may be too large
    to be converted at once."""
    flat = [array.reshape(-1) for array in arrays]
    for start in range(0, flat[0].size, PIECE):
        parts = [x[start : start + PIECE] for x in flat]
        yield parts[0] if len(parts) == 1 else (start, *parts)


def arguments_per_device(
    module: api.Module, arrays: dict[str, np.ndarray], count: int, file: str
) -> tuple[tuple[api.Literal, ...], ...]:
    """The arguments of each device; names without `@D` are the same on all of them.

    `UsageError` names a parameter that has no array, an array that no parameter has, and both
    shapes where they differ.
    """
    used: set[str] = set()
    parameters = module.entry.parameters
    devices = [
        tuple(
            _argument((p.name, f"arg_{k}"), p.shape, arrays, device, used, file)
            for k, p in enumerate(parameters)
        )
        for device in range(count)
    ]
    if strange := [name for name in arrays if name not in used]:
        names = ", ".join(p.name for p in parameters) or "none"
        raise api.UsageError(
            f"{file}: {strange[0]!r} is no parameter of {module.name}",
            hint=f"parameters: {names}; or arg_0, arg_1, ...",
        )
    return tuple(devices)


def _argument(
    names: tuple[str, ...],
    shape: api.Shape,
    arrays: dict[str, np.ndarray],
    device: int,
    used: set[str],
    file: str,
) -> api.Literal:
    if shape.is_token:
        return api.Literal.token()
    if shape.is_tuple:
        parts = [
            _argument(tuple(f"{n}.{k}" for n in names), part, arrays, device, used, file)
            for k, part in enumerate(shape.elements)
        ]
        return api.Literal(shape, None, tuple(parts))
    for name in names:
        for key in (f"{name}@{device}", name):
            if key in arrays:
                # Both forms are known; the one for this device wins.
                used.update(k for k in (f"{name}@{device}", name) if k in arrays)
                return _literal(arrays[key], shape, key, file)
    raise api.UsageError(
        f"{file}: no array for parameter {names[0]} ({shape.text_without_layout})",
        hint=f"name one {names[0]} or {names[1]}; the file has: {', '.join(arrays) or 'nothing'}",
    )


def _literal(array: np.ndarray, shape: api.Shape, name: str, file: str) -> api.Literal:
    shape = shape.elements[0] if shape.is_buffer else shape
    if not shape.is_array:
        raise api.UsageError(f"{name} is {shape}: no array can be given for it")
    expected = np.dtype(shape.dtype.numpy)
    if array.dtype.kind == "V" and array.dtype.itemsize == expected.itemsize:
        array = array.view(expected)
    fits = len(array.shape) == len(shape.dims) and all(
        n == d or (shape.is_dynamic_dim(k) and (n <= d or d < 0))
        for k, (n, d) in enumerate(zip(array.shape, shape.dims))
    )
    if array.dtype != expected or not fits:
        sizes = ",".join(map(str, array.shape))
        hint = f"convert it: {name}.astype({expected.name!r})" if fits else None
        raise api.UsageError(
            f"{file}: {name} is {array.dtype.name}[{sizes}], but the parameter is "
            f"{shape.text_without_layout}",
            hint=hint,
        )
    return api.Literal.owning(np.ascontiguousarray(array).reshape(array.shape), shape)


def leaves(literal: api.Literal, name: str) -> Iterator[tuple[str, api.Shape, Any]]:
    """Every array in a literal with its key and shape, tuples as `name.K`; tokens are left out."""
    if literal.shape.is_tuple:
        for k, part in enumerate(literal.elements):
            yield from leaves(part, f"{name}.{k}")
    elif not literal.shape.is_token:
        yield name, literal.shape, literal.array
