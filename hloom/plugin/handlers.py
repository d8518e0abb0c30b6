# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Handlers of custom calls that jaxlib and its users have registered, for hloom's own registry.

hloom's own handlers (LAPACK among them) come first; what is left is what users have registered, of
which hloom is told, and then what jaxlib keeps for the CPU itself.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_void_p
from functools import cache
from typing import Any

from hloom.api import Module, is_handled, library_path, register_capsule
from hloom.plugin.callbacks import TARGETS as CALLBACKS
from hloom.plugin.callbacks import have_callbacks

_LAPACK_STARTED: list[bool] = []
_REGISTERED: dict[str, tuple[Any, int]] = {}
"""Capsules, or capsules by stage, and the version of the API, by target."""
_VIEWERS = frozenset(["xla_buffer_python_cpu_callback"])
"""Handlers of jaxlib that show buffers as numpy arrays, which have a byte for each element."""
_PLATFORM = "Host"
"""How jaxlib calls the CPU."""
_CAPSULE_NAME = b"xla._CUSTOM_CALL_TARGET"
"""Of capsules that hold handlers; the capsule keeps the address of these bytes."""


def listen() -> None:
    """Be told of handlers and types for the CPU that users register from here on, or have before.

    jaxlib, which has one listener for each platform, is told as well: of a target it tells no more
    than one function later, neither its stages nor its API.
    """
    from jaxlib import _jax, xla_client

    registered = xla_client._custom_callback_handler.pop(
        _PLATFORM, _jax.register_custom_call_target
    )
    told_type = xla_client._custom_type_id_handler.pop(_PLATFORM, _jax.register_custom_type)

    def on_handler(
        name: str, function: Any, platform: str, api_version: int = 0, traits: Any = 0
    ) -> None:
        registered(name, function, platform, api_version, traits)
        _REGISTERED[name] = (function, api_version)

    def on_type(name: str, registration: Any) -> None:
        told_type(name, registration)
        register_capsule(name, registration)

    xla_client.register_custom_call_handler("cpu", on_handler)
    xla_client.register_custom_type_handler("cpu", on_type)


@cache
def _be_shown_errors() -> None:
    """Let jaxlib show its table to the native side, which makes errors by it: some of jaxlib's own
    handlers (`buffer_callback`'s) take every error for one of these."""
    from jaxlib import _jax

    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
    listener = ctypes.cast(ctypes.CDLL(library_path()).hl_xla_ffi_listener, c_void_p)
    listener_capsule = capsule(listener, _CAPSULE_NAME, None)
    _jax.register_custom_call_target("hloom_listener", listener_capsule, _PLATFORM, 1)


def have_handlers(module: Module) -> None:
    """Register handlers for the custom calls of a module, as far as jaxlib has them."""
    have_handlers_for(
        {
            i.attrs.custom_call_target
            for c in module.computations_in_order()
            for i in c.instructions
            if i.opcode == "custom-call"
        }
    )


def have_handlers_for(targets: set[str]) -> None:
    """The same for the targets of custom calls."""
    missing = [target for target in targets if not is_handled(target)]
    if not missing:
        return
    if any(target in CALLBACKS for target in missing):
        have_callbacks()
    from jaxlib import xla_client

    if any(t.startswith("lapack_") for t in missing) and not _LAPACK_STARTED:
        from jaxlib.cpu import _lapack

        _lapack.initialize()
        _LAPACK_STARTED.append(True)
    _be_shown_errors()
    there = {name: (c, 1) for name, c in xla_client.custom_call_targets(_PLATFORM).items()}
    for target in missing:
        registered = _REGISTERED.get(target) or there.get(target)
        if target not in CALLBACKS and registered is not None:
            register_capsule(target, *registered, packed=target not in _VIEWERS)
