"""The custom calls of a loaded program: handlers found, and what their frames always hold.

Everything that does not change from run to run is made here once, as the structs of
native/call_site.h; a run only adds pointers, on the native side.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Sequence
from functools import cache
from typing import Any

from hloom.base.diagnostics import HloError
from hloom.program.call_site import CallBuffer, CallSite
from hloom.runtime import ffi, lapack
from hloom.runtime.call_frame import Frame, RawAttribute
from hloom.runtime.native import Context, ExecutionError, library
from hloom.runtime.raised import take_raised
from hloom.types.attributes import Attribute, parsed_attributes


class MissingHandlerError(HloError):
    """A program makes custom calls that nobody answers."""


class _Buffer(ctypes.Structure):
    """hl_call_buffer."""

    _fields_ = [
        ("dtype", ctypes.c_int64),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("allocation", ctypes.c_int64),
        ("offset", ctypes.c_int64),
    ]


class _Site(ctypes.Structure):
    """hl_call_site."""

    _fields_ = [
        ("call", ctypes.c_void_p),
        ("operand_count", ctypes.c_int64),
        ("operands", ctypes.POINTER(_Buffer)),
        ("result_count", ctypes.c_int64),
        ("results", ctypes.POINTER(_Buffer)),
        ("attribute_count", ctypes.c_int64),
        ("attributes", ctypes.POINTER(RawAttribute)),
        ("state", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
    ]


@cache
def have_lapack() -> str | None:
    """Give the runtime a LAPACK, the first time; the path of it, None where there is none."""
    return lapack.register(library())


class CallSites:
    """The sites of one executable, instantiated; they end when it is collected."""

    def __init__(self, sites: Sequence[CallSite], context: Context) -> None:
        if any(s.target.startswith("lapack_") for s in sites):
            have_lapack()
        handlers = [ffi.find(s.target) for s in sites]
        missing = [s for s, h in zip(sites, handlers) if not _answers(h, s)]
        if missing:
            raise _missing(missing)
        self.count = len(sites)
        self._alive: list[Any] = []
        self.raw = (_Site * max(self.count, 1))()
        for raw, site, handler in zip(self.raw, sites, handlers):
            raw.call = handler
            raw.name = f"%{site.name} ({site.target})"[:300].encode()
            raw.operand_count, raw.operands = len(site.operands), self._buffers(site.operands)
            raw.result_count, raw.results = len(site.results), self._buffers(site.results)
            frame = Frame([], [], attributes_of(site))
            self._alive.append(frame)
            raw.attribute_count = frame.raw.attribute_count
            raw.attributes = frame.raw.attributes
        self._instantiate(context)

    def attach(self, context: Context) -> None:
        """Let programs that run in this context make these calls; the sites must outlive it."""
        sites = ctypes.byref(self.raw) if self.count else None
        library().hl_context_set_call_sites(
            ctypes.c_void_p(context.handle), sites, ctypes.c_int64(self.count)
        )

    def _buffers(self, buffers: Sequence[CallBuffer]) -> Any:
        made = (_Buffer * max(len(buffers), 1))()
        self._alive.append(made)
        for raw, b in zip(made, buffers):
            dims = (ctypes.c_int64 * max(len(b.dims), 1))(*b.dims)
            self._alive.append(dims)
            raw.dtype, raw.rank = b.dtype, len(b.dims)
            raw.dims = ctypes.cast(dims, ctypes.POINTER(ctypes.c_int64))
            raw.allocation = -1 if b.slice is None else b.slice.allocation.index
            raw.offset = 0 if b.slice is None else b.slice.offset
        return ctypes.cast(made, ctypes.POINTER(_Buffer))

    def _instantiate(self, context: Context) -> None:
        if not self.count:
            return
        weakref.finalize(self, _end, self.raw, self.count).atexit = False
        native = library()
        status = native.hl_call_sites_instantiate(
            ctypes.c_void_p(context.handle), ctypes.byref(self.raw), ctypes.c_int64(self.count)
        )
        if status:
            raised = take_raised(context.handle)
            words = (native.hl_context_message(context.handle) or b"").decode(errors="replace")
            raise ExecutionError(words, status) from raised


def _answers(handler: ctypes.c_void_p | None, site: CallSite) -> bool:
    """Whether it does: those of XLA's FFI take typed calls only, and the older kinds none."""
    if handler is None:
        return False
    native = library()
    older = (native.hl_status_custom_call, native.hl_original_custom_call)
    refusing = older if site.is_typed else (native.hl_xla_ffi_call,)
    return not any(native.hl_custom_call_uses(handler, each) for each in refusing)


def _end(raw: Any, count: int) -> None:
    """Free what handlers keep for the sites."""
    library().hl_call_sites_end(ctypes.byref(raw), ctypes.c_int64(count))
    for k in range(count):
        ffi.forget(ctypes.addressof(raw[k]) + _Site.state.offset)


def attributes_of(site: CallSite) -> dict[str, Attribute]:
    """What the handler is given as attributes: typed ones, or the text of the config."""
    if site.is_typed:
        return parsed_attributes(site.config)
    return {"opaque": site.config}


def _missing(sites: Sequence[CallSite]) -> MissingHandlerError:
    targets = ", ".join(sorted({s.target for s in sites}))
    first = sites[0]
    more = f" (and {len(sites) - 1} more calls)" if len(sites) > 1 else ""
    missing = (
        f"No FFI handler registered for {targets} on a platform Host"
        if first.is_typed
        else f"No registered implementation for untyped custom call to {targets} for Host"
    )
    return MissingHandlerError(
        missing,
        instruction=f"%{first.name}{more}",
        rule="custom-call-handler",
        hint=f"before compiling, hloom.runtime.ffi.register({first.target!r}, function) takes a"
        " Python function, register_symbol(name, library, symbol) one of a shared library,"
        " register_capsule(name, capsule) what jax.ffi has",
    )
