"""Faults of the compiler cost a program some speed and the user one warning, and nothing else."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError
from hloom.base.faults import CompilerFaultError, CompilerFaultWarning
from hloom.compiler import compile_module
from hloom.kernel.proof.prove import Proof
from hloom.passes import PASSES
from hloom.runtime import fault_reports
from hloom.runtime.fault_reports import MOST_REPORTS, report_folder
from hloom.runtime.native import LoadError
from hloom.targets.cpu import function_texts, lowering, recovery
from hloom.targets.cpu import target as cpu_target
from hloom.targets.cpu.explain import explained
from tests.fuzz.planted import Planted, plants
from tests.small_programs import ADD, LOOPS, NESTED, STEP
from tests.targets.test_refused import LOOP_IN_REDUCER

COLUMNS = """HloModule columns
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY main {
  x = f32[100,64] parameter(0)
  y = f32[100,64] exponential(x)
  zero = f32[] constant(0)
  s = f32[64] reduce(y, zero), dimensions={0}, to_apply=sum
  ROOT r = f32[64] sqrt(s)
}
"""


@pytest.fixture(autouse=True)
def lenient(monkeypatch, tmp_path):
    """As users have it, with reports in a folder of the test's."""
    monkeypatch.setenv("HLOOM_STRICT", "0")
    monkeypatch.setenv("HLOOM_REPORT_DIR", str(tmp_path))


def raising(error):
    def fails(*_, **__):
        raise error

    return fails


def unproved(kernel):
    raise HloError("unproved")


