"""Faults cost no program of several devices, and no C library; nor what only a pass knows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError, UsageError
from hloom.base.faults import CompilerFaultError, CompilerFaultWarning
from hloom.compiler import compile_library
from hloom.passes import PASSES
from hloom.program.c_weights import LibraryRequest, Weights
from hloom.targets.cpu import lowering
from hloom.targets.cpu.lower import hosted
from tests.fuzz.planted import Planted, plants
from tests.small_programs import ADD, STEP
from tests.targets.test_recovery import checked, lenient, raising, unproved

__all__ = ["lenient"]  # a fixture

REDUCED = """HloModule reduced, num_partitions=3
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] all-reduce(x), channel_id=1, replica_groups={{0,1,2}}, use_global_device_ids=true,
    to_apply=add
  p = u32[] partition-id()
  c = f32[] convert(p)
  b = f32[4] broadcast(c), dimensions={}
  ROOT z = f32[4] multiply(y, b) }
"""


def on_devices(exe: hloom.Executable) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for d, got in enumerate(exe.run_devices([[row] for row in x])):
        np.testing.assert_array_equal(got, x.sum(0) * d)


@pytest.mark.parametrize(
    "plant",
    ["kernel fold (writing)", "step lowering (of all-reduce)", "step buffers (places, once)"],
)
def test_programs_of_several_devices_compile_in_spite_of_faults(plant: str) -> None:
    [planted] = [p for p in plants() if str(p) == plant]
    with planted.put(Planted(0)), pytest.warns(CompilerFaultWarning) as seen:
        exe = hloom.compile(REDUCED)
    assert len(seen) == 1 and planted.name in str(seen[0].message)
    on_devices(exe)


def test_the_interpreter_takes_runs_of_several_devices_one_after_another() -> None:
    [planted] = [p for p in plants() if str(p) == "step lowering (of all-reduce)"]
    with planted.put(Planted(0)), pytest.warns(CompilerFaultWarning, match="interpreter"):
        exe = hloom.compile(REDUCED)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(on_devices, [exe] * 8))
    with pytest.raises(UsageError, match="3 devices"):
        exe(np.ones(4, np.float32))


def test_the_interpreter_says_what_a_device_of_several_fails_with() -> None:
    [planted] = [p for p in plants() if str(p) == "step lowering (of all-reduce)"]
    with planted.put(Planted(0)), pytest.warns(CompilerFaultWarning):
        exe = hloom.compile(REDUCED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hosted, "evaluate_lockstep", raising(HloError("no meaning")))
        with pytest.raises(HloError, match="no meaning"):
            exe.run_devices([[np.ones(4, np.float32)]] * 3)
    on_devices(exe)


# -- what only a pass knows


@pytest.mark.parametrize(
    "name, text",
    [
        (
            "linalg-upcaster",
            "HloModule m\nENTRY e { x = bf16[3,3] parameter(0)\n ROOT c = bf16[3,3] "
            "triangular-solve(x, x), left_side=true, lower=true, transpose_a=NO_TRANSPOSE }",
        ),
        (
            "sharding-remover",
            "HloModule m\nENTRY e { x = f32[4,5]{1,0} parameter(0)\n ROOT c = f32[4,5]{0,1} "
            'custom-call(x), custom_call_target="LayoutConstraint" }',
        ),
        (
            "sharding-remover",
            "HloModule m\nENTRY e { x = f32[4] parameter(0)\n b = f32[4] custom-call(x), "
            'custom_call_target="SPMDFullToShardShape"\n ROOT e = f32[4] exponential(b) }',
        ),
        (
            "control-dep-rewriter",
            "HloModule m\nENTRY e { x = f32[4] parameter(0)\n a = f32[4] exponential(x)\n "
            'b = f32[4] negate(x)\n e = () custom-call(b, a), custom_call_target="control_dep", '
            "custom_call_has_side_effect=true\n ROOT r = f32[4] add(a, b) }",
        ),
    ],
)
def test_what_a_pass_writes_out_is_evaluated_without_it(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setattr(PASSES[name], "run", raising(KeyError("planted")))
    message, _ = checked(text)
    assert f"pass {name}: KeyError" in message


# -- C libraries


@pytest.mark.parametrize("plant", ["pass algsimp (at once)", "llvm code generation (of a library)"])
def test_c_libraries_are_made_in_spite_of_faults(plant: str) -> None:
    [planted] = [p for p in plants() if str(p) == plant]
    asked = LibraryRequest("f", "f", Weights("inside"))
    with planted.put(Planted(0)), pytest.warns(CompilerFaultWarning) as seen:
        code = compile_library(hloom.parse(STEP), asked)
    assert len(seen) == 1 and planted.name in str(seen[0].message)
    assert code.object and len(code.faults) == 1


def test_a_c_library_of_which_no_code_can_be_made_is_no_fault_of_the_program() -> None:
    asked = LibraryRequest("f", "f", Weights("inside"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lowering, "admit_kernel", unproved)
        with pytest.raises(CompilerFaultError, match=r"hloom has a fault.*unproved"):
            compile_library(hloom.parse(ADD), asked)
