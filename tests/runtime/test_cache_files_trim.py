"""What goes from the folder of a cache that holds too much, and how much of it at once."""

from __future__ import annotations

import os
from pathlib import Path

from hloom.runtime.cache_files import CacheFiles


def test_many_files_go_behind_several_others(tmp_path: Path) -> None:
    """A thousand at once: a compile waits for it. The oldest go first, and the rest soon."""
    for k in range(2500):
        path = tmp_path / f"{k}.o"
        path.write_bytes(b"0123456789")
        os.utime(path, (k, k))
    files = CacheFiles(tmp_path, 6000, (".o",))
    files.trim()
    assert sorted(int(p.stem) for p, _ in files.all()) == list(range(1000, 2500))
    assert files.is_trim_due(10)
    files.trim()
    assert sorted(int(p.stem) for p, _ in files.all()) == list(range(1960, 2500))
    assert not files.is_trim_due(10)
