"""The names that users of hloom import; everything else is where it is built.

    module = hloom.load("step.hlo")
    hloom.verify(module)
    result = hloom.evaluate(module, *arguments)
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hloom.base.diagnostics import HloError
from hloom.interp import (
    EvalOptions,
    evaluate,
    evaluate_lockstep,
    evaluate_partially,
    random_arguments,
)
from hloom.ir.builder import Builder
from hloom.ir.computation import Computation
from hloom.ir.copy import copy_module, difference
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.proto.files import Loaded, load_text, save
from hloom.ir.proto.files import load as load_file
from hloom.ir.text.options import PRESETS, PrintOptions
from hloom.ir.text.parse import parse_module
from hloom.ir.text.show import fingerprint, show_module
from hloom.ir.verify import VerifyOptions, verify, violations
from hloom.passes import (
    PASSES,
    FixedPoint,
    Pass,
    PassResult,
    Pipeline,
    PipelineOptions,
    pass_named,
)
from hloom.rewrite import Trace
from hloom.types.literal import Literal
from hloom.types.shape import Shape


def load(path: str | Path) -> Module:
    """The module in a file: HLO text, a proto or a snapshot, told apart by content and name.

    `load_file` returns the arguments of a snapshot too. Raises `HloError` with a place.
    """
    return load_file(path).module


def parse(text: str, file: str | None = None) -> Module:
    """The module that HLO text describes; raises `ParseError` with a place."""
    return parse_module(text, file)


def show(module: Module, preset: str = "default", **switches: Any) -> str:
    """The module as HLO text, in one of the presets, with some switches set otherwise."""
    from dataclasses import replace

    from hloom.base.diagnostics import UsageError

    if preset not in PRESETS:
        raise UsageError(f"no print preset {preset!r}", hint=f"known: {', '.join(PRESETS)}")
    return show_module(module, replace(PRESETS[preset](), **switches))


__all__ = [
    "PASSES",
    "PRESETS",
    "Builder",
    "Computation",
    "EvalOptions",
    "FixedPoint",
    "HloError",
    "Instruction",
    "Literal",
    "Loaded",
    "Module",
    "Pass",
    "PassResult",
    "Pipeline",
    "PipelineOptions",
    "PrintOptions",
    "Shape",
    "Trace",
    "VerifyOptions",
    "copy_module",
    "difference",
    "evaluate",
    "evaluate_lockstep",
    "evaluate_partially",
    "fingerprint",
    "load",
    "load_file",
    "load_text",
    "parse",
    "pass_named",
    "random_arguments",
    "save",
    "show",
    "verify",
    "violations",
]
