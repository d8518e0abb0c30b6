# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""jaxlib's MLIR bindings: the one thing here that is not installed with hloom.

Importing this file without jaxlib is one `UsageError`. Every other file takes the bindings from
here. Making a context takes longer than reading a small program, so that small ones are read in one
after another (`context_for`); types and attributes live as long as their context does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hloom.base.diagnostics import UsageError

try:
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext, _stablehlo
    from jaxlib.mlir.dialects import chlo, func, mhlo, sdy, stablehlo
    from jaxlib.mlir.passmanager import PassManager
except ImportError as error:
    raise UsageError(
        f"StableHLO is read and written with jaxlib, which cannot be imported: {error}",
        rule="jaxlib",
        hint="pip install 'hloom[stablehlo]'",
    ) from None

__all__ = [
    "PassManager",
    "allow_quantised_types",
    "chlo",
    "context_for",
    "func",
    "ir",
    "is_call_site",
    "is_file_place",
    "is_fused",
    "is_name",
    "is_stablehlo",
    "mhlo",
    "new_context",
    "sdy",
    "stablehlo",
    "viewed",
]

_stablehlo.register_stablehlo_passes()
inlined_func_call = _jax_mlir_ext.inlined_func_call
DYNAMIC = ir.ShapedType.get_dynamic_size()


def viewed(attribute: Any, kind: str) -> Any:
    """An attribute as the class of this name in whichever dialect it belongs to."""
    for dialect in (stablehlo, mhlo, chlo):
        view = getattr(dialect, kind, None)
        if view is not None and view.isinstance(attribute):
            return view(attribute)
    raise UsageError(f"{attribute} is no {kind}", rule="mlir-attribute")


def is_stablehlo(value: Any, kind: str) -> bool:
    """Whether an attribute or type is of a class of StableHLO, which older jaxlibs may lack."""
    known = getattr(stablehlo, kind, None)
    return known is not None and known.isinstance(value)


def _location_test(class_name: str, method: str) -> Callable[[Any], bool]:
    """Whether a location is of a kind: a class of its own, in jaxlib 0.9 a method of all."""
    kind = getattr(ir, class_name, None)
    return (lambda x: getattr(x, method)()) if kind is None else (lambda x: isinstance(x, kind))


is_name = _location_test("NameLoc", "is_a_name")
is_fused = _location_test("FusedLoc", "is_a_fused")
is_call_site = _location_test("CallSiteLoc", "is_a_callsite")
is_file_place = _location_test("FileLineColLoc", "is_a_file")


def new_context() -> Any:
    """An MLIR context that knows every dialect a program of JAX may use."""
    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    for dialect in (stablehlo, chlo, sdy):
        dialect.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    return context


SMALL_PROGRAM = 64 << 10
"""A program up to so many bytes is read in a context that others were read in."""
MOST_READ = 1 << 20
"""The bytes that a context reads before it goes, with all that was made of it."""
_idle: list[tuple[Any, int]] = []
"""Contexts that nobody uses now, and for how many bytes each was."""


@contextmanager
def context_for(size_bytes: int) -> Iterator[Any]:
    """A context to read a program of this size in, which nobody else uses meanwhile."""
    if size_bytes > SMALL_PROGRAM:
        yield new_context()
        return
    try:
        context, used = _idle.pop()
    except IndexError:
        context, used = new_context(), 0
    yield context  # after an error it is not used again
    if used + size_bytes <= MOST_READ:
        _idle.append((context, used + size_bytes))


def allow_quantised_types(context: Any) -> None:
    """Load the dialect of quantised types: the bindings have no name for it, but a pass that is
    run, if on nothing, loads what it may make."""
    with context:
        empty = ir.Module.parse("module {}")
        PassManager.parse("builtin.module(vhlo-legalize-to-stablehlo)").run(empty.operation)
