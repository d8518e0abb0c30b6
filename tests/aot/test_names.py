"""Names of functions and arrays that mean something else in C, in C++, in the C library."""

import re
import shutil
import subprocess

import pytest

import hloom
from hloom.aot.names import C_LIBRARY, KEYWORDS, LONGEST, MACROS
from hloom.api import HloError, UsageError
from hloom.base.guarding import GUARDING

pytestmark = [
    pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler"),
]
ONE = "HloModule m\nENTRY e { x = f32[2] parameter(0)\n ROOT y = f32[2] negate(x) }"
HEADERS = "stdio stdlib string math errno assert signal limits float time".split()
LANGUAGES = ("cc -std=c99", "cc -std=gnu17", "cc -std=gnu2x", "c++ -std=c++20")


def compiles(folder, header, words):
    """The header behind those that programs include, in one language."""
    is_c = words.startswith("cc")
    lines = [f"#include <{h}.h>" for h in [*HEADERS, *(["complex"] if is_c else [])]]
    lines += [f'#include "{header}"', "int main(void) { return 0; }", ""]
    source = folder / ("main.c" if is_c else "main.cc")
    source.write_text("\n".join(lines))
    words = [*words.split(), "-Wall", "-Werror", "-Wno-unused-function", "-fsyntax-only"]
    done = subprocess.run([*words, str(source)], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]


def test_arrays_with_words_of_the_language(tmp_path):
    """Every keyword and macro as the name of an argument and of a result."""
    words = sorted(KEYWORDS | MACROS) + ["__FILE__", "INT8_MAX", "UINT_LEAST16_MAX"]
    words += ["a", "inputs", "x_BYTES", "9lives", "a b", "ü"]
    lines = [f"  p{k} = f32[] parameter({k})" for k in range(len(words))]
    lines += [f"  n{k} = f32[] negate(p{k})" for k in range(len(words))]
    kinds = ", ".join(["f32[]"] * len(words))
    lines.append(f"  ROOT t = ({kinds}) tuple({', '.join(f'n{k}' for k in range(len(words)))})")
    text = "\n".join(["HloModule m", "ENTRY e {", *lines, "}"])
    for names in ({"argument_names": words}, {"result_names": words}):
        hloom.export_c(text, tmp_path / "m.o", tmp_path / "m.h", **names)
        for language in LANGUAGES:
            compiles(tmp_path, "m.h", language)


@pytest.mark.parametrize("name", ["a", "inputs", "outputs", "pool", "nullptr", "NULL", "asm", "I"])
def test_functions_with_words_of_the_header(tmp_path, name):
    library = hloom.export_c(ONE, tmp_path / "m.o", tmp_path / "m.h", name=name, pool=True)
    assert library.name.strip("_") == name
    for language in LANGUAGES:
        compiles(tmp_path, "m.h", language)


@pytest.mark.parametrize("name", ["main", "exp", "expf", "sqrtl", "free", "select", "int32_t"])
def test_a_function_of_the_c_library_is_not_replaced(tmp_path, name):
    for path, chosen in ((tmp_path / "m.o", name), (tmp_path / f"lib{name}.a", None)):
        with pytest.raises(UsageError, match=f"cannot be called {name}: the C library") as error:
            hloom.export_c(ONE, path, name=chosen)
        assert f"my_{name}" in (error.value.hint or "")
    assert not list(tmp_path.iterdir())


def test_functions_that_only_look_like_them(tmp_path):
    for name in ("step", "predict", "half", "model_exp", "shelf", "expfl"):
        assert hloom.export_c(ONE, tmp_path / "m.o", name=name).name == name
    functions = hloom.export_c({"exp": ONE, "int": ONE}, tmp_path / "m.a", name="net")
    assert [e.name for e in functions.entries] == ["net_exp", "net_int"]


def test_long_names(tmp_path):
    name = "x" * LONGEST
    assert hloom.export_c(ONE, tmp_path / "m.o", name=name).name == name
    assert hloom.export_c(ONE, tmp_path / "m.so", name=name).name == name
    for programs, chosen in ((ONE, f"{name}x"), ({name: ONE}, "m")):
        with pytest.raises(UsageError, match=f"{LONGEST} letters at most"):
            hloom.export_c(programs, tmp_path / "n.a", name=chosen)


def test_names_that_become_one(tmp_path):
    text = ONE.replace("ROOT y", "z = f32[2] abs(x)\n y").replace(
        "negate(x) }", "negate(x)\n ROOT t = (f32[2], f32[2]) tuple(y, z) }"
    )
    with pytest.raises(HloError, match=re.escape("unique: ü, ö (in C: _, _)")):
        hloom.export_c(text, tmp_path / "m.o", result_names=["ü", "ö"])
    with pytest.raises(HloError, match=r"unique: a, a \["):
        hloom.export_c(text, tmp_path / "m.o", result_names=["a", "a"])


def test_a_size_called_as_the_function(tmp_path):
    with pytest.raises(UsageError, match="are both called batch"):
        hloom.export_c([ONE, ONE], tmp_path / "batch.a", buckets={"batch": (1, 2)})


def test_words_of_the_lists_are_names():
    for words in (KEYWORDS, MACROS, C_LIBRARY):
        assert all(re.fullmatch(r"[A-Za-z_]\w*", w) for w in words)
