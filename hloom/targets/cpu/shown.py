"""A compiled program as text, at every stage of its compilation; each imports what it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hloom.targets.cpu.target import CpuTarget
    from hloom.targets.stages import Stages


def _hlo(stages: Stages, target: CpuTarget) -> str:
    from hloom.ir.text.show import show_module

    return show_module(stages.scheduled)


def _plan(stages: Stages, target: CpuTarget) -> str:
    from hloom.plan.text import show_buffer_assignment

    return show_buffer_assignment(stages.buffer_assignment)


def _kernels(stages: Stages, target: CpuTarget) -> str:
    from hloom.kernel.text import show_kernels

    return show_kernels(list(stages.lowering.kernels.values()))


def _llvm(stages: Stages, target: CpuTarget) -> str:
    from hloom.codegen.llvm.compile import module_text

    return module_text(target.machine, stages.texts.values(), stages.texts)


def _assembly(stages: Stages, target: CpuTarget) -> str:
    from hloom.codegen.llvm.compile import has_plain_addresses
    from hloom.codegen.llvm.machine import assembly_text

    is_plain = has_plain_addresses(stages.texts.values())
    return assembly_text(_llvm(stages, target), target.machine, target.opt_level, is_plain)


def _thunks(stages: Stages, target: CpuTarget) -> str:
    from hloom.program.text import show_program

    decisions = "".join([f"  {d}\n" for d in stages.decisions])
    text = show_program(stages.program)
    return f"{text}side by side:\n{decisions}" if decisions else text


def _graph(stages: Stages, target: CpuTarget) -> str:
    from hloom.program.picture import show_graph

    return show_graph(stages.program.name, stages.program.thunks)


SHOWN: dict[str, Callable[[Stages, CpuTarget], str]] = {
    "hlo": _hlo,
    "plan": _plan,
    "kernels": _kernels,
    "llvm": _llvm,
    "assembly": _assembly,
    "thunks": _thunks,
    "graph": _graph,
}
"""By the name of the stage, in the order in which compilation makes them."""
