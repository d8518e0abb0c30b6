"""Compiling for the machine that a topology names, which may be another than this one.

A topology's triple, cpu and features are empty where they are this machine's. A program for one
that can do what this one cannot is compiled, can be asked and saved, and fails when it is run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hloom.api import (
    Executable,
    ForeignExecutor,
    HloError,
    Machine,
    Module,
    Options,
    copy_module,
    cpu_target,
    module_cost,
    other_machine,
    verify,
)


class ForeignExecutable:
    """A program that this machine cannot run: what is known of it, as of an `Executable`."""

    def __init__(self, stages: Any, target: Any) -> None:
        self.stages, self.program, self.target = stages, stages.program, target
        self._executor = ForeignExecutor(stages.program, target.machine.triple)

    @property
    def cost(self) -> Any:
        return module_cost(self.stages.module).total


def machine_of(topology: bytes) -> Machine | None:
    """The machine of a saved topology; None where it is this one. Names that LLVM does not know
    are errors: it would end the process, or leave them out."""
    lines = [line.partition(" ") for line in topology.decode(errors="replace").split("\n")]
    facts = {name: value for name, _, value in lines}
    triple, cpu, features = [facts.get(name, "") for name in ("triple", "cpu", "features")]
    if not triple and not cpu and not features:
        return None
    return other_machine(triple, cpu, features)


def compiled_for(
    module: Module, machine: Machine, options: Options
) -> Executable | ForeignExecutable:
    """The program for a machine, which is not looked for in the cache."""
    verify(module)
    target = replace(cpu_target(options), machine=machine)
    stages = target.compile(copy_module(module))
    try:
        return Executable(stages, target=lambda: target)
    except HloError as error:
        if error.rule != "processor":
            raise
    return ForeignExecutable(stages, target)
