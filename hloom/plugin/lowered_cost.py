# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""`lowered.cost_analysis()`: what a program costs before it is compiled.

JAX asks the clients that it is built with, and no plugin: it says None for those. Libraries print
what their layers cost by it, so here the method answers for clients of hloom, by our own count on
the StableHLO that JAX wrote.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from hloom.api import HloError, module_cost, module_of

PLATFORM = "hloom "
"""How the second line of our clients' platform version starts."""


def answer_for_lowerings() -> None:
    """Take over the method of JAX's lowerings, once; a JAX that has another class is left alone."""
    from jax._src.interpreters import pxla

    lowering: Any = getattr(pxla, "MeshComputation", None)
    theirs = getattr(lowering, "cost_analysis", None)
    if theirs is None or hasattr(theirs, "__wrapped__"):
        return

    @wraps(theirs)
    def cost_analysis(self: Any) -> dict[str, float]:
        if not is_ours(getattr(self, "compile_args", {}).get("backend")):
            return theirs(self)
        return cost_of(self)

    lowering.cost_analysis = cost_analysis


def is_ours(client: Any) -> bool:
    """Whether a client of JAX is one of hloom."""
    lines = str(getattr(client, "platform_version", "")).splitlines()
    return any(line.startswith(PLATFORM) for line in lines)


def cost_of(lowering: Any) -> dict[str, float]:
    """The names and units of XLA's analysis; `NotImplementedError` where the program is none of one
    device, which JAX turns into None."""
    try:
        module = module_of(lowering.stablehlo())
    except HloError as error:
        raise NotImplementedError(f"no cost before compiling: {error}") from error
    assert module is not None
    cost = module_cost(module).total
    return {
        "flops": float(cost.flops),
        "transcendentals": float(cost.transcendentals),
        "bytes accessed": float(cost.bytes),
    }
