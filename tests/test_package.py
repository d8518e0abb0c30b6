"""The front door: `import hloom` is cheap, every public name is there, none is forgotten."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hloom
from hloom import api

HEAVY = ("numpy", "ml_dtypes", "google.protobuf", "typer", "rich", "pydantic")
LISTING = f"""
import sys
from pathlib import Path
import {{module}}
print(*[name for name in {HEAVY!r} if name in sys.modules])
"""


def heavy_modules(module: str) -> list[str]:
    """Which heavy modules a fresh interpreter holds after importing `module`."""
    code = LISTING.format(module=module)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.split()


def test_import_is_lazy():
    assert heavy_modules("hloom") == []


def test_the_lazy_test_can_fail():
    assert heavy_modules("hloom, numpy") == ["numpy"]


def test_reading_a_program_needs_no_protobuf():
    assert not {"google.protobuf", "typer", "rich"} & set(heavy_modules("hloom.ir.text"))


@pytest.mark.parametrize("name", hloom.__all__)
def test_every_public_name_is_there(name):
    assert getattr(hloom, name) is not None
    assert name in dir(hloom)


def test_the_names_are_those_of_the_api():
    elsewhere = {"export_c", "load_library"}  # of the room aot, which is a door
    assert set(hloom.__all__) - elsewhere <= set(api.__all__)
    assert len(set(hloom.__all__)) == len(hloom.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'parrse'"):
        _ = hloom.parrse


def test_version():
    assert hloom.__version__.count(".") == 2


def test_every_name_of_the_api_has_its_home():
    """`hloom.api` reads the lines of names.py, which type checkers read as Python."""
    source = Path(api.__file__).with_name("names.py").read_text()
    aliases = [n for s in ast.parse(source).body if isinstance(s, ast.ImportFrom) for n in s.names]
    assert {n.asname for n in aliases} == set(api.homes()) and len(aliases) == len(api.homes())
    for name in api.__all__:
        assert getattr(api, name) is not None and name in dir(api)
    names: dict[str, object] = {}
    exec("from hloom.api import *", names)
    assert names.keys() >= set(api.__all__)
    with pytest.raises(AttributeError, match=r"'hloom\.api' has no attribute 'lode'"):
        _ = api.lode
