"""`hloom.load_library("libmodel.so")`: a C library called from Python, its arrays by name.

The header beside it says what goes in and comes out. The library itself is called as any C program
calls it, through ctypes: no compiler, and no other thread is held up while it runs.
"""

from __future__ import annotations

import ctypes
import os
import re
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hloom.aot.reading import Array, Function, SizedFunction, functions, sized_function
from hloom.api import Buffer, HloError, UsageError, did_you_mean, in_layout

_LOADER = re.compile(r"^int (\w+_load_weights)\(const char \*path\);", re.MULTILINE)


def load_library(
    path: str | Path,
    header: str | Path | None = None,
    *,
    name: str | None = None,
    weights: str | Path | None = None,
) -> LibraryFunction | SizedLibraryFunction:
    """A function of a C library that hloom has made for this machine, to be called with arrays.

    Without a `header` it is looked for beside the library (`libmodel.so`: `model.h`). `name`
    chooses among several functions, `weights` is the file that the library maps, where it has its
    weights in one. A library with buckets is one function, which takes arrays of any size up to the
    largest, unless `name` names that of a bucket. Raises `UsageError` and `HloError` where a file
    is missing, is none of hloom's, or does not belong to the other.
    """
    path = Path(path)
    if header is None:
        header = path.with_name(path.name.split(".")[0].removeprefix("lib") + ".h")
    known = {f.name: f for f in functions(header)}
    sized = sized_function(header)
    if sized is not None and name in (None, sized.name):
        symbol = _symbol(path, Path(header), sized.name)
        if weights is not None:
            _load_weights(symbol.library, sized.errors, Path(header), Path(weights))
        return SizedLibraryFunction(sized, symbol.function)
    if name is None and len(known) > 1:
        raise UsageError(
            f"{path.name} has {len(known)} functions: {', '.join(known)}",
            rule="library-function",
            hint="choose one: name=...",
        )
    function = known.get(name or next(iter(known)))
    if function is None:
        raise UsageError(
            f"{Path(header).name} declares no function {name}",
            rule="library-function",
            hint=did_you_mean(str(name), known),
        )
    symbol = _symbol(path, Path(header), function.name)
    if weights is not None:
        _load_weights(symbol.library, function.errors, Path(header), Path(weights))
    return LibraryFunction(function, symbol.function)


class _Symbol(NamedTuple):
    library: Any
    function: Any


def _symbol(path: Path, header: Path, name: str) -> _Symbol:
    """A function of a library, for ctypes; `HloError` where there is none."""
    if not path.exists():
        raise UsageError(f"cannot read {path}: no such file", rule="library-file")
    try:
        library = _loaded(path.resolve())
        return _Symbol(library, getattr(library, name))
    except OSError as error:
        raise HloError(f"{path} cannot be loaded: {error}", rule="library-file") from None
    except AttributeError:
        raise HloError(
            f"{path} has no function {name}, which {header.name} declares",
            rule="library-function",
            hint="the header is that of another library",
        ) from None


_files: dict[Path, tuple[int, int, int]] = {}
"""What was loaded by a path: device, number and time of the file."""


def _loaded(path: Path) -> Any:
    """The library that stands there now. The system's loader knows libraries by their paths, and
    would give the one of before where another has been written since."""
    about = os.stat(path)
    identity = (about.st_dev, about.st_ino, about.st_mtime_ns)
    if _files.setdefault(path, identity) == identity:
        return ctypes.CDLL(str(path))
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder, path.name)
        other.symlink_to(path)
        return ctypes.CDLL(str(other))


def _load_weights(library: Any, errors: Mapping[int, str], header: Path, weights: Path) -> None:
    """Let a library map its weights; an error where these are others, or none are in a file."""
    loader = _LOADER.search(header.read_text(encoding="utf-8"))
    if loader is None:
        raise UsageError(
            f"{header.name} says of no weights in a file, and {weights.name} is given",
            rule="library-weights",
        )
    if status := getattr(library, loader[1])(str(weights).encode()):
        reason = errors.get(status, f"status {status}")
        problem = getattr(library, loader[1].replace("_load_weights", "_weights_problem"), None)
        if problem is not None:
            problem.restype = ctypes.c_char_p
            reason = problem().decode(errors="replace") or reason
        raise HloError(f"{weights}: {reason}", rule="library-weights")


