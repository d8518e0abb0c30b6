"""Compiling twice: the second time the program comes from the cache, and is the same."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom.base.installed import installed_version, sources_digest
from hloom.base.options import Options
from hloom.codegen.llvm.machine import Machine
from hloom.compiler import compile_module
from hloom.runtime.cache import program_cache
from hloom.targets import cache_key
from hloom.targets.cache_key import differences, key_parts, program_digest
from hloom.targets.cpu import cache_key as cpu_cache_key
from hloom.targets.cpu.options import cpu_target
from hloom.targets.cpu.target import CpuTarget
from hloom.targets.stages import LaterStages
from hloom.targets.target import target_kind

CPU = target_kind("cpu")

TEXT = """HloModule m

ENTRY e {
  x = f32[5,3] parameter(0)
  y = (f32[5,3], s32[2]) parameter(1)
  y0 = f32[5,3] get-tuple-element(y), index=0
  y1 = s32[2] get-tuple-element(y), index=1
  c = f32[3] constant({1.5, 2, -3}), metadata={op_name="name"}
  d = f32[20] constant({1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20})
  b = f32[5,3] broadcast(c), dimensions={1}
  s = f32[5,3] add(x, b)
  t = f32[5,3] multiply(s, y0)
  ROOT r = (f32[5,3], s32[2], f32[20]) tuple(t, y1, d)
}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HLOOM_CACHE", "1")
    monkeypatch.setenv("HLOOM_CACHE_DIR", str(tmp_path))
    return tmp_path


def arguments():
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    return x, (x * 2 + 1, np.array([7, 8], np.int32))


def test_the_second_time_nothing_is_compiled(folder):
    first = compile_module(hloom.parse(TEXT))
    second = compile_module(hloom.parse(TEXT))
    assert "passes" in first.seconds
    assert set(second.seconds) == {"cache", "load"}
    assert second.program.objects == first.program.objects
    results = [run(*arguments()) for run in (first, second)]
    x, (y0, y1) = arguments()
    wanted = ((x + np.array([1.5, 2, -3], np.float32)) * y0, y1, np.arange(1, 21))
    for result in results:
        assert isinstance(result, tuple)
        for found, right in zip(result, wanted, strict=True):
            assert np.array_equal(found, right)


def test_stages_are_made_when_asked_for(folder):
    first = compile_module(hloom.parse(TEXT))
    module = hloom.parse(TEXT)
    second = compile_module(module)
    assert isinstance(second.stages, LaterStages)
    for stage in ("thunks", "hlo", "plan", "kernels", "llvm", "assembly"):
        assert second.as_text(stage) == first.as_text(stage), stage
    assert second.memory is not None
    assert [r.name for r in second.pass_records] == [r.name for r in first.pass_records]
    assert hloom.show(module) == hloom.show(hloom.parse(TEXT)), "and the module is as it was"
    with pytest.raises(AttributeError):
        _ = second.stages.nothing


def test_a_broken_entry_is_compiled_again(folder):
    compile_module(hloom.parse(TEXT))
    (path,) = folder.glob("*.program")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    again = compile_module(hloom.parse(TEXT))
    assert "passes" in again.seconds
    assert set(compile_module(hloom.parse(TEXT)).seconds) == {"cache", "load"}
    assert again(*arguments())


def test_it_can_be_turned_off(folder, monkeypatch):
    monkeypatch.setenv("HLOOM_CACHE", "0")
    compile_module(hloom.parse(TEXT))
    assert "passes" in compile_module(hloom.parse(TEXT)).seconds
    assert not list(folder.iterdir())


