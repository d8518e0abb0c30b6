"""The same programs for other machines: run here where the processor can, compiled only otherwise.

An object may call nothing but the runtime (`hl_*`) and memcpy, memset, memmove: no libm, and none
of the functions that LLVM puts in place of instructions a machine lacks.
"""

from __future__ import annotations

import re

import pytest

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.machine import Machine
from hloom.interp.draw import draw_instance
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.verify import verify
from hloom.targets.cpu.target import CpuTarget
from tests.codegen.llvm.machine_code import undefined_symbols
from tests.fuzz.check_native import MACHINES, NotJudged, Trial, difference
from tests.fuzz.programs_native import drawn_program, drawn_single, single
from tests.fuzz.run_native import in_child

LINUX = "unknown-linux-gnu"
ELSEWHERE = {
    "aarch64": (f"aarch64-{LINUX}", "generic", ""),
    "aarch64-sve": (f"aarch64-{LINUX}", "neoverse-v2", ""),
    "riscv64": (f"riscv64-{LINUX}", "generic-rv64", "+m,+a,+f,+d,+c"),
    "riscv64-v": (f"riscv64-{LINUX}", "generic-rv64", "+m,+a,+f,+d,+c,+v"),
    "sse2": (f"x86_64-{LINUX}", "x86-64", ""),
    "avx512-fp16": (f"x86_64-{LINUX}", "sapphirerapids", ""),
}
ALLOWED = re.compile(r"hl_\w+|mem(cpy|set|move)")
CAPPED = sorted(set(MACHINES) - {"host"})


def modules(seed: int) -> list[Module]:
    """An instance of every opcode that is tried alone, and a few programs."""
    made = [drawn_single(2 * seed + k % 2, opcode) for k, opcode in enumerate(single())]
    return made + [drawn_program(seed + k, True) for k in range(6)]


def all_that_differ(names: list[str], seed: int) -> str:
    """A line for each program that some machine computes otherwise than the interpreter does."""
    lines = []
    for k, module in enumerate(modules(seed)):
        trial = Trial("normal", 0, names[k % len(names)], 1, False)
        try:
            if what := difference(module, trial):
                lines.append(f"{module.entry.root.opcode} for {trial.machine}: {what}")
        except (NotJudged, HloError):
            continue
    return "\n".join(lines)


@pytest.mark.skipif(not Machine.host().is_x86, reason="the host has no older instruction sets")
@pytest.mark.parametrize("names", [CAPPED, CAPPED[1:] + CAPPED[:1]], ids="-".join)
def test_older_machines_compute_the_same(names: list[str]):
    assert in_child(all_that_differ, names, len(names[0])) == ""


def machine_named(name: str) -> Machine:
    try:
        return Machine.of(*ELSEWHERE[name])
    except HloError as error:
        pytest.skip(f"this LLVM does not know {name}: {error.message}")


def unresolved(module: Module, machine: Machine) -> set[str]:
    """What the objects of a program call that the runtime does not have; names of kernels are in
    the objects themselves."""
    stages = CpuTarget(machine).compile(copy_module(module))
    objects = stages.program.objects
    used = set[str]().union(*[undefined_symbols(o) for o in objects])
    return {x for x in used if not ALLOWED.fullmatch(x)} - set(stages.texts)


@pytest.mark.parametrize("name", sorted(ELSEWHERE))
def test_objects_call_the_runtime_only(name: str):
    machine = machine_named(name)
    count = 0
    for module in modules(len(name))[len(name) % 2 :: 2]:
        verify(module)
        try:
            found = unresolved(module, machine)
        except HloError as error:
            if error.rule == "cpu-unsupported":
                continue
            raise
        count += 1
        assert found == set(), f"{module.entry.root}"
    assert count > 40


def test_an_unresolved_name_would_be_noticed():
    from hloom.codegen.llvm.machine import object_bytes

    text = "define float @f(float %x) {\n%r = frem float %x, 3.0\nret float %r\n}"
    made = object_bytes(text, Machine.host(), 1)
    assert undefined_symbols(made) == {"fmodf"}
    assert not ALLOWED.fullmatch("fmodf")
    assert ALLOWED.fullmatch("hl_sort")


def test_the_same_program_for_two_machines_differs():
    module = draw_instance("multiply", 6)
    one, two = (CpuTarget(Machine.of(*ELSEWHERE[n])).compile(copy_module(module)).program.objects
                for n in ("sse2", "aarch64"))  # fmt: skip
    assert one[0][18:20] == b"\x3e\x00"  # EM_X86_64
    assert two[0][18:20] == b"\xb7\x00"  # EM_AARCH64
