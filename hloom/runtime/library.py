"""Opens the native library, rebuilding it first in a checkout that holds newer sources.

Why ctypes: no Python.h, so one library serves every Python, and C programs too; every call but
the briefest releases the GIL. The signatures of what Python calls stand here, once.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from ctypes import POINTER, c_char_p, c_int8, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from functools import cache
from pathlib import Path

from hloom.base.alarm import outside_wait
from hloom.base.diagnostics import HloError
from hloom.runtime.native_sources import LIBRARY, BuildError, is_checkout, is_stale

ABI_VERSION = 3

# Statuses by number, as absl::StatusCode has them.
STATUS_NAMES = {
    1: "CANCELLED",
    2: "UNKNOWN",
    3: "INVALID_ARGUMENT",
    4: "DEADLINE_EXCEEDED",
    5: "NOT_FOUND",
    8: "RESOURCE_EXHAUSTED",
    9: "FAILED_PRECONDITION",
    10: "ABORTED",
    12: "UNIMPLEMENTED",
    13: "INTERNAL",
}

HostFunction = ctypes.CFUNCTYPE(c_int32, c_void_p, c_int64, POINTER(c_void_p))
_addresses, _sizes = POINTER(c_void_p), POINTER(c_int64)

# Name -> (result, arguments).
SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "hl_abi_version": (c_int32, []),
    "hl_processor": (c_int32, [c_void_p, c_int32]),
    "hl_missing_features": (c_int64, [c_char_p, c_char_p, c_char_p, c_int64]),
    "hl_has_feature": (c_int32, [c_char_p]),
    "hl_pool_new": (c_void_p, [c_int32]),
    "hl_pool_free": (None, [c_void_p]),
    "hl_pool_threads": (c_int32, [c_void_p]),
    "hl_pool_workers": (c_int32, [c_void_p]),
    "hl_pool_sleeping": (c_int32, [c_void_p]),
    "hl_parallel_for": (None, [c_void_p, c_void_p, c_void_p, c_int64, c_int64]),
    "hl_parallel_for_ns": (None, [c_void_p, c_void_p, c_void_p, c_int64, c_int64, c_int64]),
    "hl_arena_new": (c_void_p, []),
    "hl_arena_delete": (c_int32, [c_void_p]),
    "hl_arena_of_process": (c_void_p, []),
    "hl_arena_alloc": (c_void_p, [c_void_p, c_int64]),
    "hl_arena_free": (c_int32, [c_void_p, c_void_p]),
    "hl_arena_trim": (None, [c_void_p, c_int64]),
    "hl_arena_set_limits": (None, [c_void_p, c_int64, c_int64]),
    "hl_arena_statistics": (None, [c_void_p, _sizes]),
    "hl_guard_alloc": (c_void_p, [c_int64, c_int64, c_int64]),
    "hl_guard_free": (c_int32, [c_void_p]),
    "hl_guard_scratch": (c_void_p, [c_int64, c_int64]),
    "hl_guard_size": (c_int64, [c_void_p]),
    "hl_guard_stray": (c_int64, [c_void_p]),
    "hl_guard_name": (None, [c_void_p, c_char_p]),
    "hl_guard_report_to": (None, [c_int32]),
    "hl_guard_read_only": (None, [c_void_p, c_int32]),
    "hl_guard_check": (None, [_addresses, c_int64]),
    "hl_crash_note": (c_int32, [c_char_p, c_char_p, c_char_p, c_int64]),
    "hl_crash_note_done": (None, []),
    "hl_context_new": (c_void_p, [c_void_p, c_void_p]),
    "hl_context_free": (None, [c_void_p]),
    "hl_context_message": (c_char_p, [c_void_p]),
    "hl_context_set_host_functions": (None, [c_void_p, _addresses, c_int64]),
    "hl_context_set_rng": (None, [c_void_p, c_void_p]),
    "hl_context_set_feeds": (None, [c_void_p, c_void_p, c_void_p, c_int64]),
    "hl_cancel": (None, [c_void_p]),
    "hl_context_root": (c_void_p, [c_void_p]),
    "hl_executor_draw": (None, [c_int64, c_int64]),
    "hl_executor_overlaps": (c_int64, []),
    "hl_set_error_text": (c_int32, [c_void_p, c_int32, c_char_p]),
    "hl_execute": (c_int32, [c_void_p, c_void_p, c_void_p]),
    "hl_devices_new": (c_void_p, [c_int64, c_int64, c_int64, c_int64]),
    "hl_devices_across": (None, [c_void_p, c_void_p, c_int64, c_int64, POINTER(c_int32)]),
    "hl_devices_free": (None, [c_void_p]),
    "hl_devices_abort": (None, [c_void_p, c_int32, c_char_p]),
    "hl_devices_stop": (None, [c_void_p, c_int64]),
    "hl_devices_health": (None, [c_void_p, _sizes]),
    "hl_processes_mpi": (c_void_p, [c_char_p, c_char_p, c_int64]),
    "hl_processes_rank": (c_int64, [c_void_p]),
    "hl_processes_size": (c_int64, [c_void_p]),
    "hl_processes_send": (c_int32, [c_void_p, c_int64, c_char_p, c_int64]),
    "hl_processes_receive": (
        c_int32,
        [c_void_p, c_int64, c_int64, c_void_p, c_char_p, c_int64],
    ),
    "hl_alloc": (c_void_p, [c_void_p, c_int64]),
    "hl_free": (None, [c_void_p, c_void_p]),
    "hl_rng_new": (c_void_p, []),
    "hl_rng_free": (None, [c_void_p]),
    "hl_rng_next": (None, [c_void_p, POINTER(c_uint64), c_uint64, c_uint64]),
    "hl_queue_new": (c_void_p, [c_int64]),
    "hl_queue_free": (None, [c_void_p]),
    "hl_queue_close": (None, [c_void_p]),
    "hl_queue_length": (c_int64, [c_void_p]),
    "hl_queue_push": (c_int32, [c_void_p, _addresses, _sizes, c_int64, c_int64]),
    "hl_queue_pop": (c_int32, [c_void_p, _addresses, _sizes, c_int64, c_int64]),
    "hl_queue_next_sizes": (c_int64, [c_void_p, _sizes, c_int64, c_int64]),
    "hl_load_objects": (
        c_void_p,
        [
            POINTER(c_char_p),
            _sizes,
            POINTER(c_char_p),
            c_int64,
            c_int64,
            POINTER(c_char_p),
            _addresses,
            POINTER(c_int8),
            c_int64,
            c_char_p,
            c_int64,
        ],
    ),
    "hl_fft_plan": (c_int64, [c_int64, c_int64, c_int64, c_void_p]),
    "hl_rng_get_and_update_state": (c_int32, [c_void_p, c_void_p, c_uint64, c_uint64]),
    "hl_crc32": (c_uint32, [c_uint32, c_void_p, c_int64]),
    "hl_program_new": (c_void_p, [c_void_p]),
    "hl_program_release": (None, [c_void_p]),
    "hl_program_run": (c_int32, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "hl_program_run_launch": (
        c_int32,
        [
            *(c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p),
            *(c_int64, c_void_p, c_int64, c_int64, c_int64),
        ],
    ),
    "hl_program_run_devices": (
        c_int32,
        [c_void_p, c_void_p, c_int64, c_void_p, _addresses, _addresses, _addresses],
    ),
    "hl_device_waited_ns": (c_int64, [c_void_p]),
    "hl_last_problem": (None, [c_void_p]),
    "hl_program_context": (c_void_p, [c_void_p]),
    "hl_program_put_back": (None, [c_void_p, c_void_p]),
    "hl_program_infeed": (c_void_p, [c_void_p, c_int64]),
    "hl_program_outfeed": (c_void_p, [c_void_p, c_int64]),
    "hl_program_set_transfers": (None, [c_void_p, c_void_p]),
    "hl_program_symbol": (c_void_p, [c_void_p, c_char_p]),
    "hl_program_code_bytes": (c_int64, [c_void_p]),
    "hl_program_constant": (c_void_p, [c_void_p, c_int64]),
    "hl_program_call_state": (c_void_p, [c_void_p, c_int64]),
    "hl_symbol": (c_void_p, [c_void_p, c_char_p]),
    "hl_loaded_size": (c_int64, [c_void_p]),
    "hl_unload": (None, [c_void_p]),
}

BRIEF = frozenset(("hl_crash_note", "hl_crash_note_done"))
"""What is over before another thread of Python could begin, and is called among such threads: who
lets the GIL go then waits for it, up to the 5 ms that a thread may keep it."""


class LoadError(HloError):
    """Objects that cannot be loaded: malformed, or with symbols that nobody or two define."""


class ExecutionError(HloError):
    """A program, or a routine it called, failed. `status` is the number of STATUS_NAMES."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message, rule=STATUS_NAMES.get(status, str(status)).lower())
        self.status = status


