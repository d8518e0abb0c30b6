"""Which hloom it is: part of the keys of kept programs."""

from __future__ import annotations

from pathlib import Path

from hloom.base import installed

ROWS = """hloom-0.1.0.dist-info/METADATA,sha256=aa,10
hloom/__init__.py,sha256=bb,20
hloom/runtime/native/arena.cc,sha256=cc,30
hloom/__pycache__/__init__.cpython-311.pyc,,
hloom/runtime/native/libhloom_runtime.so,sha256=dd,40
"""


def test_records_of_the_same_sources_are_alike(tmp_path: Path) -> None:
    """Whatever else an installer wrote, and in whatever order."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.write_text(ROWS)
    there.write_text("\n".join(reversed(ROWS.replace("aa", "ee").replace("dd", "ff").splitlines())))
    assert installed.record_digest(here) == installed.record_digest(there) != ""


def test_other_sources_are_another_hloom(tmp_path: Path) -> None:
    """Two builds between releases have one version; programs kept by one are not the other's."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.write_text(ROWS)
    for before, after in (("bb", "b0"), ("cc", "c0"), ("hloom/__init__", "hloom/main")):
        there.write_text(ROWS.replace(before, after))
        assert installed.record_digest(here) != installed.record_digest(there)


def test_nothing_written_down(tmp_path: Path) -> None:
    """An installation in place names a path only: then the files themselves count."""
    record = tmp_path / "RECORD"
    assert installed.record_digest(record) == ""
    record.write_text("__editable__.hloom-0.1.0.pth,sha256=aa,10\n")
    assert installed.record_digest(record) == ""
