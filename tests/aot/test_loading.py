"""Libraries called from Python by name, and the header as what they say of themselves."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom.aot.reading import functions
from hloom.api import HloError, UsageError
from hloom.base.guarding import GUARDING
from tests.aot.calling import exported
from tests.aot.programs import PROGRAMS

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory"),
]
TWO = """HloModule m
ENTRY e {
  x = f32[3] parameter(0)
  y = f32[3] parameter(1)
  sum = f32[3] add(x, y)
  diff = f32[3] subtract(x, y)
  ROOT t = (f32[3], f32[3]) tuple(sum, diff)
}"""
KINDS = "(f32[2,3]{0,1}, s4[5]{0:E(4)}, bf16[], pred[0])"
ODD = (
    f"HloModule m, entry_computation_layout={{{KINDS}->{KINDS}}}"
    + """
ENTRY e {
  x = f32[2,3]{0,1} parameter(0)
  n = s4[5]{0:E(4)} parameter(1)
  s = bf16[] parameter(2)
  none = pred[0] parameter(3)
  y = f32[2,3]{0,1} negate(x)
  m = s4[5]{0:E(4)} add(n, n)
  r = bf16[] add(s, s)
  same = pred[0] not(none)
  ROOT t = (f32[2,3]{0,1}, s4[5]{0:E(4)}, bf16[], pred[0]) tuple(y, m, r, same)
}"""
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("loading")


@pytest.fixture(scope="module")
def two(folder):
    return hloom.load_library(exported(folder, TWO, "two").path)


@pytest.mark.parametrize("name", ["loop", "sort", "topk", "state_in_place", "conditional"])
def test_as_the_program_itself(folder, name):
    text = PROGRAMS[name]
    function = hloom.load_library(exported(folder, text, f"p_{name}").path)
    literals = hloom.random_arguments(hloom.parse(text), seed=5)
    arrays = [x.array for x in literals]
    results = list(function(*arrays).values())
    expected = hloom.compile(text)(*literals)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for mine, his in zip(results, expected, strict=True):
        np.testing.assert_array_equal(mine, np.asarray(his))


def test_by_name(two):
    x, y = np.arange(3, dtype=np.float32), np.ones(3, np.float32)
    assert [*two.inputs] == ["x", "y"] and [*two.outputs] == ["sum", "diff"]
    for results in (two(x, y), two(y=y, x=x), two(x, y=y)):
        assert [*results] == ["sum", "diff"]
        np.testing.assert_array_equal(results["sum"], x + y)
        np.testing.assert_array_equal(results["diff"], x - y)
    assert two.inputs["x"].size_bytes == 12 and two.outputs.get("nope") is None


def test_layouts_packed_elements_scalars_and_nothing(folder):
    import ml_dtypes

    function = hloom.load_library(exported(folder, ODD, "odd").path)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    n = np.array([1, -2, 3, 0, -4], ml_dtypes.int4)
    results = function(x[:, ::1], n, np.array(1.5, ml_dtypes.bfloat16), np.zeros(0, bool))
    np.testing.assert_array_equal(results["y"], -x)
    assert results["m"].astype(int).tolist() == [2, -4, 6, 0, -8]
    assert float(results["r"]) == 3 and results["same"].shape == (0,)
    assert float(function(x, n, 2.0, np.zeros(0, bool))["r"]) == 4


def test_views_and_memory_that_is_not_aligned(two):
    raw = np.zeros(13 + 12, np.uint8)
    shifted = raw[1:13].view(np.float32)
    shifted[:] = [1, 2, 3]
    wide = np.arange(6, dtype=np.float32)
    assert two(shifted, wide[::2])["sum"].tolist() == [1, 4, 7]


def test_into_memory_of_the_caller(folder):
    function = hloom.load_library(exported(folder, PROGRAMS["state_in_place"], "stays").path)
    assert function.outputs["next"].in_place == "state" and function.outputs["old"].in_place is None
    arrays = {
        "x": np.arange(64, dtype=np.float32),
        "state": np.full(64, 2, np.float32),
        "i": np.array(5, np.int32),
    }
    expected = function.run(arrays)["next"]
    assert arrays["state"][5] == 2  # it stays what it was, as another array was not named
    room = np.zeros(function.workspace_bytes + 64, np.uint8)
    room = room[-room.ctypes.data % 64 :][: function.workspace_bytes]
    results = function.run(arrays, {"next": arrays["state"]}, room)
    assert results["next"] is arrays["state"]
    np.testing.assert_array_equal(arrays["state"], expected)
    with pytest.raises(UsageError, match="old of stays shares memory with x"):
        function.run(arrays, {"old": arrays["x"]})
    with pytest.raises(UsageError, match="next of stays shares memory with old"):
        function.run(arrays, {"old": (one := np.zeros(64, np.float32)), "next": one})
    if function.workspace_bytes:
        with pytest.raises(UsageError, match="bytes at a multiple of 64 to work in"):
            function.run(arrays, workspace=room[1:])


def test_threads_have_memory_of_their_own(folder):
    from concurrent.futures import ThreadPoolExecutor

    function = hloom.load_library(exported(folder, PROGRAMS["sort"], "threads").path)
    arrays = [np.random.default_rng(k).random((3, 40, 5), np.float32) for k in range(24)]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda x: next(iter(function(x).values())), arrays))
    for x, mine in zip(arrays, results):
        np.testing.assert_array_equal(mine, -np.sort(-x, axis=1))


def test_what_does_not_fit(two):
    x = np.zeros(3, np.float32)
    for arguments, named, words in (
        ((x,), {}, "is given no y"),
        ((x, x, x), {}, "takes 2 arrays, 3 were given"),
        ((x, x), {"x": x}, "x twice"),
        ((x,), {"z": x}, "takes no z"),
        ((x, np.zeros(3)), {}, r"y is float64\[3\], and the library takes float32\[3\]"),
        ((x, np.zeros(4, np.float32)), {}, r"float32\[4\]"),
    ):
        with pytest.raises(UsageError, match=words):
            two(*arguments, **named)
    fixed = np.zeros(3, np.float32)
    fixed.flags.writeable = False
    for array, words in (
        (np.zeros(6, np.float32)[::2], "does not stand in memory as"),
        (np.zeros(3), r"is float64\[3\]"),
        (fixed, "cannot be written"),
        ([0, 0, 0], "is a list"),
        (np.zeros(13, np.uint8)[1:].view(np.float32), "no multiple of 4"),
    ):
        with pytest.raises(UsageError, match=words):
            two.run({"x": x, "y": x}, {"sum": array})
    with pytest.raises(UsageError, match="gives no summ"):
        two.run({"x": x, "y": x}, {"summ": x})


def test_files_that_are_missing_or_others(tmp_path, folder, two):
    library = exported(tmp_path, TWO, "one")
    assert library.header is not None
    with pytest.raises(UsageError, match=r"cannot read .*other\.h"):
        hloom.load_library(library.path, tmp_path / "other.h")
    with pytest.raises(UsageError, match="declares no function onn"):
        hloom.load_library(library.path, name="onn")
    with pytest.raises(HloError, match=r"has no function two, which two\.h declares"):
        hloom.load_library(library.path, folder / "two.h")
    wrong_library = tmp_path / "libwrong.so"
    with pytest.raises(UsageError, match="no such file"):
        hloom.load_library(wrong_library, library.header)
    wrong_library.write_bytes(b"no library")
    with pytest.raises(HloError, match="cannot be loaded"):
        hloom.load_library(wrong_library, library.header)
    text = library.header.read_text()
    for wrong in ("", "int x;", text.replace("_x_BYTES", "_x_BITS"), text.replace("input 1", "i")):
        library.header.write_text(wrong)
        with pytest.raises(HloError, match="no header that hloom has written"):
            functions(library.header)


def test_several_functions_in_one_header(tmp_path, folder):
    first, second = (
        Path(str(exported(folder, text, name).header)).read_text()
        for name, text in (("two", TWO), ("odd", ODD))
    )
    both = tmp_path / "both.h"
    both.write_text(first + second)
    assert [f.name for f in functions(both)] == ["two", "odd"]
    with pytest.raises(UsageError, match="has 2 functions: two, odd"):
        hloom.load_library(folder / "libtwo.so", both)
    x = np.ones(3, np.float32)
    assert hloom.load_library(folder / "libtwo.so", both, name="two")(x, x)["sum"][0] == 2


def test_a_status_becomes_an_error(tmp_path):
    text = "HloModule m\nENTRY e { x = f32[40] parameter(0)\n ROOT y = f32[40] negate(x) }"
    options = {"target_cpu": "x86-64-v3", "target_features": "+fma4"}
    hloom.export_c(text, tmp_path / "liblacks.so", tmp_path / "lacks.h", options=options)
    with pytest.raises(HloError, match="status 4: this processor lacks instructions"):
        hloom.load_library(tmp_path / "liblacks.so")(np.ones(40, np.float32))


def test_several_functions_that_map_their_weights(tmp_path):
    one = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  w = f32[4] constant({1, 2, 3, 4})
  ROOT y = f32[4] multiply(x, w)
}"""
    path, weights = tmp_path / "libm.so", tmp_path / "m.safetensors"
    both = {"times": one, "plus": one.replace("multiply", "add")}
    hloom.export_c(both, path, tmp_path / "m.h", weights=weights)
    names = [f.name for f in functions(tmp_path / "m.h")]
    assert len(names) == 2 and names[0].endswith("times") and names[1].endswith("plus")
    x = np.ones(4, np.float32)
    with pytest.raises(HloError, match="the weights are not loaded"):
        hloom.load_library(path, name=names[0])(x)
    for file, words in ((tmp_path / "none", "cannot be read"), (path, "not the weights")):
        with pytest.raises(HloError, match=words):
            hloom.load_library(path, name=names[0], weights=file)
    results = [hloom.load_library(path, name=n, weights=weights)(x) for n in names]
    assert [next(iter(r.values())).tolist() for r in results] == [[1, 2, 3, 4], [2, 3, 4, 5]]
    other = exported(tmp_path, TWO, "other")
    with pytest.raises(UsageError, match="says of no weights"):
        hloom.load_library(other.path, weights=weights)


def test_a_library_that_is_written_again(tmp_path):
    """The loader of the system knows a library by its path, and would give the old one."""
    results = []
    for op in ("sine", "negate", "cosine"):
        text = f"HloModule m\nENTRY e {{ x = f32[3] parameter(0)\n ROOT r = f32[3] {op}(x) }}"
        hloom.export_c(text, tmp_path / "libm.so", tmp_path / "m.h")
        call = hloom.load_library(tmp_path / "libm.so")
        results.append(float(call(np.zeros(3, np.float32) - 2)["r"][0]))
    assert results == pytest.approx([np.sin(-2), 2, np.cos(-2)])