@cache
def library() -> ctypes.CDLL:
    """The open library, with its signatures. Raises BuildError.

    $HLOOM_RUNTIME_LIBRARY names another file, which is then taken as it is.
    """
    if named := os.environ.get("HLOOM_RUNTIME_LIBRARY"):
        path = Path(named)
    else:
        path = _built() if is_checkout() and is_stale() else LIBRARY
    try:
        opened = ctypes.CDLL(str(path))
        version = opened.hl_abi_version()
    except (OSError, AttributeError) as error:
        raise BuildError(
            f"hloom's native runtime cannot be loaded from {path}: {error}",
            rule="native-load",
            hint="reinstall hloom; in a checkout remove the file, and it is built again",
        ) from None
    if version != ABI_VERSION:
        raise BuildError(
            f"{path} has version {version} of the runtime's ABI; {ABI_VERSION} is needed",
            rule="native-load",
            hint="reinstall hloom, or unset HLOOM_RUNTIME_LIBRARY",
        )
    brief = ctypes.PyDLL(str(path), handle=opened._handle)
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(brief if name in BRIEF else opened, name)
        setattr(opened, name, function)
        function.restype, function.argtypes = result, arguments
    if (word := os.environ.get("HLOOM_SUBNORMALS", "")) not in ("", "keep"):
        text = f"HLOOM_SUBNORMALS={word} means nothing: unset it, or set it to `keep`"
        warnings.warn(text, stacklevel=2)
    return opened


def allocated(handle: int | None, what: str) -> int:
    """The handle, if there is one; an error about `what` if memory ran out."""
    if handle is None:
        raise ExecutionError(f"no memory for {what}", 8)
    return handle


def _built() -> Path:
    """The library, made of its sources; what that takes is imported only then."""
    from hloom.runtime.build import build, tell_on_stderr

    with outside_wait("the native runtime of this checkout") as wait:

        def tell(line: str) -> None:
            wait.news = line
            tell_on_stderr(line)

        return build(tell=tell)
