"""Calls of Python functions from programs: `pure_callback`, `io_callback`, `debug.print`.

JAX compiles them to a custom call whose one attribute is a number, and gives the functions to each
execution as user data: the address of an array of them, and how many there are. Arrays are handed
over as copies, as functions may keep them; tokens are None.
"""

from __future__ import annotations

import ctypes
import traceback
from typing import Any

import numpy as np

from hloom.api import HandlerCall, HandlerError, is_handled, register_handler

PARTITIONED = "xla_ffi_partitioned_python_cpu_callback"
"""Called with what each device has, by one that has arrays on several."""
TARGETS = ("xla_ffi_python_cpu_callback", PARTITIONED)
USER_DATA_TYPE = 7357244197867843242
"""The number of the type of JAX's user data."""


class _Functions(ctypes.Structure):
    """What JAX gives to an execution."""

    _fields_ = [("functions", ctypes.POINTER(ctypes.py_object)), ("count", ctypes.c_size_t)]


def have_callbacks() -> None:
    """Answer these custom calls, once in a process."""
    for target in TARGETS:
        if not is_handled(target):
            register_handler(target, _call)


def _call(call: HandlerCall) -> None:
    index = int(call.attribute("index", "u64"))
    address = call.user_data(USER_DATA_TYPE)
    if not address:
        raise HandlerError("no Python functions were given to this execution", code="INTERNAL")
    functions = _Functions.from_address(address)
    if not 0 <= index < functions.count:
        raise HandlerError(f"there is no Python function {index}", code="INTERNAL")
    function = functions.functions[index]
    arguments = [
        None if is_token else _read_only_copy(array)
        for array, is_token in zip(call.arguments, call.argument_tokens)
    ]
    try:
        returned = function(*arguments)
        _fill(call, returned)
    except HandlerError:
        raise
    except BaseException as error:
        message = traceback.format_exception_only(error)[-1].strip()
        lines = "".join(traceback.format_exception(error)).strip()
        raise HandlerError(
            f"CpuCallback error calling callback: {message}\n{lines[-900:]}", code="INTERNAL"
        ) from None


def _read_only_copy(array: np.ndarray) -> np.ndarray:
    own = array.copy()
    own.flags.writeable = False
    return own


def _fill(call: HandlerCall, returned: Any) -> None:
    """Copy what the function returned to where the program reads it."""
    values = list(returned)
    if len(values) != len(call.results):
        raise ValueError(f"{len(values)} values were returned, {len(call.results)} are wanted")
    for place, is_token, value in zip(call.results, call.result_tokens, values):
        if not is_token:
            np.copyto(place, np.asarray(value), casting="no")
