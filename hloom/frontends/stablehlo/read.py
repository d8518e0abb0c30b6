# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""From text, bytecode or a portable artifact of StableHLO to our graph.

What is not well formed is refused by MLIR's own parser and verifier, whose messages come out as
`ParseError`s. Programs with dimensions of unknown size are refined first (`refine.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hloom.base.diagnostics import HloError, ParseError, SourceLocation, UsageError
from hloom.frontends.stablehlo.bindings import (
    PassManager,
    allow_quantised_types,
    context_for,
    ir,
    stablehlo,
)
from hloom.frontends.stablehlo.metadata import place_in
from hloom.frontends.stablehlo.program import graph_of
from hloom.frontends.stablehlo.refine import refined
from hloom.frontends.stablehlo.types import DynamicType
from hloom.ir.module import Module
from hloom.types.shape import Shape

_PORTABLE = b"StableHLO_v"


def module_of_text(text: str, file: str | None = None, shapes: Sequence[Shape] = ()) -> Module:
    """The graph of MLIR text; `shapes` are those of the arguments, where the text leaves sizes
    open. Raises `ParseError` with a place.
    """
    with context_for(len(text)) as context:
        if "quant." in text:
            allow_quantised_types(context)
        try:
            parsed = ir.Module.parse(text, context)
        except ir.MLIRError as error:
            raise _refused(error, text, file) from None
        except (ValueError, RuntimeError) as error:  # a number that MLIR itself stumbles over
            raise ParseError(
                f"MLIR cannot read it: {error}", location=SourceLocation(file), rule="mlir"
            ) from None
        if any(op.operation.name.startswith("vhlo.") for op in parsed.body.operations):
            parsed = _of_this_version(parsed, file)
        return imported(parsed, file, text, shapes)


def _of_this_version(versioned: Any, file: str | None) -> Any:
    """The module of VHLO, the form of StableHLO that every version can read, as text."""
    version = stablehlo.get_current_version()
    passes = f"builtin.module(vhlo-to-version{{target={version}}},vhlo-legalize-to-stablehlo)"
    try:
        PassManager.parse(passes, versioned.context).run(versioned.operation)
    except ir.MLIRError as error:
        raise _refused(error, "", file) from None
    return versioned


def module_of_bytes(data: bytes, file: str | None = None, shapes: Sequence[Shape] = ()) -> Module:
    """The graph of bytecode, or of a portable artifact of any version that jaxlib reads."""
    with context_for(len(data)) as context:
        if b"quant" in data:
            allow_quantised_types(context)
        try:
            if _PORTABLE in data[:64]:
                parsed = _deserialized(context, data)
            else:
                parsed = ir.Module.parse(data, context)
        except ir.MLIRError as error:
            raise _refused(error, "", file) from None
        except (ValueError, RuntimeError) as error:
            raise ParseError(
                f"the artifact cannot be read: {error}",
                location=SourceLocation(file),
                rule="mlir-artifact",
            ) from None
        return imported(parsed, file, "", shapes)


def _deserialized(context: Any, data: bytes) -> Any:
    """The module of a portable artifact; what MLIR says of a broken one is in the error."""
    messages: list[str] = []

    def hear(diagnostic: Any) -> bool:
        messages.append(diagnostic.message)
        return True

    handler = context.attach_diagnostic_handler(hear)
    try:
        return stablehlo.deserialize_portable_artifact(context, data)
    except (ValueError, RuntimeError, ir.MLIRError) as error:
        raise ValueError("; ".join(messages) or str(error)) from None
    finally:
        handler.detach()


def imported(
    mlir_module: Any, file: str | None = None, text: str = "", shapes: Sequence[Shape] = ()
) -> Module:
    """The graph of a module of jaxlib's bindings, which stays as it is."""
    if shapes:
        return graph_of(refined(mlir_module, shapes), file, text)
    try:
        return graph_of(mlir_module, file, text)
    except DynamicType as first:
        why = first
    try:
        return graph_of(refined(mlir_module, ()), file, text)
    except (DynamicType, HloError) as error:
        if isinstance(error, HloError) and not isinstance(error, UsageError):
            raise
        raise ParseError(
            f"{why} has a dimension without a size, and what it is does not follow from the "
            "arguments",
            location=SourceLocation(file),
            rule="dynamic",
            hint="give the shapes of the arguments (--shapes f32[8,3],s32[])",
        ) from None


def _refused(error: Any, text: str, file: str | None) -> ParseError:
    """What MLIR's parser or verifier says is wrong, with the place."""
    diagnostics = list(error.error_diagnostics)
    if not diagnostics:
        return ParseError(str(error.message), location=SourceLocation(file), rule="mlir")
    first = diagnostics[0]
    message, hint = first.message.strip(), None
    place = _place(str(first.location), text, file)
    notes = [n.message.strip() for n in first.notes]
    if "unregistered dialect" in message:
        message = "the operation is of a dialect that is not read"
        hint = "programs are of stablehlo, chlo, mhlo, sdy, func and what JAX writes beside them"
    elif notes and "Available dialects" not in notes[0] and place.source is None:
        message += f" ({notes[0].splitlines()[0]})"
    return ParseError(message, location=place, rule="mlir", hint=hint)


def _place(location: str, text: str, file: str | None) -> SourceLocation:
    place = place_in(location)
    if place is None:
        return SourceLocation(file)
    name, line, column = place
    if name != "-":
        return SourceLocation(name, line, column)
    lines = text.splitlines()
    if not 0 < line <= len(lines):
        return SourceLocation(file, line or None, column or None)
    return SourceLocation(file, line, column, lines[line - 1])