def checked(text: str) -> tuple[str, hloom.Executable]:
    """The one warning of a compilation, whose program is compared with the interpreter."""
    module = hloom.parse(text)
    arguments = hloom.random_arguments(module, 0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        exe = hloom.compile(module)
    [warning] = seen
    assert warning.category is CompilerFaultWarning
    assert warning.filename == __file__
    given = [leaf.array for a in arguments for leaf in a.leaves()]
    wanted = hloom.evaluate(module, *arguments)
    made = exe(*(arguments if len(given) != len(module.entry.parameters) else given))
    for got, want in zip(flat(made), wanted.leaves(), strict=True):
        np.testing.assert_allclose(got.numpy(), want.array, rtol=1e-5)
    return str(warning.message), exe


def flat(made):
    return [x for part in made for x in flat(part)] if isinstance(made, tuple) else [made]


def test_the_warning_and_the_executable_say_what_was_left_out(monkeypatch):
    monkeypatch.setattr(PASSES["algsimp"], "run", raising(StopIteration("no dimension")))
    said, exe = checked(STEP)
    assert "pass algsimp: StopIteration: no dimension (that pass was left out)" in said
    [fault] = exe.faults
    assert fault.culprit.name == "algsimp" and "algsimp" not in [r.name for r in exe.pass_records]


def test_explain_says_who_wrote_a_kernel_and_what_was_left_out(monkeypatch):
    module = hloom.parse(COLUMNS)
    rows = explained(module, "kernels").rows
    assert [(r.opcode, r.verdict) for r in rows] == [("fusion", "columns")]
    monkeypatch.setattr(lowering, "admit_kernel", unproved)
    rows = explained(module, "kernels").rows
    assert "unproved" in rows[0].why
    assert {r.verdict for r in rows} == {"columns left out", "loops left out", "interpreter"}


def test_without_faults_nothing_is_said(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert hloom.compile(ADD).faults == []
    assert not list(tmp_path.iterdir())


def test_a_strict_compilation_raises_what_was_raised(monkeypatch):
    error = StopIteration("no dimension")
    monkeypatch.setattr(PASSES["algsimp"], "run", raising(error))
    with pytest.raises(StopIteration) as caught:
        hloom.compile(ADD, options={"strict_compilation": True})
    assert caught.value is error
    monkeypatch.setenv("HLOOM_STRICT", "1")
    with pytest.raises(StopIteration):
        hloom.compile(ADD)
    with pytest.warns(CompilerFaultWarning):
        hloom.compile(ADD, options={"strict_compilation": False})


def test_an_interrupt_is_no_fault(monkeypatch):
    monkeypatch.setattr(PASSES["algsimp"], "run", raising(KeyboardInterrupt()))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyboardInterrupt):
            hloom.compile(ADD)
        monkeypatch.setattr(PASSES["algsimp"], "run", raising(SystemExit()))
        with pytest.raises(SystemExit):
            hloom.compile(ADD)


def test_a_warning_made_an_error_is_an_error(monkeypatch):
    monkeypatch.setattr(PASSES["algsimp"], "run", raising(KeyError(1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(CompilerFaultWarning):
            hloom.compile(ADD)


def test_what_cannot_run_is_refused_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(HloError, match="while in what combines or compares"):
            hloom.compile(LOOP_IN_REDUCER)


def test_a_fault_is_told_where_the_program_is_then_refused_for_another_reason(monkeypatch):
    monkeypatch.setattr(PASSES["algsimp"], "run", raising(StopIteration("no dimension")))
    asked = 'y = f32[4] add(x, x) ROOT r = f32[4] custom-call(y), custom_call_target="nobody"'
    told = pytest.warns(CompilerFaultWarning, match="pass algsimp")
    with told, pytest.raises(HloError, match="No registered implementation"):
        hloom.compile(f"HloModule asked\nENTRY e {{ x = f32[4] parameter(0) {asked} }}")


def test_a_degraded_program_is_not_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("HLOOM_CACHE", "1")
    monkeypatch.setenv("HLOOM_CACHE_DIR", str(tmp_path / "cache"))
    with monkeypatch.context() as patch:
        patch.setattr(PASSES["algsimp"], "run", raising(KeyError(1)))
        with pytest.warns(CompilerFaultWarning):
            hloom.compile(ADD)
    assert not list(tmp_path.glob("cache/*.program"))
    hloom.compile(ADD)
    assert len(list(tmp_path.glob("cache/*.program"))) == 1


# -- reports


def test_a_report_holds_the_program_and_shows_the_fault_again(monkeypatch, tmp_path):
    monkeypatch.setattr(PASSES["algsimp"], "run", raising(StopIteration("no dimension")))
    said, _ = checked(STEP)
    [report] = tmp_path.iterdir()
    assert f"report it with {report}" in said
    text = report.read_text()
    for words in ("with its constants", "no values that it was called with", "Traceback", "hloom:"):
        assert words in text
    module = hloom.load(report)
    assert hloom.difference(module, hloom.parse(STEP)) is None
    with pytest.raises(StopIteration):
        hloom.compile(module, options={"strict_compilation": True})
    checked(STEP)
    assert list(tmp_path.iterdir()) == [report]
    assert report.stat().st_mode & 0o077 == 0


def test_reports_are_bounded_and_need_no_place(monkeypatch, tmp_path):
    fault = recovery.Fault(recovery.Culprit("pass", "cse"), "KeyError", "it was left out")
    for k in range(MOST_REPORTS + 5):
        fault_reports.write_report("m", "text", [fault], f"program {k}", tmp_path)
    assert len(list(tmp_path.iterdir())) == MOST_REPORTS
    (tmp_path / "file").write_text("")
    assert fault_reports.write_report("m", "", [fault], "", tmp_path / "file" / "in") is None
    assert report_folder({"HLOOM_REPORT_DIR": "/somewhere"}).as_posix() == "/somewhere"
    monkeypatch.setenv("HLOOM_REPORT_DIR", str(tmp_path / "file" / "in"))
    monkeypatch.setattr(PASSES["algsimp"], "run", raising(KeyError(1)))
    assert "report it with" not in checked(ADD)[0]


# -- what is done instead


def test_a_kernel_that_is_refused_is_written_by_another_family(monkeypatch):
    families: list[str] = []

    def refuses(kernel):
        if not families:
            families.append(kernel.name)
            raise HloError("element 64 of 64 would be stored", rule="kernel-bounds")
        return Proof()

    assert "columns" in {c.name for c in hloom.compile(COLUMNS).stages.lowering.families.values()}
    monkeypatch.setattr(lowering, "admit_kernel", refuses)
    said, exe = checked(COLUMNS)
    assert "kernel columns at" in said and "element 64 of 64 would be stored" in said
    assert {c.name for c in exe.stages.lowering.families.values()} == {"loops"}


def test_without_any_family_the_interpreter_evaluates_it(monkeypatch):
    monkeypatch.setattr(lowering, "admit_kernel", unproved)
    for text in (ADD, STEP, NESTED, LOOPS, COLUMNS):
        said, exe = checked(text)
        assert "is evaluated by the interpreter" in said or text is LOOPS
        assert not exe.stages.lowering.kernels


LAYOUTS = """HloModule layouts
ENTRY main {
  x = f32[3,4]{0,1} parameter(0)
  y = bf16[3,4] convert(x)
  z = s4[5] parameter(1)
  ROOT r = (bf16[3,4]{0,1}, s4[5]) tuple(y, z)
}
"""
DYNAMIC = """HloModule dynamic
ENTRY main {
  x = f32[<=8,3] parameter(0)
  ROOT y = f32[<=8,3] negate(x)
}
"""
DYNAMIC_CALL = """HloModule dynamic_call
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
total {
  x = f32[<=8,3] parameter(0)
  square = f32[<=8,3] multiply(x, x)
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(square, zero), dimensions={0,1}, to_apply=sum
}
ENTRY main {
  x = f32[<=8,3] parameter(0)
  ROOT y = f32[] call(x), to_apply=total
}
"""


def test_a_whole_program_by_the_interpreter(monkeypatch):
    def fails(module, *rest, real=cpu_target.assign_buffers):
        if all(i.opcode != "custom-call" for i in module.entry.instructions):
            raise AssertionError("no place")
        return real(module, *rest)

    monkeypatch.setattr(cpu_target, "assign_buffers", fails)
    for text in (ADD, STEP, NESTED, LAYOUTS):
        said, exe = checked(text)
        assert "the interpreter evaluates the whole program, slowly" in said
        assert "step buffers: AssertionError: no place" in said
        assert [t.kind for t in exe.thunks] in (["Interpreter"], ["Interpreter", "Copy"])
    exe = hloom.compile(DYNAMIC)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(np.asarray(exe(x)), -x)


HALVES = """HloModule halves
apart { p = f32[8] parameter(0)  ROOT r = f32[8] sine(p) }
ENTRY main {
  x = f32[8] parameter(0)
  start = ((f32[8]), f32[8], u32[]) async-start(x), calls=apart
  middle = ((f32[8]), f32[8], u32[]) async-update(start)
  y = f32[8] exponential(x)
  done = f32[8] async-done(middle)
  begun = (f32[8], f32[8], u32[]) copy-start(done)
  z = f32[8] copy-done(begun)
  ROOT r = f32[8] add(y, z)
}
"""


@pytest.mark.parametrize("half_done", [False, True])
def test_halves_of_operations_without_the_pass_that_joins_them(monkeypatch, half_done):
    whole_run = PASSES["async-simplifier"].run

    def fails(self, module, **how):
        if half_done:
            whole_run(self, module, **how)
        raise RuntimeError("no way")

    monkeypatch.setattr(PASSES["async-simplifier"], "run", fails)
    said, exe = checked(HALVES)
    assert "pass async-simplifier: RuntimeError: no way (that pass was left out)" in said
    kinds = ("Interpreter", "Call", "AsyncStart", "AsyncDone")
    assert [t.kind for t in exe.thunks if t.kind in kinds] == ["AsyncStart", "AsyncDone"]


def test_sizes_of_run_time_without_the_pass_for_them(monkeypatch):
    """The bounds would be computed with as if they were sizes."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for name in ("dynamic-padder", "call-inliner"):
        with monkeypatch.context() as patch:
            patch.setattr(PASSES[name], "run", raising(KeyError(1)))
            with pytest.warns(CompilerFaultWarning, match=name):
                exe = hloom.compile(DYNAMIC_CALL)
            assert np.asarray(exe(x)).tolist() == 55.0
    with pytest.raises(HloError, match="run-time size"):
        hloom.compile(DYNAMIC_CALL, options={"disable_hlo_passes": "dynamic-padder"})


def test_what_nothing_helps_against_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(function_texts, "main_text", raising(KeyError("slot")))
    with pytest.raises(CompilerFaultError, match="step main function: KeyError: 'slot'") as caught:
        hloom.compile(ADD)
    assert isinstance(caught.value.__cause__, KeyError)


def test_no_memory_stays_no_memory(monkeypatch):
    monkeypatch.setattr(function_texts, "main_text", raising(MemoryError()))
    with pytest.raises(MemoryError):
        hloom.compile(ADD)


def test_deep_in_a_callers_recursion_there_is_no_fault():
    frame, used = sys._getframe(), 0
    while frame is not None:
        frame, used = frame.f_back, used + 1

    def below(depth: int) -> hloom.Executable:
        return below(depth - 1) if depth else hloom.compile(STEP)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for left in (45, 60, 90, 150, 250, 320):
            assert below(sys.getrecursionlimit() - used - left).faults == []


def test_code_that_cannot_be_linked(monkeypatch):
    real = function_texts.main_text

    def text(entry, thunks, device):
        made = real(entry, thunks, device)
        if any(t.kind == "Interpreter" for t in thunks):
            return made
        return f"declare void @nobody()\n{made}".replace(
            "ret i32 0", "call void @nobody()\n  ret i32 0"
        )

    monkeypatch.setattr(function_texts, "main_text", text)
    said, _ = checked(ADD)
    assert "llvm linking: LoadError" in said and "nobody" in said
    with pytest.raises(LoadError):
        hloom.compile(ADD, options={"strict_compilation": True})


def test_who_compiles_may_take_the_words(monkeypatch):
    monkeypatch.setattr(PASSES["algsimp"], "run", raising(KeyError(1)))
    told: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_module(hloom.parse(ADD), warn=told.append)
    assert len(told) == 1 and "pass algsimp" in told[0]


def test_a_random_state_goes_on_in_the_interpreter(monkeypatch):
    text = """HloModule states
    ENTRY e { a = u64[2] rng-get-and-update-state(), delta=3
      b = u64[2] rng-get-and-update-state(), delta=2, control-predecessors={a}
      ROOT t = (u64[2], u64[2]) tuple(a, b) }"""
    wanted = hloom.compile(text)
    registry = lowering.CPU_LOWERS
    items = {**registry._items, "rng-get-and-update-state": raising(KeyError("state"))}
    monkeypatch.setattr(registry, "_items", items)
    with pytest.warns(CompilerFaultWarning, match="rng-get-and-update-state"):
        exe = hloom.compile(text)
    for _ in range(3):
        for got, want in zip(exe(), wanted(), strict=True):
            np.testing.assert_array_equal(got.numpy(), want.numpy())


@pytest.mark.parametrize("plant", plants()[::7], ids=str)
def test_planted_faults(plant):
    """One in seven of those that `python -m tests.fuzz.plant_faults` plants in many programs."""
    fault = Planted(0)
    with plant.put(fault), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for text in (STEP, COLUMNS, LOOPS):
            module = hloom.parse(text)
            arguments = hloom.random_arguments(module, 1)
            before, fault.count = len(seen), 0
            made = hloom.compile(module)(*[a.array for a in arguments])
            told = [str(w.message) for w in seen[before:]]
            assert len(told) == (1 if fault.count else 0)
            assert all(plant.name in words for words in told)
            wanted = hloom.evaluate(module, *arguments)
            for got, want in zip(flat(made), wanted.leaves(), strict=True):
                np.testing.assert_allclose(got.numpy(), want.array, rtol=1e-5)
