# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Our graph as StableHLO: text, bytecode, or an artifact that other versions read.

What is written goes through MLIR's own parser and verifier, so that nothing wrong comes out.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import Any

from hloom.base.diagnostics import HloError, UsageError
from hloom.base.registry import load_room
from hloom.frontends.stablehlo.bindings import ir, new_context, stablehlo
from hloom.frontends.stablehlo.export.functions import module_text
from hloom.ir.module import Module

ROOM = "hloom.frontends.stablehlo.export"


@cache
def load_exports() -> None:
    """Let every file register what it writes."""
    load_room(ROOM)


def text_of_module(module: Module) -> str:
    """The module as people write StableHLO, with locations."""
    return mlir_of_module(module).operation.get_asm(enable_debug_info=True)


def bytes_of_module(module: Module, format: str) -> bytes:
    """The module in one of the formats of StableHLO."""
    mlir = mlir_of_module(module)
    if format == "stablehlo":
        return mlir.operation.get_asm(enable_debug_info=True).encode()
    if format == "stablehlo-bytecode":
        buffer = BytesIO()
        mlir.operation.write_bytecode(buffer)
        return buffer.getvalue()
    version = stablehlo.get_current_version()
    try:
        return stablehlo.serialize_portable_artifact(mlir, version, True)
    except ValueError as error:
        raise UsageError(f"no artifact can hold it: {error}", rule="mlir-artifact") from None


def mlir_of_module(module: Module, context: Any = None) -> Any:
    """The module of jaxlib's bindings."""
    load_exports()
    text = module_text(module)
    try:
        return ir.Module.parse(text, context or new_context())
    except ir.MLIRError as error:
        messages = "; ".join(d.message for d in error.error_diagnostics) or str(error)
        raise HloError(f"StableHLO cannot hold {module.name}: {messages}", rule="mlir") from None
