"""Texts of functions are written while kernels are lowered, and are the same as written after."""

import pytest

import hloom
from hloom.base.clock import StageClock
from hloom.codegen.llvm.compile import CodeCompiler
from hloom.codegen.llvm.machine import Machine
from hloom.targets.cpu import function_texts
from hloom.targets.cpu.device import device_of
from hloom.targets.cpu.target import CpuTarget
from tests.targets.test_apart import TWO_LOOPS, shares_memory

HOST = Machine.host()
TARGET = CpuTarget(HOST, kernel_device=device_of(HOST, 2))
THREE_KERNELS = """HloModule m
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT
}
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e {
  p = f32[64,64] parameter(0)
  z = f32[] constant(0)
  s = f32[64,64] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[64,64] sort(s), dimensions={1}, to_apply=less
  r = f32[64] reduce(t, z), dimensions={0}, to_apply=add
  x = f32[64] exponential(r)
  ROOT d = f32[64] dot(t, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""


class Code(CodeCompiler):
    """Notes what is added, and in which stage."""

    def __init__(self, clock):
        super().__init__(HOST)
        self.clock, self.added, self.stages, self.drafts = clock, {}, [], 0

    def add(self, name, text, opt_level=None, is_alone=False):
        assert name not in self.added
        self.added[name] = text
        self.stages.append(self.clock._open[-1][0])
        super().add(name, text, opt_level, is_alone)

    def begin_again(self):
        self.drafts += bool(self.added)
        self.added = {}
        super().begin_again()


def written(text):
    """The stages of a program and what is given to the code generator."""
    clock = StageClock()
    code = Code(clock)
    return TARGET.written(hloom.parse(text), clock, code), code, clock


def test_kernels_are_given_while_others_are_lowered():
    stages, code, _ = written(THREE_KERNELS)
    kernels = list(stages.lowering.kernels)
    assert len(kernels) == 3
    assert list(code.added)[: len(kernels)] == kernels
    assert code.stages[: len(kernels)] == ["kernels"] * len(kernels)
    assert set(code.stages[len(kernels) :]) == {"llvm text"}


@pytest.mark.parametrize("text", (THREE_KERNELS, TWO_LOOPS))
def test_early_and_late_are_the_same_functions_in_the_same_order(text):
    early, code, _ = written(text)
    late = TARGET.written(hloom.parse(text))
    assert list(early.texts.items()) == list(late.texts.items()) == list(code.added.items())


def test_a_text_that_fails_early_fails_at_the_end(monkeypatch):
    calls = []

    def fails(kernel, *rest, real=function_texts.kernel_function):
        calls.append(clock.where().split(" for ")[0])
        if len(calls) > 1:
            raise KeyError(kernel.name)
        return real(kernel, *rest)

    clock = StageClock()
    monkeypatch.setattr(function_texts, "kernel_function", fails)
    with pytest.raises(KeyError) as error:
        TARGET.written(hloom.parse(THREE_KERNELS), clock, CodeCompiler(HOST))
    assert "while hloom compiles: kernel" in error.value.__notes__[0]
    assert calls == ["in kernels", "in kernels", "in llvm text"]


def test_a_text_that_fails_once_is_given_once(monkeypatch):
    calls = []

    def fails(kernel, *rest, real=function_texts.kernel_function):
        calls.append(kernel.name)
        if len(calls) == 2:
            raise KeyError(kernel.name)
        return real(kernel, *rest)

    monkeypatch.setattr(function_texts, "kernel_function", fails)
    stages, code, _ = written(THREE_KERNELS)
    monkeypatch.undo()
    assert list(code.added.items()) == list(written(THREE_KERNELS)[0].texts.items())
    assert code.drafts == 1 and len(code.objects()) >= 2
    assert stages.texts == code.added


@shares_memory
def test_another_plan_takes_the_place_of_the_first():
    stages, code, _ = written(TWO_LOOPS)
    assert code.drafts == 1, "the program is not planned twice"
    assert code.added == stages.texts
    assert {name for batch in code.batches for name in batch.names} < set(stages.texts)
    code.objects()
    assert {name for batch in code.batches for name in batch.names} == set(stages.texts)


def test_texts_do_not_count_as_lowering():
    _, _, clock = written(THREE_KERNELS)
    total = sum(clock.seconds.values())
    assert 0 < clock.seconds["llvm text"] < total and clock.seconds["kernels"] > 0
