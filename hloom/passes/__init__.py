"""Passes: named steps from a module to a better one, and pipelines of them."""

import dataclasses
from typing import Any

from hloom.base.diagnostics import UsageError, did_you_mean
from hloom.passes.pass_ import PASSES, Pass, PassResult, RewritePass, register
from hloom.passes.pipeline import FixedPoint, Pipeline, PipelineOptions


def pass_named(name: str, **options: Any) -> Pass:
    """The pass of this name with these options; an unknown one is a `UsageError`."""
    if name not in PASSES:
        hint = did_you_mean(name, PASSES) or f"known: {', '.join(sorted(PASSES))}"
        raise UsageError(f"no pass named {name!r}", rule="pass-name", hint=hint)
    cls = PASSES[name]
    known = {f.name for f in dataclasses.fields(cls)}
    if unknown := set(options) - known:
        raise UsageError(
            f"pass {name} has no option {sorted(unknown)[0]!r}",
            rule="pass-option",
            hint=did_you_mean(sorted(unknown)[0], known) if known else "it has none",
        )
    return cls(**options)


__all__ = [
    "PASSES",
    "FixedPoint",
    "Pass",
    "PassResult",
    "Pipeline",
    "PipelineOptions",
    "RewritePass",
    "pass_named",
    "register",
]