def test_an_error_is_not_kept(folder):
    wrong = hloom.parse(TEXT.replace("f32[5,3] add(x, b)", "f32[5,3] add(x, c)"))
    for _ in range(2):
        with pytest.raises(hloom.HloError):
            compile_module(wrong)
    assert not list(folder.glob("*.program"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("1.5", "1.25"),
        ("19,20}", "19,21}"),
        ("add(x, b)", "subtract(x, b)"),
        ("add(x, b)", 'add(x, b), backend_config={"a":1}'),
        ("f32[5,3] parameter(0)", "f32[5,3]{0,1} parameter(0)"),
        ("HloModule m", "HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }"),
        (" s = ", " sum = "),
    ],
)
def test_what_changes_the_program_changes_its_digest(old, new):
    changed = TEXT.replace(old, new).replace("(s, y0)", "(sum, y0)" if "sum" in new else "(s, y0)")
    assert changed != TEXT
    assert program_digest(hloom.parse(changed)) != program_digest(hloom.parse(TEXT))


def test_what_changes_nothing_does_not():
    other = TEXT.replace('op_name="name"', 'op_name="other"')
    assert program_digest(hloom.parse(other)) == program_digest(hloom.parse(TEXT))


def test_options_and_machine_count():
    module = hloom.parse(TEXT)
    plain = key_parts(CPU, module, Options())
    for name, value in (("cpu_enable_fast_math", True), ("cpu_max_isa", "AVX")):
        other = key_parts(CPU, module, Options().with_(**{name: value}))
        assert {n for n in plain if plain[n] != other[n]} == {"options"}
    same = Options().with_(slow_compile_alarm_seconds=7, cpu_parallel_codegen_split_count=1)
    assert key_parts(CPU, module, same) == plain, "and what changes no code does not"
    assert all("0x" not in value for value in plain.values()), "the same in every process"


def test_another_processor_is_another_program(monkeypatch):
    module = hloom.parse(TEXT)
    plain = key_parts(CPU, module, Options())
    monkeypatch.setattr(cpu_cache_key, "processor_identity", lambda: "another one")
    other = key_parts(CPU, module, Options())
    assert {n for n in plain if plain[n] != other[n]} == {"processor"}
    monkeypatch.setattr(cpu_cache_key, "processor_identity", lambda: None)
    assert Machine.host().cpu in key_parts(CPU, module, Options())["processor"], "LLVM is asked"


def test_why_in_words(folder):
    module = hloom.parse(TEXT)
    compile_module(module)
    cache = program_cache()
    assert cache is not None
    fast = Options().with_(cpu_enable_fast_math=True)
    answer = cache.why(key_parts(CPU, module, fast))
    (line,) = differences(answer.differs)
    assert line == "option cpu_enable_fast_math: False there, True here"
    assert differences({"processor": ("a", "b")}) == ["processor: a there, b here"]


# -- programs that are read from bytes


def files(folder, suffix):
    return sorted(folder.glob(f"*{suffix}"))


@pytest.mark.parametrize("kind", ["path", "string", "text"])
def test_bytes_name_a_program(folder, tmp_path_factory, kind, monkeypatch):
    path = tmp_path_factory.mktemp("programs") / "m.hlo"
    path.write_text(TEXT)
    given = {"path": path, "string": str(path), "text": TEXT}[kind]
    first = hloom.compile(given)
    assert "passes" in first.seconds
    (name,) = files(folder, ".name")
    monkeypatch.setattr(cache_key, "program_digest", None)
    second = hloom.compile(given)
    assert set(second.seconds) == {"cache", "load"}
    assert second.program.objects == first.program.objects
    assert second.as_text("hlo") == first.as_text("hlo"), "read when somebody looks"
    assert len(second(*arguments())) == 3
    # Without its name, or with a name of nothing, it is found as a module.
    monkeypatch.undo()
    for damage in (name.unlink, lambda: name.write_text("?"), lambda: name.write_text("0" * 64)):
        damage()
        with monkeypatch.context() as m:
            m.setenv("HLOOM_CACHE", "1")
            m.setenv("HLOOM_CACHE_DIR", str(folder))
            assert set(hloom.compile(given).seconds) == {"cache", "load"}
        assert name.read_text() == files(folder, ".program")[0].stem


