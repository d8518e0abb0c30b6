"""What CONTRIBUTING.md says of a target and of a memory space: each is one file or folder."""

import dataclasses

import numpy as np
import pytest

import hloom
import hloom.targets
from hloom.device.device import MemorySpace
from hloom.device.known import known_device
from hloom.device.text import show_device
from hloom.interp import evaluate
from hloom.plan.buffer_assignment import BufferAssignment
from hloom.program.program import Parameter, Program, Result
from hloom.schedule.least_memory import order_as_it_stands
from hloom.targets.stages import Stages
from hloom.targets.target import TARGETS, names, target_kind

TEXT = """HloModule m
ENTRY e {
  x = f32[3,4] parameter(0)
  c = f32[3,4]{1,0:S(3)} cosine(x)
  n = f32[3,4]{1,0:S(3)} negate(c)
  ROOT r = f32[3,4] add(n, x)
}"""


class InterpreterTarget:
    """Compiles nothing: the interpreter is its machine."""

    device = known_device("sim")
    is_strict = True

    def check(self, module):
        """It runs everything."""

    def compiled(self, module, clock, fault=None):
        entry, result = module.entry, module.entry.root.shape
        program = Program(
            module.name,
            [],
            (),
            [Parameter(p.attrs.number, (), p.shape, None) for p in entry.parameters],
            [Result((), result, None)],
            result,
            [],
            argument_shapes=[p.shape for p in entry.parameters],
        )
        return Stages(module, order_as_it_stands(module), BufferAssignment([], {}), None, program)


class InterpreterExecutor:
    def __init__(self, module):
        self.module = module
        self.interruptible = False

    def run(self, leaves):
        return [evaluate(self.module, *leaves).array]


class InterpreterKind:
    """The one file of a target: what it is called, how it compiles, what runs its programs."""

    stages = ("hlo",)

    def __init__(self, detail=""):
        self.name = "interpreter"

    def unread(self, options):
        return []

    def is_cacheable(self, options):
        return False

    def key_parts(self, options):
        return {}

    def target(self, options, threads=None, cache=None):
        return InterpreterTarget()

    def executor(self, stages, threads=None):
        return InterpreterExecutor(stages.module)

    def notice(self, module, options, faults):
        return ""


@pytest.fixture
def interpreter():
    TARGETS.add("interpreter", InterpreterKind)
    yield
    del TARGETS._items["interpreter"]
    target_kind.cache_clear()


def test_a_target_is_one_file(interpreter):
    x = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    found = hloom.compile(TEXT, target="interpreter")(x)
    np.testing.assert_allclose(np.asarray(found), x - np.cos(x), rtol=1e-6)


def test_a_memory_space_is_a_few_lines_of_a_file(tmp_path):
    with pytest.raises(hloom.HloError, match=r"has no memory space S\(3\)"):
        hloom.compile(TEXT, target="sim")
    sim = known_device("sim")
    space = MemorySpace(id=3, name="mine", size_bytes=4096, bandwidth_bytes_per_s=1e12)
    device = dataclasses.replace(sim, memory_spaces=(*sim.memory_spaces, space))
    file = tmp_path / "mine.toml"
    file.write_text(show_device(device))
    x = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    for target in (f"sim:{file}", f"cpu:{file}"):
        executable = hloom.compile(TEXT, target=target)
        np.testing.assert_allclose(np.asarray(executable(x)), x - np.cos(x), rtol=1e-6)
        assert 3 in {a.space for a in executable.program.allocations}
        assert "in S(3)" in executable.as_text("plan")
        assert executable.memory.by_space[3] >= 48


def test_the_folder_of_a_target_is_its_name(tmp_path, monkeypatch):
    (tmp_path / "echo").mkdir()
    (tmp_path / "echo" / "__init__.py").write_text("")
    (tmp_path / "echo" / "kind.py").write_text(
        "from hloom.targets.target import TARGETS\nTARGETS.add('echo', lambda detail: detail)\n"
    )
    monkeypatch.setattr(hloom.targets, "__path__", [*hloom.targets.__path__, str(tmp_path)])
    try:
        assert "echo" in names() and target_kind("echo:twice") == "twice"
    finally:
        TARGETS._items.pop("echo", None)
        target_kind.cache_clear()
    with pytest.raises(hloom.HloError, match="no target 'ecko'"):
        hloom.compile(TEXT, target="ecko")


@pytest.mark.parametrize("space", [5, 6])
def test_a_processor_has_memory_of_the_host(space):
    """What JAX's programs ask for is there, apart from the rest."""
    x = np.linspace(0, 1, 12, dtype=np.float32).reshape(3, 4)
    executable = hloom.compile(TEXT.replace("S(3)", f"S({space})"))
    np.testing.assert_allclose(np.asarray(executable(x)), x - np.cos(x), rtol=1e-6)
    assert {a.space for a in executable.program.allocations} == {0, space}


def test_a_program_of_a_machine_with_other_memory_runs_here():
    text = """HloModule ahead, entry_computation_layout={(f32[8,16]{1,0:S(1)})->f32[8,16]{1,0}}
ENTRY e {
  p = f32[8,16]{1,0:S(1)} parameter(0)
  cs = (f32[8,16]{1,0:S(3)}, f32[8,16]{1,0:S(1)}, u32[]{:S(2)}) copy-start(p)
  n = f32[8,16]{1,0:S(1)} negate(p)
  cd = f32[8,16]{1,0:S(3)} copy-done(cs)
  ROOT r = f32[8,16]{1,0} subtract(cd, n)
}"""
    x = np.linspace(0, 1, 128, dtype=np.float32).reshape(8, 16)
    with pytest.warns(UserWarning, match=r"%e/%p: .* no memory space S\(1\), S\(2\), S\(3\)"):
        step = hloom.compile(text)
    np.testing.assert_array_equal(np.asarray(step(x)), x + x)
    with pytest.raises(hloom.HloError, match=r"has no memory space S\("):
        hloom.compile(text, target="sim")
