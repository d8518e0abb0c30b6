"""Compressed files of programs, and what is said where they cannot be read or written."""

import bz2
import gzip
import lzma
import subprocess
import sys

import pytest

import hloom
from hloom.base.diagnostics import UsageError
from hloom.ir.proto import load, save
from hloom.ir.text import PrintOptions, parse_module, show_module

TEXT = """HloModule m

ENTRY %e (p: f32[2]) -> f32[2] {
  %p = f32[2]{0} parameter(0)
  %c = s32[12]{0} constant({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})
  ROOT %n = f32[2]{0} negate(%p)
}
"""


@pytest.fixture
def module():
    return parse_module(TEXT)


def text_of(module):
    return show_module(module, PrintOptions(large_constants=True))


COMPRESSORS = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


@pytest.mark.parametrize("inner", [".hlo", ".pb", ".pbtxt", ".txt"])
@pytest.mark.parametrize("outer", COMPRESSORS)
def test_what_is_compressed_is_read_under_any_name(module, tmp_path, inner, outer):
    save(module, tmp_path / f"a{inner}{outer}")
    save(module, tmp_path / f"b{inner}")
    plain = (tmp_path / f"b{inner}").read_bytes()
    assert (tmp_path / f"a{inner}{outer}").read_bytes() != plain
    (tmp_path / f"c{inner}").write_bytes(COMPRESSORS[outer](plain))
    for name in (f"a{inner}{outer}", f"c{inner}"):
        assert text_of(load(tmp_path / name).module) == text_of(module)
        assert text_of(hloom.load(tmp_path / name)) == text_of(module)
    assert text_of(hloom.load_bytes(COMPRESSORS[outer](plain)).module) == text_of(module)


def test_what_compressors_wrote_and_cannot_be_undone_is_said(module, tmp_path):
    path = tmp_path / "a.hlo"
    path.write_bytes(b"\x28\xb5\x2f\xfd\x04\x58")
    for read in (load, hloom.load, lambda p: hloom.load_bytes(p.read_bytes(), str(p))):
        with pytest.raises(UsageError, match=r"a\.hlo: compressed by zstd") as caught:
            read(path)
        assert caught.value.hint == "undo it first: zstd -d"
    with pytest.raises(UsageError, match=r"does not compress \.zst"):
        save(module, tmp_path / "b.hlo.zst")
    for compress in COMPRESSORS.values():
        path.write_bytes(compress(b"HloModule m" * 99)[:-9])
        with pytest.raises(UsageError, match=r"cannot read .*a\.hlo: "):
            load(path)
    path = tmp_path / "c.hlo.xz"
    path.write_text(TEXT)
    with pytest.raises(UsageError, match=r"not compressed, as \.xz says"):
        load(path)


@pytest.mark.parametrize(("outer", "compressor"), [(".xz", "lzma"), (".bz2", "bz2")])
def test_a_python_without_a_compressor_says_so(module, tmp_path, monkeypatch, outer, compressor):
    monkeypatch.setitem(sys.modules, compressor, None)
    path = tmp_path / "a.hlo"
    path.write_bytes(COMPRESSORS[outer](TEXT.encode()))
    for use in (lambda: load(path), lambda: save(module, tmp_path / f"b.hlo{outer}")):
        with pytest.raises(UsageError, match=f"this Python was compiled without {compressor}"):
            use()


def test_commands_work_where_optional_modules_of_python_are_missing(tmp_path):
    """What CPython leaves out, without a word, where the headers of a library are missing."""
    (tmp_path / "a.hlo").write_text(TEXT)
    script = """
import sys
for name in ("bz2", "lzma", "_bz2", "_lzma", "sqlite3", "readline", "curses", "tkinter", "dbm.gnu"):
    sys.modules[name] = None
from hloom.tools.main import application
for words in (["verify", "a.hlo"], ["convert", "a.hlo", "b.pb.gz"], ["run", "b.pb.gz", "--check"]):
    try:
        application(words)(words)
    except SystemExit as end:
        assert not end.code, words
"""
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=120)
