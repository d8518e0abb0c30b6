"""Which compiler is taken for another machine, and what is said of one that lacks a part."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from hloom.aot import link
from hloom.api import HloError, Processor

TRIPLE = "riscv64-linux-gnu"


@pytest.fixture
def gcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a gcc of another machine on the path, with or without its C++."""
    monkeypatch.delenv("CC_riscv64_linux_gnu", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    link._takes_cpp.cache_clear()

    def put(cc1plus: str) -> str:
        path = tmp_path / f"{TRIPLE}-gcc"
        path.write_text(
            f"#!/bin/sh\n[ \"$1\" = -print-prog-name=cc1plus ] && echo '{cc1plus}' && exit 0\n"
            "echo \"gcc: fatal error: cannot execute 'cc1plus'\" >&2\nexit 1\n"
        )
        path.chmod(0o755)
        return path.name

    yield put
    link._takes_cpp.cache_clear()


def processor() -> Processor:
    return Processor(TRIPLE, "", ())


def without_zig(name: str):
    return None if name == "ziglang" else find_spec(name)


def test_a_gcc_with_cpp_is_taken(gcc):
    name = gcc("/usr/lib/gcc-cross/riscv64-linux-gnu/12/cc1plus")
    assert link.toolchain(processor(), "sorting").words == (name,)


@pytest.mark.skipif(find_spec("ziglang") is None, reason="no linker: hloom[cross]")
def test_a_gcc_without_cpp_gives_way_to_zig(gcc):
    gcc("cc1plus")
    words = link.toolchain(processor(), "sorting").words
    assert words[:3] == (sys.executable, "-m", "ziglang")


def test_a_gcc_without_cpp_says_what_to_install(gcc, monkeypatch, tmp_path):
    name = gcc("cc1plus")
    monkeypatch.setattr(link, "find_spec", without_zig)
    words = link.toolchain(processor(), "sorting").words
    assert words == (name,)  # which still links what needs no C++
    with pytest.raises(HloError) as caught:
        link.run([*words, "-x", "c++", "x.cc"], "the C compiler fails at sorting")
    assert "without its C++ part" in str(caught.value) and "hloom[cross]" in str(caught.value)
