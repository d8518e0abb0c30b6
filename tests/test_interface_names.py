"""Arguments and results by name, of programs that are compiled here and of saved ones."""

import numpy as np
import pytest

import hloom
from hloom.api import UsageError
from hloom.ir.interface_names import _distinct

TEXT = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  y = f32[2] parameter(1)
  sum = f32[2] add(x, y)
  diff = f32[2] subtract(x, y)
  ROOT r = (f32[2], f32[2]) tuple(sum, diff)
}"""
X, Y = np.array([5, 6], np.float32), np.array([1, 2], np.float32)


def results(exe):
    return {k: np.asarray(v).tolist() for k, v in exe.run({"y": Y, "x": X}).items()}


@pytest.mark.parametrize("how", ["compiled", "cached", "saved", "saved again"])
def test_by_name(how, tmp_path, monkeypatch):
    monkeypatch.setenv("HLOOM_CACHE_DIR", str(tmp_path / "cache"))
    exe = hloom.compile(TEXT)
    if how == "cached":
        exe = hloom.compile(TEXT)
        # Another program with the same code has its own names.
        other = hloom.compile(TEXT.replace("sum", "total").replace("x", "left"))
        assert other.argument_names == ("left", "y") and other.result_names == ("total", "diff")
    for _ in range(("saved", "saved again").index(how) + 1 if how.startswith("saved") else 0):
        exe.save(tmp_path / "m.hloom")
        exe = hloom.load_compiled(tmp_path / "m.hloom")
    assert exe.argument_names == ("x", "y") and exe.result_names == ("sum", "diff")
    assert results(exe) == {"sum": [6, 8], "diff": [4, 4]}


def test_names_of_the_user(tmp_path):
    exe = hloom.compile(TEXT)
    exe.save(tmp_path / "m.hloom", argument_names=["a", "b"], result_names=["s", "d"])
    loaded = hloom.load_compiled(tmp_path / "m.hloom")
    assert np.asarray(loaded.run({"a": X, "b": Y})["d"]).tolist() == [4, 4]
    for wrong, message in (
        ({"argument_names": ["x", "x"]}, "Argument names must be unique: x, x"),
        ({"result_names": ["add", "add"]}, "Result names must be unique: add, add"),
        ({"argument_names": ["x"]}, "1 names for 2 arguments: x.*for each, in this order: x, y"),
    ):
        with pytest.raises(UsageError, match=f"(?s){message}"):
            exe.save(tmp_path / "n.hloom", **wrong)
    assert not (tmp_path / "n.hloom").exists()


def test_names_that_are_none():
    exe = hloom.compile(TEXT)
    with pytest.raises(UsageError, match="takes no xx") as refused:
        exe.run({"xx": X, "y": Y})
    assert "did you mean x" in str(refused.value)
    with pytest.raises(UsageError, match="is given no y"):
        exe.run({"x": X})


@pytest.mark.parametrize(
    ("root", "names"),
    [
        ("ROOT n = f32[2] negate(x)", ("n",)),
        ("ROOT t = (f32[2], f32[2]) tuple(x, x)", ("x", "x.2")),
        ("ROOT t = () tuple()", ()),
        ("t = (f32[2], f32[2]) tuple(x, x)\n ROOT o = (f32[2], f32[2]) opt-barrier(t)",
         ("o.0", "o.1")),
        ("t = (f32[2]) tuple(x)\n ROOT u = ((f32[2]), f32[2]) tuple(t, x)", ("t", "x")),
    ],
)  # fmt: skip
def test_names_of_results(root, names):
    exe = hloom.compile(f"HloModule m\nENTRY e {{ x = f32[2] parameter(0)\n {root} }}")
    assert exe.result_names == names
    assert tuple(exe.run({"x": X})) == names


def test_names_of_very_many_results():
    """One value 30,000 times, and names like those that it gets."""
    names = ["x", "x.2", *["x"] * 30_000]
    distinct = _distinct(names)
    assert len(set(distinct)) == len(names)
    assert distinct[:4] == ("x", "x.2", "x.3", "x.4")
