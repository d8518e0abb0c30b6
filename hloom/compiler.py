"""The spine: from a module to something that runs."""

from __future__ import annotations

from typing import Any

from hloom.codegen.llvm.machine import Machine
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.verify import verify
from hloom.runtime.buffer import Buffer
from hloom.runtime.executor import Executor
from hloom.targets.cpu.target import CpuTarget, Stages
from hloom.types.shape import Shape


class Executable:
    """A compiled module; call it with its arguments."""

    def __init__(self, stages: Stages, threads: int | None = None) -> None:
        self.stages = stages
        self.program = stages.program
        self._executor = Executor(self.program, threads)

    def __call__(self, *arguments: Any) -> Any:
        """The result for these arguments: a `Buffer`, or nested tuples of them."""
        leaves = [leaf for a in arguments for leaf in _leaves(a)]
        results = iter(self._executor.run(leaves))
        return _nested(self.program.result_shape, results)


def _leaves(argument: Any) -> list[Any]:
    if isinstance(argument, tuple | list):
        return [leaf for x in argument for leaf in _leaves(x)]
    return [argument]


def _nested(shape: Shape, leaves: Any) -> Any:
    if shape.is_tuple:
        return tuple([_nested(s, leaves) for s in shape.elements])
    found: Buffer | None = next(leaves)
    return found


def compile_module(module: Module, threads: int | None = None) -> Executable:
    """A native program for a module, which is not changed."""
    verify(module)
    stages = CpuTarget(Machine.host()).compile(copy_module(module))
    return Executable(stages, threads)
