"""The library is compiled when it must be, and only then, by one process; or errors say why."""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hloom.runtime.build import BuildError, build, is_stale
from hloom.runtime.library import library

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="no C++ compiler"
)
EXPORT = '#include "number.h"\nextern "C" __attribute__((visibility("default"))) '


class Sources:
    """A folder of small sources; its compiler writes down what it compiles."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.log = folder, folder / "log"
        self.library = folder / "out" / "libsmall.so"
        self.clock = 10**18
        compiler = folder / "compiler"
        compiler.write_text(f'#!/bin/sh\necho "$@" >> {self.log}\nexec c++ "$@"\n')
        compiler.chmod(0o755)
        monkeypatch.setenv("CXX", str(compiler))
        self.write("number.h", "#define NUMBER 5\n")
        self.write("one.cc", EXPORT + "int hl_one() { return NUMBER; }\n")
        self.write("two.cc", 'extern "C" int hl_one();\nint two() { return hl_one(); }\n')

    def write(self, name: str, text: str) -> None:
        """Writes a file that is newer than all before."""
        self.clock += 10**9
        (self.folder / name).write_text(text)
        os.utime(self.folder / name, ns=(self.clock, self.clock))

    def build(self) -> list[str]:
        """Builds; the sources that were compiled."""
        self.log.write_text("")
        build(self.library, self.folder)
        lines = self.log.read_text().splitlines()
        return sorted(Path(w).name for line in lines for w in line.split() if w.endswith(".cc"))

    def one(self) -> int:
        """What the library says, in a process that has not opened it before."""
        code = f"import ctypes; print(ctypes.CDLL({str(self.library)!r}).hl_one())"
        return int(subprocess.run([sys.executable, "-c", code], capture_output=True).stdout)


@pytest.fixture
def sources(tmp_path, monkeypatch):
    # The file of the rules themselves counts, too: here it is older than every source.
    return Sources(tmp_path, monkeypatch)


def test_flags_of_the_environment_come_last(sources, monkeypatch):
    monkeypatch.setenv("CXXFLAGS", "-O0 -DNUMBER=7")
    sources.write("number.h", "#ifndef NUMBER\n#define NUMBER 5\n#endif\n")
    assert sources.build() == ["one.cc", "two.cc"]
    assert sources.one() == 7
    compiled = [line for line in sources.log.read_text().splitlines() if " -c " in line]
    assert len(compiled) == 2
    assert all(line.index("-O3") < line.index("-O0") for line in compiled)


def test_only_what_changed_is_compiled(sources):
    sources.clock = 2 * 10**18
    for name in ("number.h", "one.cc", "two.cc"):
        sources.write(name, (sources.folder / name).read_text())
    assert is_stale(sources.library, sources.folder)
    assert sources.build() == ["one.cc", "two.cc"]
    assert not is_stale(sources.library, sources.folder)
    assert sources.build() == []
    assert sources.one() == 5
    sources.write("two.cc", 'extern "C" int hl_one();\nint two() { return hl_one() + 1; }\n')
    assert is_stale(sources.library, sources.folder)
    assert sources.build() == ["two.cc"]
    # A header counts for those that include it.
    sources.write("number.h", "#define NUMBER 6\n")
    assert sources.build() == ["one.cc"]
    assert sources.one() == 6
    sources.write("three.cc", "int three() { return 3; }\n")
    assert sources.build() == ["three.cc"]
    (sources.folder / "three.cc").unlink()
    assert is_stale(sources.library, sources.folder)
    assert sources.build() == []
    assert not list(sources.library.parent.glob("build/three*"))


def test_a_wrong_source_is_quoted_and_the_library_stays(sources):
    sources.clock = 2 * 10**18
    sources.build()
    sources.write("two.cc", "int two() { return nonsense; }\n")
    with pytest.raises(BuildError) as caught:
        sources.build()
    assert "nonsense" in str(caught.value)
    assert "two.cc -o" in str(caught.value)
    assert sources.one() == 5
    assert is_stale(sources.library, sources.folder)
    assert not list(sources.library.parent.rglob("*.new"))


def test_an_undefined_function_is_an_error_of_the_build(sources):
    sources.write("two.cc", "int nowhere();\nint two() { return nowhere(); }\n")
    with pytest.raises(BuildError, match="nowhere"):
        sources.build()


def test_without_a_compiler(sources, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", str(tmp_path / "no-such-compiler"))
    with pytest.raises(BuildError, match=r"could not be run.*\n.*no-such-compiler -"):
        sources.build()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(BuildError, match="no C\\+\\+ compiler was found"):
        sources.build()


def test_many_processes_build_once(sources):
    sources.log.write_text("")
    code = (
        "import ctypes, sys; from pathlib import Path; from hloom.runtime.build import build\n"
        "print(ctypes.CDLL(str(build(Path(sys.argv[1]), Path(sys.argv[2])))).hl_one())"
    )
    command = [sys.executable, "-c", code, str(sources.library), str(sources.folder)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(6)]
    assert [int(process.communicate(timeout=60)[0]) for process in running] == [5] * 6
    # Two sources and one library.
    assert len(sources.log.read_text().splitlines()) == 3


def test_a_named_library_is_taken_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("HLOOM_RUNTIME_LIBRARY", str(tmp_path / "absent.so"))
    library.cache_clear()
    try:
        with pytest.raises(BuildError, match=r"cannot be loaded from .*absent\.so"):
            library()
        (tmp_path / "other.c").write_text("int hl_abi_version(void) { return 1; }")
        subprocess.run(
            ["c++", "-shared", "-x", "c", tmp_path / "other.c", "-o", tmp_path / "absent.so"],
            check=True,
        )
        with pytest.raises(BuildError, match="has version 1 of the runtime's ABI"):
            library()
    finally:
        library.cache_clear()


def test_nothing_but_the_abi_is_exported():
    lines = subprocess.run(
        ["nm", "-D", "--defined-only", library()._name], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    names = {line.split()[-1] for line in lines}
    assert "hl_execute" in names
    known = ("hl_", "XlaCustomCall", "GetPjrtApi")
    assert not {name for name in names if not name.startswith(known)}
    assert ctypes.sizeof(ctypes.c_void_p) == 8


def test_who_waits_is_told(sources):
    """How many files there are to compile; nothing where all is done."""
    sources.clock = 2 * 10**18
    for name in ("number.h", "one.cc", "two.cc"):
        sources.write(name, (sources.folder / name).read_text())
    lines: list[str] = []
    build(sources.library, sources.folder, tell=lines.append)
    assert "2 of its files" in lines[0] and lines[-1] == "2 of 2 compiled"
    sources.write("two.cc", (sources.folder / "two.cc").read_text())
    lines.clear()
    build(sources.library, sources.folder, tell=lines.append)
    assert "1 of its files" in lines[0] and lines[-1] == "1 of 1 compiled"
    lines.clear()
    build(sources.library, sources.folder, tell=lines.append)
    assert lines == []


def test_who_waits_for_another_process_is_told(sources):
    sources.build()
    lock = sources.library.parent / "build" / "lock"
    lines: list[str] = []
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)

        def tell(line: str) -> None:
            lines.append(line)
            fcntl.flock(file, fcntl.LOCK_UN)

        build(sources.library, sources.folder, tell=tell)
    assert lines == ["another process is compiling the native runtime: waiting for it"]