def test_a_changed_file_is_another_program(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("programs") / "m.hlo"
    path.write_text(TEXT)
    hloom.compile(path)
    path.write_text(TEXT.replace("add(x, b)", "subtract(x, b)"))
    changed = hloom.compile(path)
    assert "passes" in changed.seconds
    x, (y0, y1) = arguments()
    wanted = (x - np.array([1.5, 2, -3], np.float32)) * y0
    assert np.array_equal(changed(x, (y0, y1))[0], wanted)
    # Other metadata only: another name of the same program.
    path.write_text(TEXT.replace('op_name="name"', 'op_name="other"'))
    assert set(hloom.compile(path).seconds) == {"cache", "load"}
    assert (len(files(folder, ".program")), len(files(folder, ".name"))) == (2, 3)
    with pytest.raises(hloom.HloError, match="cannot read"):
        hloom.compile(path.with_name("none.hlo"))


def test_a_program_without_parameters_is_not_compiled_to_see_them(folder):
    text = "HloModule m\nENTRY e { ROOT c = f32[] constant(2) }"
    hloom.compile(hloom.parse(text))
    again = hloom.compile(hloom.parse(text))
    assert "module" not in vars(again.stages)
    assert np.asarray(again()) == 2


def test_a_cached_program_needs_no_compiler(folder, tmp_path_factory):
    """Neither LLVM, nor passes, nor graphs are imported to run what is in the cache."""
    path = tmp_path_factory.mktemp("programs") / "m.hlo"
    path.write_text(TEXT)
    hloom.compile(path)
    code = (
        "import sys, hloom, numpy as np\n"
        f"run = hloom.compile({str(path)!r})\n"
        "run(np.zeros((5, 3), 'f'), (np.ones((5, 3), 'f'), np.ones(2, 'i')))\n"
        "rooms = ('llvmlite', *['hloom.' + r for r in\n"
        "    'ir passes analysis codegen interp kernel memory plan rewrite schedule'.split()])\n"
        "print([m for m in sys.modules if m.startswith(rooms)])"
    )
    root = Path(__file__).parents[2]
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
    assert out.stdout.strip() == "[]", out.stdout + out.stderr


def test_versions_are_those_that_are_installed():
    assert installed_version("llvmlite") == version("llvmlite")
    assert installed_version("no_such_package") == "unknown"


def test_sources_count_by_size_and_time(tmp_path):
    (tmp_path / "a").mkdir()
    source = tmp_path / "a" / "x.py"
    source.write_text("one")
    first = sources_digest(tmp_path)
    assert sources_digest(tmp_path) == first
    source.write_text("three")
    assert (second := sources_digest(tmp_path)) != first
    (tmp_path / "a" / "notes.md").write_text("")
    assert sources_digest(tmp_path) == second


def test_one_thread_compiles_alone():
    assert cpu_target(Options(), 1).helpers == 0
    assert cpu_target(Options().with_(cpu_parallel_codegen_split_count=1)).helpers == 0
    assert CpuTarget(Machine.host(), compile_threads=4).helpers == 3


def test_kernels_of_another_program_are_not_compiled_again(folder, monkeypatch):
    from hloom.codegen.llvm import compile as llvm

    texts = []
    real = llvm.object_bytes
    monkeypatch.setattr(llvm, "object_bytes", lambda *a: texts.append(a[0]) or real(*a))
    first = compile_module(hloom.parse(TEXT))
    assert any("@f0(" in text for text in texts)
    texts.clear()
    other = TEXT.replace("HloModule m", "HloModule another").replace(" s = ", " sum = ")
    other = other.replace("multiply(s,", "multiply(sum,").replace("{1,2,3,4", "{9,2,3,4")
    second = compile_module(hloom.parse(other))
    assert len(texts) == 1 and "@hloom_main(" in texts[0]
    for a, b in zip(first(*arguments())[:2], second(*arguments())[:2], strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    assert np.asarray(second(*arguments())[2])[0] == 9
    texts.clear()
    compile_module(hloom.parse(other), cached=False)
    assert len(texts) == 2
