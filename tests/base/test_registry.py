"""Registries whose entries are in folders that are imported when they are asked for."""

import subprocess
import sys
from importlib import import_module

import pytest

from hloom.base.registry import Registry


@pytest.fixture
def room(tmp_path, monkeypatch):
    """A registry, and the name of a folder that adds to it."""
    package = f"room_{tmp_path.name}"  # rooms are loaded once
    folder = tmp_path / package
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    for name in ("first", "second"):
        line = f"import {package}\n{package}.registry.add({name!r}, {name.upper()!r})\n"
        (folder / f"{name}.py").write_text(line)
    monkeypatch.syspath_prepend(str(tmp_path))
    registry: Registry[str, str] = Registry("word", (package,))
    registry.add("own", "OWN")
    vars(import_module(package))["registry"] = registry
    yield registry, package
    for name in [n for n in sys.modules if n.startswith(package)]:
        del sys.modules[name]


@pytest.mark.parametrize(
    "ask",
    [
        lambda r: r["first"] == "FIRST",
        lambda r: r.get("second") == "SECOND",
        lambda r: "first" in r,
        lambda r: list(r) == ["own", "first", "second"],
        lambda r: len(r) == 3,
        lambda r: dict(r.items())["second"] == "SECOND",
    ],
)
def test_rooms_are_imported_for_what_is_lacking(room, ask):
    registry, package = room
    assert registry["own"] == "OWN"
    assert f"{package}.first" not in sys.modules
    assert ask(registry)
    assert {f"{package}.first", f"{package}.second"} <= set(sys.modules)
    assert registry.get("third") is None and "third" not in registry
    with pytest.raises(KeyError, match="first, own, second"):
        registry["third"]


def imported(code: str) -> set[str]:
    code += "\nimport sys\nprint(*[n for n in sys.modules if n.startswith('hloom.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_small_program_imports_no_partitioner():
    text = "HloModule m\\nENTRY e { x = f32[4] parameter(0) ROOT y = f32[4] add(x, x) }"
    modules = imported(f'import hloom\nhloom.compile(hloom.parse("{text}"))')
    assert "hloom.passes.simplify.algsimp" in modules
    assert not [n for n in modules if n.startswith("hloom.passes.partition.")]


def test_a_command_imports_no_other():
    modules = imported("from hloom.tools.main import application\napplication(['verify', 'x'])")
    assert "hloom.tools.verify" in modules
    assert not modules & {"hloom.tools.run", "hloom.tools.bench", "hloom.passes.pipeline"}
