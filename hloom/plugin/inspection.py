# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""`jax.debug.inspect_array_sharding` in programs of several devices: JAX is told while compiling.

The program holds a custom call whose config is a C function and its argument; the function takes a
serialized OpSharding.
"""

from __future__ import annotations

import ctypes
from typing import Any

from hloom.api import HloError, Module, sharding_bytes

TARGET = "InspectSharding"


class _InspectionArguments(ctypes.Structure):
    """What the function takes, and says of an error of its own."""

    _fields_ = [
        ("sharding", ctypes.c_char_p),
        ("sharding_size", ctypes.c_size_t),
        ("error", ctypes.c_void_p),
        ("error_size", ctypes.c_size_t),
        ("error_memory", ctypes.c_void_p),
        ("free_error", ctypes.c_void_p),
    ]


_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(_InspectionArguments))


def name_functions(calls: Any) -> None:
    """Write the addresses in such custom calls of MLIR as text: as they are they are no UTF-8."""
    from jaxlib.mlir import ir

    for op in calls:
        if ir.StringAttr(op.attributes["call_target_name"]).value == TARGET:
            config = ir.StringAttr(op.attributes["backend_config"]).value_bytes
            op.attributes["backend_config"] = ir.StringAttr.get(config.hex())


def tell_shardings(module: Module) -> None:
    """Call the functions, and take their custom calls out of the program."""
    for c in module.computations_in_order():
        for i in list(c.instructions):
            if i.opcode != "custom-call" or i.attrs.custom_call_target != TARGET:
                continue
            (x,) = i.operands
            config = bytes.fromhex("" if i.backend_config is None else i.backend_config.raw)
            _tell(config, b"" if x.sharding is None else sharding_bytes(x.sharding.tiled()))
            c.replace(i, x)
            c.erase(i)


def _tell(config: bytes, sharding: bytes) -> None:
    if len(config) != 16:
        raise HloError(
            f"the config of {TARGET} has {len(config)} bytes, not two addresses",
            rule="inspect-sharding",
        )
    function, argument = (int.from_bytes(config[k : k + 8], "little") for k in (0, 8))
    arguments_ = _InspectionArguments(sharding, len(sharding), None, 0, None, None)
    _FUNCTION(function)(argument, ctypes.byref(arguments_))
    if not arguments_.error:
        return
    words = ctypes.string_at(arguments_.error, arguments_.error_size).decode(errors="replace")
    if arguments_.free_error:
        free = ctypes.CFUNCTYPE(None, ctypes.POINTER(_InspectionArguments))(arguments_.free_error)
        free(ctypes.byref(arguments_))
    raise HloError(f"inspecting a sharding failed: {words}", rule="inspect-sharding")
