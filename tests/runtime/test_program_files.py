"""Programs in files: saved, loaded without a compiler, refused with one clear error."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError, UsageError
from hloom.codegen.llvm.machine import Machine
from hloom.ir.copy import copy_module
from hloom.program import container
from hloom.program.saved import program_to_bytes
from hloom.runtime.program_files import replaced
from hloom.targets.cpu.target import CpuTarget
from tests.small_programs import LOOPS

TEXT = """HloModule steps
ENTRY main {
  x = f32[300,7] parameter(0)
  c = f32[7] constant({1, 2, 3, 4, 5, 6, 7})
  b = f32[300,7] broadcast(c), dimensions={1}
  y = f32[300,7] add(x, b)
  i = s32[3] iota(), iota_dimension=0
  ROOT r = (f32[300,7], s32[3]) tuple(y, i)
}
"""
X = np.arange(2100, dtype=np.float32).reshape(300, 7)


@pytest.fixture(scope="module")
def executable():
    return hloom.compile(TEXT)


@pytest.fixture
def path(executable, tmp_path):
    executable.save(tmp_path / "steps.hloom")
    return tmp_path / "steps.hloom"


def test_what_is_loaded_computes_the_same_bits(executable, path):
    loaded = hloom.load_compiled(path)
    for given, wanted in zip(loaded(X), executable(X)):
        assert given.numpy().tobytes() == wanted.numpy().tobytes()
    assert loaded.memory.temp == executable.memory.temp
    assert loaded.as_text("thunks") == executable.as_text("thunks").partition("side by side")[0]
    assert [s.thunk.name for s in loaded.profile(X)] == [
        s.thunk.name for s in executable.profile(X)
    ]
    assert list(loaded.seconds) == ["load"]


def test_what_is_loaded_can_be_saved(path, tmp_path):
    hloom.load_compiled(path).save(tmp_path / "again.hloom")
    assert (tmp_path / "again.hloom").read_bytes() == path.read_bytes()


def test_constants_of_a_large_file_are_mapped(tmp_path):
    weights = np.random.default_rng(0).standard_normal((300, 700)).astype("f")
    b = hloom.Builder("main")
    c = b.constant(weights)
    x = b.parameter(c.shape)
    exe = hloom.compile(b.build(b.add(x, c)))
    exe.save(tmp_path / "large")
    loaded = hloom.load_compiled(tmp_path / "large")
    (data,) = [a.data for a in loaded.program.allocations if a.data is not None]
    assert isinstance(data, memoryview) and len(data) == weights.nbytes
    os.unlink(tmp_path / "large")
    assert (loaded(weights).numpy() == weights + weights).all()


def test_nothing_of_the_compiler_is_imported(path):
    code = (
        "import sys, hloom, numpy as np\n"
        f"run = hloom.load_compiled({str(path)!r})\n"
        "print(run(np.zeros((300, 7), 'f'))[0].numpy()[0].tolist())\n"
        "of = 'frontends ir passes analysis codegen interp kernel memory plan rewrite schedule'\n"
        "rooms = ('llvmlite', *['hloom.' + r for r in of.split()])\n"
        "print([m for m in sys.modules if m.startswith(rooms)])"
    )
    root = Path(__file__).parents[2]
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
    assert out.stdout == "[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]\n[]\n", out.stderr


COMMON = ["hloom.program.thunks", "hloom.program.thunks.thunk"]
"""What every program has of the folder of the kinds."""


def kinds_imported(path):
    """Those of the kinds that a new process imports to load a program and run it on zeros."""
    code = (
        "import sys, hloom, numpy as np\n"
        f"run = hloom.load_compiled({str(path)!r})\n"
        "run(*[np.zeros(s.dims, s.dtype.numpy) for s in run.program.argument_shapes])\n"
        "drawing = ('hloom.program.graph', 'hloom.program.picture')\n"
        "print([m for m in sys.modules if m in drawing])\n"
        "print(sorted(m for m in sys.modules if m.startswith('hloom.program.thunks')))"
    )
    root = Path(__file__).parents[2]
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
    drawing, kinds = out.stdout.split("\n", 1)
    assert drawing == "[]", out.stderr
    return [name for name in ast.literal_eval(kinds) if name not in COMMON]


def test_kinds_that_a_program_has_not_are_not_imported(path, tmp_path):
    assert kinds_imported(path) == ["hloom.program.thunks.kernel"]
    hloom.compile(LOOPS).save(tmp_path / "loops.hloom")
    assert kinds_imported(tmp_path / "loops.hloom") == [
        f"hloom.program.thunks.{name}" for name in ("copy", "kernel", "routine", "sort", "while_")
    ]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("is wrong", lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:]),
        ("bytes has", lambda data: data[:-1]),
        ("bytes has", lambda data: data + b"x"),
        ("cut off|bytes has", lambda data: data[:64]),
        ("no saved program", lambda data: TEXT.encode()),
        ("no saved program", lambda data: b""),
        ("has version 99", lambda data: data[:8] + (99).to_bytes(4, "little") + data[12:]),
    ],
)
def test_what_is_no_saved_program_is_refused(path, name, change):
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(HloError, match=name) as told:
        hloom.load_compiled(path)
    assert told.value.rule == "saved-program"
    assert str(path) in str(told.value)


def test_files_that_cannot_be_opened_are_named(executable, tmp_path):
    for path, what in ((tmp_path / "none", "No such file"), (tmp_path, "no plain file")):
        with pytest.raises((UsageError, HloError), match=what):
            hloom.load_compiled(path)
    with pytest.raises(UsageError, match=r"cannot write .*No such file"):
        executable.save(tmp_path / "none" / "x")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_refused(path):
    os.chown(path, 12345, 12345)
    with pytest.raises(HloError, match="belongs to user 12345") as told:
        hloom.load_compiled(path)
    assert "copy it" in str(told.value)


def test_a_file_that_others_can_write_is_refused(path):
    os.chmod(path, 0o666)
    with pytest.raises(HloError, match="others can write"):
        hloom.load_compiled(path)
    os.chmod(path, 0o644)
    link = path.parent / "link"
    link.symlink_to(path)
    assert hloom.load_compiled(link)(X)[1].numpy().tolist() == [0, 1, 2]


def test_the_umask_says_who_may_read_it(executable, tmp_path):
    for mask, mode in ((0o077, 0o600), (0o002, 0o644)):
        before = os.umask(mask)
        try:
            executable.save(tmp_path / "x")
        finally:
            os.umask(before)
        assert (tmp_path / "x").stat().st_mode & 0o777 == mode


def test_what_was_there_stays_where_writing_fails(tmp_path):
    (tmp_path / "x").write_bytes(b"old")

    def pieces():
        yield b"new"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        replaced(tmp_path / "x", pieces())
    assert (tmp_path / "x").read_bytes() == b"old" and len(list(tmp_path.iterdir())) == 1


def test_a_missing_feature_is_named(tmp_path):
    machine = Machine.of("aarch64-unknown-linux-gnu", "generic")
    if not Machine.host().is_x86:
        machine = Machine.of("x86_64-unknown-linux-gnu", "x86-64-v3")
    program = CpuTarget(machine).compile(copy_module(hloom.parse(TEXT))).program
    (tmp_path / "x").write_bytes(program_to_bytes(program))
    with pytest.raises(HloError, match="was compiled for processors with architecture") as told:
        hloom.load_compiled(tmp_path / "x")
    assert told.value.rule == "processor"


def test_what_has_no_machine_code_is_not_saved(tmp_path):
    simulated = hloom.compile(TEXT, target="sim")
    with pytest.raises(UsageError, match="simulated"):
        simulated.save(tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_a_graph_is_not_there(path):
    loaded = hloom.load_compiled(path)
    for look in (lambda: loaded.cost, lambda: loaded.as_text("hlo"), lambda: loaded.memory.values):
        with pytest.raises(UsageError, match="holds no graph"):
            look()


def test_the_frame_is_that_of_the_cache(path):
    assert container.opened(path.read_bytes())
