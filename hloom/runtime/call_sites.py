"""The custom calls of a program: whether somebody answers each of them.

What their frames always hold is made by the native runtime, once (native/loaded_program.cc).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache

from hloom.base.diagnostics import HloError, UsageError
from hloom.program.call_site import CallSite
from hloom.runtime import ffi, lapack
from hloom.runtime.native import library


class MissingHandlerError(HloError):
    """A program makes custom calls that nobody answers."""


@cache
def have_lapack() -> str | None:
    """Give the runtime a LAPACK, the first time; the path of it, None where there is none.
    `UsageError` where somebody named one that is none."""
    path = lapack.register(library())
    named = os.environ.get(lapack.VARIABLE) or lapack.NONE
    if path is None and named != lapack.NONE:
        raise UsageError(
            f"{lapack.VARIABLE} names {named!r}, which is no library that has LAPACK",
            rule="lapack",
            hint=f"a path, {lapack.NONE} for hloom's own routines, or nothing",
        )
    return path


def check_handlers(sites: Sequence[CallSite]) -> None:
    """Raise `MissingHandlerError` unless somebody answers each of these calls."""
    if any(s.target.startswith("lapack_") for s in sites):
        have_lapack()
    missing = [s for s in sites if not _answers(ffi.find(s.target), s)]
    if missing:
        raise _missing(missing)


def _answers(handler: ctypes.c_void_p | None, site: CallSite) -> bool:
    """Whether it does: those of XLA's FFI take typed calls only, and the older kinds none."""
    if handler is None:
        return False
    native = library()
    older = (native.hl_status_custom_call, native.hl_original_custom_call)
    refusing = older if site.is_typed else (native.hl_xla_ffi_call,)
    return not any(native.hl_custom_call_uses(handler, each) for each in refusing)


def _missing(sites: Sequence[CallSite]) -> MissingHandlerError:
    targets = ", ".join(sorted({s.target for s in sites}))
    first = sites[0]
    more = f" (and {len(sites) - 1} more calls)" if len(sites) > 1 else ""
    missing = (
        f"No FFI handler registered for {targets} on a platform Host"
        if first.is_typed
        else f"No registered implementation for untyped custom call to {targets} for Host"
    )
    hint = (
        f"before compiling, hloom.runtime.ffi.register({first.target!r}, function) takes a Python "
        "function, register_symbol(name, library, symbol) one of a shared library, "
        "register_capsule(name, capsule) what jax.ffi has"
    )
    from hloom.program.thunks.custom_call import PYTHON, made_elsewhere

    hint = made_elsewhere(first.target) or hint
    if first.target in PYTHON:
        hint = (
            "a function of Python is known only in the process of JAX that made the program: run "
            "it there, or take pure_callback, io_callback and jax.debug out of it"
        )
    return MissingHandlerError(
        missing,
        instruction=f"%{first.name}{more}",
        rule="custom-call-handler",
        hint=hint,
    )
