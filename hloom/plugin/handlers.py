# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""Handlers of custom calls that jaxlib and its users have registered, for hloom's own registry.

hloom's own handlers (LAPACK among them) come first; what is left is looked for where jaxlib keeps
the handlers of the CPU.
"""

from __future__ import annotations

from hloom.api import Module, is_handled, register_capsule
from hloom.plugin.callbacks import TARGETS as CALLBACKS
from hloom.plugin.callbacks import have_callbacks

_LAPACK_STARTED: list[bool] = []


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


def have_handlers_for(wanted: set[str]) -> None:
    """The same for the targets of custom calls."""
    missing = [target for target in wanted if not is_handled(target)]
    if not missing:
        return
    if any(target in CALLBACKS for target in missing):
        have_callbacks()
    from jaxlib import xla_client

    if any(t.startswith("lapack_") for t in missing) and not _LAPACK_STARTED:
        from jaxlib.cpu import _lapack

        _lapack.initialize()
        _LAPACK_STARTED.append(True)
    there = dict(xla_client.custom_call_targets("Host"))
    for target in missing:
        if target not in CALLBACKS and (capsule := there.get(target)) is not None:
            register_capsule(target, capsule)
