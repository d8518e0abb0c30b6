"""Programs compiled ahead of time as results: one for one module, loaded once, for any machine."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import hloom
from hloom.api import Machine
from hloom.program.saved import program_from_bytes, program_to_bytes

TEXT = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] sine(x)
  ROOT z = f32[4] add(x, y)
}"""
X = np.arange(4, dtype=np.float32)
HERE = Machine.host()


def result():
    results = hloom.compile_ahead_of_time(TEXT)
    assert len(results) == 1
    return results[0]


def test_one_program_gives_a_list_of_one_result():
    wanted = np.asarray(hloom.compile(TEXT)(X)).tobytes()
    assert np.asarray(result().load()(X)).tobytes() == wanted
    for several in ([TEXT], (TEXT, TEXT), {"a": TEXT}):
        with pytest.raises(TypeError, match="one program is compiled ahead of time"):
            hloom.compile_ahead_of_time(several)


def test_loading_consumes_the_result():
    once = result()
    data = bytes(once)
    once.load()
    for again in (once.load, lambda: bytes(once)):
        with pytest.raises(hloom.HloError, match="is loaded once, and this one has been"):
            again()
    assert hloom.CompilationResult(data).load()(X) is not None


@pytest.mark.parametrize("data", [b"", b"nonsense", bytes(4096)], ids=["", "nonsense", "zeros"])
def test_bytes_that_are_none(data):
    with pytest.raises(hloom.HloError, match=r"^Failed to parse serialized program: "):
        hloom.CompilationResult(data).load()


def test_a_result_that_cannot_be_loaded_is_still_there():
    other = "aarch64-unknown-linux-gnu" if HERE.is_x86 else "x86_64-unknown-linux-gnu"
    (foreign,) = hloom.compile_ahead_of_time(TEXT, {"target_triple": other})
    for _ in range(2):
        with pytest.raises(hloom.HloError, match=other.split("-")[0]):
            foreign.load()
    processor = program_from_bytes(bytes(foreign)).processor
    assert processor is not None and processor.triple == other


def test_the_bytes_are_those_of_a_file(tmp_path):
    path = tmp_path / "m.hloom"
    path.write_bytes(bytes(result()))
    path.chmod(0o600)
    wanted = np.asarray(hloom.compile(TEXT)(X)).tobytes()
    assert np.asarray(hloom.load_compiled(path)(X)).tobytes() == wanted
    again = hloom.load_compiled(path)
    again.save(tmp_path / "again.hloom")
    assert np.asarray(hloom.load_compiled(tmp_path / "again.hloom")(X)).tobytes() == wanted


@pytest.mark.skipif(not HERE.is_x86, reason="names features of x86")
def test_a_machine_with_other_features_warns_or_refuses_by_name(monkeypatch):
    """What was compiled where there was more runs if it is asked to, and says so."""
    program = program_from_bytes(bytes(result()))
    assert program.processor is not None
    more = (*program.processor.features, "amx-foo", "prefer-256-bit")
    changed = replace(program, processor=program.processor._replace(features=more))
    data = program_to_bytes(changed)
    monkeypatch.delenv("HLOOM_MISSING_FEATURES", raising=False)
    with pytest.raises(hloom.HloError, match=r"amx-foo.*SIGILL") as refused:
        hloom.CompilationResult(data).load()
    assert "prefer-256-bit" not in str(refused.value)
    monkeypatch.setenv("HLOOM_MISSING_FEATURES", "warn")
    wanted = np.asarray(hloom.compile(TEXT)(X)).tobytes()
    assert np.asarray(hloom.CompilationResult(data).load()(X)).tobytes() == wanted


def test_loading_makes_no_machine_and_imports_no_compiler(tmp_path):
    (tmp_path / "m").write_bytes(bytes(result()))
    code = (
        "import sys, hloom, pathlib\n"
        "r = hloom.CompilationResult(pathlib.Path(sys.argv[1]).read_bytes()).load()\n"
        "rooms = {'codegen', 'passes', 'frontends', 'interp', 'ir', 'schedule', 'memory'}\n"
        "seen = {m.split('.')[1] for m in sys.modules if m.startswith('hloom.')} & rooms\n"
        "print(sorted(seen), 'llvmlite' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "m"], capture_output=True)
    assert (done.returncode, done.stdout.decode().strip()) == (0, "[] False"), done.stderr
