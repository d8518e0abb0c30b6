"""The scripts that build and check wheels: what they ask of compilers, and what they refuse."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "release" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


wheels, check_wheel = script("wheels"), script("check_wheel")
WHEEL = Path("hloom-1-py3-none-manylinux_2_28_x86_64.whl")


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_wheels_are_compiled_for_the_glibc_of_their_name(machine):
    tag = f"manylinux_{wheels.GLIBC[0]}_{wheels.GLIBC[1]}_{machine}"
    assert wheels.platform_of(machine) == tag
    assert wheels.compiler(machine)[-1] == f"{machine}-linux-gnu.2.28"


def test_the_platform_of_a_wheel_is_that_of_the_build_hook():
    assert "HLOOM_WHEEL_PLATFORM" in (ROOT / "hatch_build.py").read_text()


@pytest.mark.parametrize(
    "tag, said",
    [("2_17", "glibc 2.17"), ("2_28", "glibc 2.28"), ("2_29", None), ("3_0", None), ("", None)],
)
def test_a_wheel_that_needs_a_newer_glibc_is_refused(monkeypatch, tag, said):
    text = (
        f'is consistent with the following\nplatform tag: "manylinux_{tag}_x86_64".' if tag else ""
    )
    done = subprocess.CompletedProcess([], 0, text, "")
    monkeypatch.setattr(wheels.subprocess, "run", lambda *_, **__: done)
    if said is not None:
        assert wheels.loads_from(WHEEL) == said
        return
    with pytest.raises(SystemExit, match="needs glibc" if tag else "no manylinux"):
        wheels.loads_from(WHEEL)


def test_the_newest_of_several_files_is_taken(tmp_path):
    for age, name in enumerate(["hloom-2.tar.gz", "hloom-1.tar.gz", "other-3.tar.gz"]):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (10 + age, 10 + age))
    assert wheels.newest(tmp_path, "hloom-*.tar.gz").name == "hloom-1.tar.gz"
    with pytest.raises(SystemExit, match=r"no \*\.whl"):
        wheels.newest(tmp_path, "*.whl")


def test_sizes_are_reported_packed_and_unpacked(tmp_path, capsys):
    path = tmp_path / WHEEL
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(wheels.LIBRARY, b"\0" * 5000)
        archive.writestr("hloom/__init__.py", b"\0" * 70)
    wheels.report(path, "loads")
    found = json.loads(capsys.readouterr().out)
    assert (found["unpacked"], found["library"], found["checked"]) == (5070, 5000, "loads")
    assert found["bytes"] == path.stat().st_size < 5000


@pytest.mark.parametrize("module", [wheels, check_wheel], ids=["wheels", "check_wheel"])
def test_a_step_that_fails_ends_the_script_with_what_it_said(module):
    command = [sys.executable, "-c", "import sys; print('half done'); sys.exit('and no more')"]
    with pytest.raises(SystemExit, match=r"(?s)half done.*and no more"):
        module.run(command, {})


def test_a_wheel_is_checked_without_compiler_home_and_folders(monkeypatch, tmp_path):
    """Every command of the package runs with nothing of this process's environment."""
    packages = tmp_path / "environment" / "lib" / "python3" / "site-packages" / "hloom"
    packages.mkdir(parents=True)
    (packages / "api.py").write_text("")
    ran = []

    def run(command, environment=None, folder=None):
        ran.append((Path(command[0]).name, command[1:], environment))
        return json.dumps({"ok": "doctor" in command})

    monkeypatch.setattr(check_wheel, "run", run)
    check_wheel.check(WHEEL, tmp_path, with_jax=False)
    bare = [environment for name, _, environment in ran if name == "hloom"]
    assert len(bare) == 5
    for environment in bare:
        assert environment.keys() == {"PATH", "HOME", "TMPDIR"}
        assert environment["HOME"] == "/nonexistent"
    assert not (packages / "api.py").stat().st_mode & 0o222
    packages.chmod(0o755)
    monkeypatch.setattr(check_wheel, "run", lambda *_: json.dumps({"ok": False}))
    with pytest.raises(SystemExit, match="hloom doctor"):
        check_wheel.check(WHEEL, tmp_path, with_jax=False)


ALGORITHMS = (
    "transform copy copy_n fill fill_n sort merge reverse rotate unique remove "
    "replace move swap generate equal accumulate reduce iota partition includes advance distance"
).split()
CALL = re.compile(rf"(?<![\w:.>])({'|'.join(ALGORITHMS)})\(")


def test_no_function_is_called_as_an_algorithm_of_another_standard_library():
    """Pointers to `std::complex` let a plain name be looked for in `std`, too: of two `transform`
    the one of libc++, which wheels are built with, was the better match, and it did not compile."""
    native = ROOT / "hloom" / "runtime" / "native"
    sources = [p for p in native.rglob("*") if p.suffix in (".cc", ".h", ".inc")]
    texts = {p.name: p.read_text() for p in sources}
    complex_ = {name: text for name, text in texts.items() if "std::complex" in text}
    assert complex_
    assert not {name: CALL.findall(text) for name, text in complex_.items() if CALL.search(text)}
    assert CALL.findall("transform(x.data(), 1); std::copy(a, b); e.fill(x)") == ["transform"]
