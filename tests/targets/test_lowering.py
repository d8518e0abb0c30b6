"""Lowering reads a module, its order and its places, and changes none of them."""

from pathlib import Path

import pytest

import hloom
from hloom.codegen.llvm.machine import Machine
from hloom.ir.copy import copy_module, difference
from hloom.plan.text import show_buffer_assignment
from hloom.targets.cpu.lowering import Lowering
from hloom.targets.cpu.target import CpuTarget
from tests.fuzz.size_families import families, names
from tests.targets.test_update import SWAPS, update

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = {
    **{path.stem: path for path in sorted(EXAMPLES.glob("*.hlo"))},
    **{
        f"{name} of 300": families()[name].text(min(300, families()[name].most)) for name in names()
    },
    **{f"update {name}": update(name, again=True) for name in ("computed", "two", "elsewhere")},
    "swaps": SWAPS,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_lowering_leaves_everything_as_it_was(name: str):
    program = PROGRAMS[name]
    module = hloom.load(program) if isinstance(program, Path) else hloom.parse(program)
    target = CpuTarget(Machine.host())
    module, order, assignment, _ = target.planned(module)
    before, text, lines = (
        copy_module(module),
        show_buffer_assignment(assignment),
        hloom.show(module),
    )
    steps = {c: list(instructions) for c, instructions in order.steps.items()}
    callers = {c: list(c.callers) for c in module.computations}
    users = {i: list(i.users) for i in module.instructions()}
    assert Lowering(module, order, assignment, target.device).sequence(module.entry)
    assert difference(before, module) is None
    assert hloom.show(module) == lines
    assert order.steps == steps and show_buffer_assignment(assignment) == text
    assert {c: list(c.callers) for c in module.computations} == callers
    assert {i: list(i.users) for i in module.instructions()} == users
