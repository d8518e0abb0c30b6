"""The names that users of hloom import; everything else is where it is built.

    module = hloom.load("step.hlo")
    hloom.verify(module)
    result = hloom.evaluate(module, *arguments)

Each name is imported from its home (`names.py`) when it is first asked for (PEP 562): importing
takes time.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import get_data
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hloom.api.names import *
    from hloom.frontends.source import Source

_HERE = (
    *("as_module", "compile", "compile_ahead_of_time", "library_code", "load", "parse", "show"),
)
"""What this file defines itself."""


@cache
def homes() -> dict[str, tuple[str, str]]:
    """Module and name there of each public name that is built elsewhere, read from `names.py`."""
    text = (get_data(__name__, "names.py") or b"").decode()
    lines = re.findall(r"^from (\S+) import (\w+) as (\w+)$", text, re.MULTILINE)
    return {name: (home, there) for home, there, name in lines}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted({*homes(), *_HERE})
    if name not in homes():
        raise AttributeError(f"module 'hloom.api' has no attribute {name!r}")
    home, there = homes()[name]
    value = getattr(import_module(home), there)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *homes()})


def load(path: str | Path) -> Module:
    """The module in a file: HLO text, a proto, a snapshot or StableHLO, by content and name.

    `load_file` returns the arguments of a snapshot too. Raises `HloError` with a place.
    """
    from hloom.frontends.files import load_file

    return load_file(path).module


def parse(text: str, file: str | None = None) -> Module:
    """The module that HLO or StableHLO text describes, such as is pasted from a file or a log;
    raises `ParseError` with a place."""
    from hloom.frontends.stablehlo.recognise import is_text_of_mlir

    text = text.removeprefix("\ufeff")
    if is_text_of_mlir(text):
        from hloom.frontends.files import load_stablehlo

        return load_stablehlo(text.encode(), file).module
    from hloom.ir.proto.files import load_text

    return load_text(text, file).module


def show(module: Module, preset: str = "default", **switches: Any) -> str:
    """The module as HLO text, in one of the presets, with some switches set otherwise."""
    from dataclasses import replace

    from hloom.base.diagnostics import UsageError, did_you_mean
    from hloom.ir.text.options import PRESETS
    from hloom.ir.text.show import show_module

    if preset not in PRESETS:
        raise UsageError(f"no print preset {preset!r}", hint=did_you_mean(preset, PRESETS))
    return show_module(module, replace(PRESETS[preset](), **switches))


def compile(
    program: Any,
    target: str = "cpu",
    threads: int | None = None,
    options: Options | Mapping[str, Any] | Iterable[str] | None = None,
    *,
    progress: Callable[[str], None] | None = None,
) -> Executable:
    """Native code for a program: a module, the path of a file, HLO or StableHLO text, a module
    of jaxlib's MLIR bindings, or what `jax.jit(f).lower(...)` gives.

    `threads`: how many the program may use; 1 starts none, None is what the system grants.
    `options`: those of `OPTIONS`, by name, as `--name=value` words, or an `Options`; one that
    nothing acts on is warned of. `progress` is told each stage. The program is not changed.
    Raises `HloError` for what is not well formed or cannot run here.
    """
    from hloom.compiler import compile_source
    from hloom.targets.target import target_kind

    kind, chosen = target_kind(target), _options(options)
    for name in kind.unread(chosen):
        warnings.warn(
            f"option {name} does nothing when compiling for a {target.upper()}", stacklevel=2
        )
    return compile_source(_source(program), threads, chosen, target=target, progress=progress)


def library_code(
    program: Any,
    asked: LibraryRequest,
    options: Options | Mapping[str, Any] | Iterable[str] | None = None,
    target: str = "cpu",
) -> tuple[Module, LibraryCode]:
    """What `compile` takes, as a module, and as the code of a C library (`hloom.aot.export_c`)."""
    from hloom.compiler import compile_library

    module = _source(program).module
    return module, compile_library(module, asked, _options(options), target=target)


def compile_ahead_of_time(
    program: Any,
    options: Options | Mapping[str, Any] | Iterable[str] | None = None,
    *,
    target: str = "cpu",
) -> list[CompilationResult]:
    """What `compile` takes as a list of one result: a saved program as bytes, for this machine or
    the one that target_triple names. `TypeError` for several programs: each is compiled alone."""
    if isinstance(program, list | tuple | dict):
        raise TypeError(
            f"one program is compiled ahead of time, and this is a {type(program).__name__}"
        )
    from hloom.compiler import compile_result

    return [compile_result(_source(program).module, _options(options), target=target)]


def as_module(program: Any) -> Module:
    """What `compile` takes, as a module."""
    return _source(program).module


def _options(options: Options | Mapping[str, Any] | Iterable[str] | None) -> Options:
    from hloom.base.options import Options

    if isinstance(options, Options):
        return options
    if options is None:
        return Options()
    if isinstance(options, Mapping):
        return Options(options)
    return Options.parsed([options] if isinstance(options, str) else options)


def _source(program: Any) -> Source:
    from hloom.base.diagnostics import UsageError
    from hloom.frontends.source import Source
    from hloom.frontends.stablehlo.recognise import is_file_of_mlir, is_text_of_mlir

    if isinstance(program, str) and ("\n" in program or "{" in program):
        if is_text_of_mlir(program):
            return Source(lambda: parse(program), program.encode(), "stablehlo")
        return Source.of_text(program)
    if isinstance(program, str | Path) and is_file_of_mlir(program):
        return Source(lambda: load(program))
    if isinstance(program, str | Path):
        return Source.of_file(Path(program))
    # Whoever has one of these has imported their homes.
    from hloom.ir.module import Module
    from hloom.ir.proto.files import Loaded

    if isinstance(program, Module):
        return Source.of_module(program)
    if isinstance(program, Loaded):
        return Source.of_module(program.module)
    from hloom.frontends.stablehlo.files import module_of

    if (module := module_of(program)) is not None:
        return Source.of_module(module)
    raise UsageError(
        f"a {type(program).__name__} is no program",
        rule="program",
        hint="give a module, the path of a file, text, or what jax.jit(f).lower(...) gives",
    )
