# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""`jax.extend.xla.register_hlo_module_transformation`: functions of the user on every program.

JAX hands them to its own compiler, inside of jaxlib, and to plugins through an extension of PJRT.
So both doors of jaxlib are listened at, and what goes through them is kept here, too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from hloom.api import HloError, Module, file_bytes, load_bytes

Transformation = Callable[[bytes], bytes | None]
STAGES = {0: "PRE_SCHEDULER", 1: "POST_SCHEDULER"}
_registered: list[tuple[str, int, Transformation]] = []
"""Name, stage and function, in the order in which they came."""


def listen_for_transformations() -> None:
    """Hear what is registered and cleared from now on, and what JAX tells a new client."""
    try:
        from jaxlib import _xla
    except ImportError:
        return  # before jaxlib 0.10.2
    if hasattr(_xla.register_xla_transform, "heard_by_hloom"):
        return
    for name, hear in (
        ("register_xla_transform", _add),
        ("clear_xla_transform", _remove),
        ("register_xla_transform_c_api", _register),
        ("clear_xla_transform_c_api", _told_to_clear),
    ):
        setattr(_xla, name, _heard(getattr(_xla, name), hear))


def _heard(original: Callable[..., Any], hear: Callable[..., Any]) -> Callable[..., Any]:
    def both(*arguments: Any) -> Any:
        return hear(original, *arguments)

    both.heard_by_hloom = True
    return both


def _add(original: Callable[..., Any], name: str, stage: int, callback: Transformation) -> None:
    original(name, stage, callback)
    _keep(name, stage, callback)


def _keep(name: str, stage: int, callback: Transformation) -> None:
    if not any(n == name and s == stage and c is callback for n, s, c in _registered):
        _registered.append((name, stage, callback))


def _remove(original: Callable[..., Any], name: str, stage: int) -> bool:
    there = [entry for entry in _registered if entry[:2] == (name, stage)]
    for entry in there:
        _registered.remove(entry)
    return original(name, stage) or bool(there)


def _register(
    original: Callable[..., Any], client: Any, name: str, stage: int, callback: Transformation
) -> None:
    if not _is_ours(client):
        original(client, name, stage, callback)
        return
    _keep(name, stage, callback)


def _told_to_clear(original: Callable[..., Any], client: Any, name: str, stage: int) -> bool:
    if not _is_ours(client):
        return original(client, name, stage)
    return _remove(lambda name, stage: False, name, stage)


def _is_ours(where: Any) -> bool:
    """Whether JAX tells this hloom: its client, or from JAX 0.11 on the plugin's functions."""
    version = getattr(where, "platform_version", None)
    if version is not None:
        return "hloom" in version
    from jaxlib import _jax

    return _jax.pjrt_plugin_loaded("hloom") and _address(where) == _address(
        _jax.get_pjrt_plugin("hloom")
    )


def _address(capsule: Any) -> int | None:
    """What a capsule holds."""
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return pointer(capsule, name(capsule))


def transformed(module: Module) -> Module:
    """The module as the registered functions leave it: those of the earlier stage first.

    Both stages run before hloom's own passes, whose products are not HLO that XLA has. The
    arguments and results must stay what they are. `HloError` where a function fails.
    """
    for name, stage, callback in sorted(_registered, key=lambda entry: entry[1]):
        what = f"the transformation {name!r} ({STAGES.get(stage, stage)})"
        try:
            data = callback(file_bytes(module, "proto"))
        except Exception as error:
            raise HloError(f"{what} raised {type(error).__name__}: {error}") from error
        if data is None:
            continue
        module = _in_place_of(module, load_bytes(bytes(data)).module, what)
    return module


def _in_place_of(old: Module, new: Module, what: str) -> Module:
    """The new module with the configuration of the old one, which messages of XLA lack."""
    before, after = (m.entry.program_shape for m in (old, new))
    same = len(before.parameters) == len(after.parameters) and all(
        a.compatible(b)
        for a, b in zip(
            (*before.parameters, before.result), (*after.parameters, after.result), strict=True
        )
    )
    if not same:
        raise HloError(f"{what} changes the arguments or results of the program")
    new.replica_count, new.num_partitions = old.replica_count, old.num_partitions
    new.use_spmd_partitioning = old.use_spmd_partitioning
    return new