class _Callable(ABC):
    """What is called with arrays, in order or by name."""

    name: str
    inputs: Mapping[str, Any]

    def __call__(self, /, *arrays: Any, **named: Any) -> dict[str, np.ndarray[Any, Any]]:
        """The results by name, in order, in new arrays."""
        if len(arrays) > len(self.inputs):
            raise UsageError(
                f"{self.name} takes {len(self.inputs)} arrays, {len(arrays)} were given",
                rule="argument-count",
            )
        by_order = dict(zip(self.inputs, arrays))
        if twice := sorted(by_order.keys() & named.keys()):
            raise UsageError(
                f"{self.name} is given {twice[0]} twice: in order and by name",
                rule="argument-count",
            )
        return self.run({**by_order, **named})

    @abstractmethod
    def run(
        self,
        arrays: Mapping[str, Any],
        results: Mapping[str, np.ndarray[Any, Any]] | None = None,
        workspace: np.ndarray[Any, Any] | None = None,
    ) -> dict[str, np.ndarray[Any, Any]]:
        """The same with `results` written to arrays of the caller's, those that are named.

        One may be the very array of an input where `f.outputs[...].in_place` names that: a state is
        then changed in place. `workspace`: memory to work in; each thread keeps its own otherwise.
        """


class LibraryFunction(_Callable):
    """A function of a C library; call it with arrays, in order or by name, from any thread.

    `inputs` and `outputs` say what each is, by name and in order: `f.inputs["x"].shape`.
    """

    def __init__(self, function: Function, symbol: Any, own: Any = None) -> None:
        self.name = function.name
        self.inputs: dict[str, Array] = {a.name: a for a in function.inputs}
        self.outputs: dict[str, Array] = {a.name: a for a in function.outputs}
        self.workspace_bytes = function.workspace_bytes
        self.workspace_alignment = function.workspace_alignment
        self._errors = function.errors
        self._symbol = symbol
        self._own = own or threading.local()

    def run(
        self,
        arrays: Mapping[str, Any],
        results: Mapping[str, np.ndarray[Any, Any]] | None = None,
        workspace: np.ndarray[Any, Any] | None = None,
    ) -> dict[str, np.ndarray[Any, Any]]:
        _check_names(self.name, "takes", arrays, self.inputs)
        if missing := [n for n in self.inputs if n not in arrays]:
            raise UsageError(
                f"{self.name} is given no {', '.join(missing)}",
                rule="argument-count",
                hint=f"it takes {', '.join(self.inputs)}",
            )
        results = results or {}
        _check_names(self.name, "gives", results, self.outputs)
        sources = {n: _source(a, arrays[n]) for n, a in self.inputs.items()}
        buffers = {n: Buffer.empty(a.shape) for n, a in self.outputs.items() if n not in results}
        targets = {n: _target(self.outputs[n], r) for n, r in results.items()}
        self._check_apart(sources, targets)
        room = self._workspace(workspace)
        status = self._symbol(
            _pointers([a.ctypes.data for a in sources.values()]),
            _pointers([targets[n].ctypes.data if n in targets else buffers[n].address
                       for n in self.outputs]),
            ctypes.c_void_p(room),
        )  # fmt: skip
        if status:
            reason = self._errors.get(status, "the program failed")
            raise HloError(f"{self.name} fails with status {status}: {reason}", rule="library-call")
        return {n: results[n] if n in results else buffers[n].numpy() for n in self.outputs}

    def _workspace(self, chosen: np.ndarray[Any, Any] | None) -> int:
        """The address of memory to work in; this thread's own, unless one is chosen."""
        size, alignment = self.workspace_bytes, self.workspace_alignment
        if size == 0:
            return 0
        if chosen is not None:
            is_plain = chosen.flags.c_contiguous and chosen.flags.writeable
            if not is_plain or chosen.nbytes < size or chosen.ctypes.data % alignment:
                raise UsageError(
                    f"{self.name} needs {size} bytes at a multiple of {alignment} to work in, "
                    f"the workspace has {chosen.nbytes} at {chosen.ctypes.data:#x}",
                    rule="library-workspace",
                )
            return chosen.ctypes.data
        room = getattr(self._own, "room", None)
        if room is None:
            room = self._own.room = np.empty(size + alignment, np.uint8)
        return -(-room.ctypes.data // alignment) * alignment

    def _check_apart(
        self, sources: Mapping[str, np.ndarray], targets: Mapping[str, np.ndarray]
    ) -> None:
        """`UsageError` where a result shares memory that it may not."""
        others = [*sources.items()]
        for name, target in targets.items():
            for other, array in others:
                is_same = array.ctypes.data == target.ctypes.data
                if is_same and self.outputs[name].in_place == other and other in sources:
                    continue
                if np.may_share_memory(target, array):
                    raise UsageError(
                        f"{name} of {self.name} shares memory with {other}",
                        rule="library-memory",
                        hint="only the array that `in_place` names may be the same",
                    )
            others.append((name, target))


class SizedLibraryFunction(_Callable):
    """The function of a library with buckets; call it with arrays whose sizes agree.

    `sizes`: their names, which stand for numbers in the `dims` of `inputs` and `outputs`.
    """

    def __init__(self, function: SizedFunction, symbol: Any) -> None:
        self.name, self.sizes = function.name, function.sizes
        self.inputs, self.outputs = function.inputs, function.outputs
        self.workspace_bytes = function.workspace_bytes
        self.workspace_alignment = function.workspace_alignment
        self._function, self._symbol = function, symbol
        self._own = threading.local()

    def run(
        self,
        arrays: Mapping[str, Any],
        results: Mapping[str, np.ndarray[Any, Any]] | None = None,
        workspace: np.ndarray[Any, Any] | None = None,
    ) -> dict[str, np.ndarray[Any, Any]]:
        _check_names(self.name, "takes", arrays, self.inputs)
        sizes = self._function.for_arrays({n: np.shape(a) for n, a in arrays.items()})
        before = [ctypes.c_int64(s) for s in sizes]
        of_size = LibraryFunction(
            self._function.of_sizes(sizes), lambda *rest: self._symbol(*before, *rest), self._own
        )
        return of_size.run(arrays, results, workspace)


def _pointers(addresses: Sequence[int]) -> Any:
    return (ctypes.c_void_p * max(len(addresses), 1))(*addresses)


def _check_names(
    function: str, verb: str, chosen: Mapping[str, Any], known: Mapping[str, Any]
) -> None:
    if unknown := [n for n in chosen if n not in known]:
        raise UsageError(
            f"{function} {verb} no {unknown[0]}",
            rule="argument-name",
            hint=did_you_mean(unknown[0], known),
        )


def _source(a: Array, value: Any) -> np.ndarray[Any, Any]:
    """What a caller hands in, as memory of the library's form; a copy only if needed."""
    dtype = a.shape.dtype.numpy
    # Numbers of Python have no type of their own.
    array = np.asarray(value, dtype if isinstance(value, int | float | complex) else None)
    if array.dtype != dtype or array.shape != a.shape.dims:
        raise UsageError(
            f"{a.name} is {array.dtype.name}{list(array.shape)}, and the library takes "
            f"{dtype.name}{list(a.shape.dims)}",
            rule="argument-type",
        )
    array = in_layout(array, a.shape)
    if array.ctypes.data % a.alignment:
        moved = np.empty(array.nbytes + a.alignment, np.uint8)
        at = -moved.ctypes.data % a.alignment
        moved[at : at + array.nbytes] = array.reshape(-1).view(np.uint8)
        return moved[at : at + array.nbytes]
    return array


def _target(a: Array, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """An array of a caller's that a result is written to; `UsageError` where it cannot be."""
    dtype, dims = a.shape.dtype.numpy, a.shape.dims
    reason = ""
    if not isinstance(array, np.ndarray):
        reason = f"is a {type(array).__name__}, no array of numpy's"
    elif array.dtype != dtype or array.shape != dims:
        reason = f"is {array.dtype.name}{list(array.shape)}"
    elif not array.flags.writeable:
        reason = "cannot be written"
    elif in_layout(array, a.shape).nbytes != array.nbytes or not np.shares_memory(
        in_layout(array, a.shape), array
    ):
        reason = f"does not stand in memory as {a.shape.text} does"
    elif array.ctypes.data % a.alignment:
        reason = f"stands at {array.ctypes.data:#x}, no multiple of {a.alignment}"
    if reason:
        raise UsageError(
            f"the array for {a.name} {reason}; {dtype.name}{list(dims)} is written there",
            rule="argument-type",
        )
    return array
