# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Being the compiler of the native library, for JAX or for a program that only knows the library.

Programs in C, Rust and others open it without any Python; when they compile, it starts one by
itself (native/pjrt/embed.cc), which calls `start`. That needs jaxlib, and no JAX.
"""

from __future__ import annotations

import atexit

from hloom.api import HloError, clear_pjrt_compiler, set_pjrt_versions
from hloom.plugin.serving import serve

_is_on = False


def start() -> None:
    """Compile what the native library asks for, until the process ends.

    Again after an end that was none: tests run the functions of `atexit` by hand.
    """
    global _is_on
    if _is_on:
        return
    _is_on = True
    set_pjrt_versions(stablehlo_version())
    serve()
    atexit.register(stop)


def is_on() -> bool:
    """Whether this process compiles for the library."""
    return _is_on


def stop() -> None:
    """Compile nothing more: what is loaded from here on is loaded by the library alone."""
    global _is_on
    _is_on = False
    clear_pjrt_compiler()


def stablehlo_version() -> tuple[int, int, int]:
    """What jaxlib writes: the frontend reads it with the same jaxlib."""
    try:
        from jaxlib.mlir.dialects import stablehlo
    except ImportError as error:
        raise HloError(
            f"StableHLO is read with jaxlib, which cannot be imported: {error}",
            rule="jax-version",
            hint="pip install 'hloom[jax]'",
        ) from None
    major, minor, patch = map(int, stablehlo.get_current_version().split("."))
    return major, minor, patch
