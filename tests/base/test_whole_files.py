"""What stands where a file is written: a file is replaced, a link followed, anything else kept."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import hloom
from hloom.base.whole_files import replaceable

TEXT = "HloModule m\nENTRY e { x = f32[8] parameter(0)\n  ROOT n = f32[8] negate(x) }"


def written(kind: str, path: str) -> bytes:
    """Write a program there; what a file of that form has in it."""
    module = hloom.parse(TEXT)
    if kind == "module":
        hloom.save(module, path)
        return hloom.show(module).encode()
    hloom.compile(module).save(path)
    return b""


@pytest.mark.parametrize(("kind", "name"), [("module", "out.hlo"), ("program", "out.hloom")])
def test_devices_stay_devices(tmp_path, kind, name):
    """A link to one here: only root can make others."""
    link = tmp_path / name
    link.symlink_to("/dev/null")
    written(kind, str(link))
    assert link.is_symlink()
    assert os.readlink(link) == "/dev/null"
    assert [p.name for p in tmp_path.iterdir()] == [name]
    assert replaceable(link) is None


@pytest.mark.parametrize(("kind", "name"), [("module", "out.hlo"), ("program", "out.hloom")])
def test_links_to_files_are_followed(tmp_path, kind, name):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / name, tmp_path / name
    link.symlink_to(target)
    for _ in range(2):  # to a file that is not there yet, then to one that is
        written(kind, str(link))
        assert link.is_symlink()
        assert [p.name for p in target.parent.iterdir()] == [name]
    if kind == "program":
        x = np.arange(8, dtype=np.float32)
        np.testing.assert_array_equal(np.asarray(hloom.load_compiled(str(target))(x)), -x)


def test_a_pipe_gets_what_is_written(tmp_path):
    pipe = tmp_path / "out.hlo"
    os.mkfifo(pipe)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    written("module", str(pipe))
    reader.join()
    assert "ROOT" in got[0]
    assert pipe.is_fifo()
