"""The compile cache: hits, bounds, and what it does when files or disks are bad."""

import errno
import logging
import os
import threading
import time

import pytest

from hloom.base.diagnostics import UsageError
from hloom.program.program import Program
from hloom.program.slice import Allocation
from hloom.runtime import cache as under_test
from hloom.runtime.cache import SUFFIX, ProgramCache, cache_folder, program_cache
from hloom.types.text import shape_from_text


def program(name="p", size=10):
    data = bytes(size)
    constant = Allocation(0, size, "constant", data=data)
    return Program(name, [constant], (), [], [], shape_from_text("f32[2]{0}"), [b"object"])


def parts(program="a", options="none"):
    return {"program": program, "options": options, "machine": "this"}


@pytest.fixture
def cache(tmp_path):
    return ProgramCache(tmp_path / "programs")


def entries(cache):
    return sorted(cache.folder.glob("*" + SUFFIX))


def test_what_was_put_is_got(cache):
    assert cache.get(parts()) is None
    cache.put(parts(), program("one"))
    assert cache.get(parts()) == program("one")
    assert ProgramCache(cache.folder).get(parts()) == program("one")
    info = cache.info()
    # A miss before there is a folder is not counted.
    assert (info.entries, info.hits, info.misses) == (1, 2, 0)
    assert info.size_bytes == entries(cache)[0].stat().st_size


@pytest.mark.parametrize("change", [{"program": "b"}, {"options": "fast"}, {"new": "part"}])
def test_every_part_counts(cache, change):
    cache.put(parts(), program())
    assert cache.get({**parts(), **change}) is None
    assert cache.info().misses == 1


def test_parts_do_not_run_into_each_other():
    assert under_test.key_of({"a": "bc", "d": ""}) != under_test.key_of({"a": "b", "cd": ""})
    assert under_test.key_of({"a": "1", "b": "2"}) == under_test.key_of({"b": "2", "a": "1"})


def test_why_names_what_differs(cache):
    assert cache.why(parts()).nearest is None
    cache.put(parts("other", "fast"), program("far"))
    cache.put(parts("a", "slow"), program("near"))
    answer = cache.why(parts("a", "none"))
    assert (answer.is_hit, answer.nearest) == (False, "near")
    assert answer.differs == {"options": ("slow", "none")}
    assert cache.why(parts("a", "slow")).is_hit


@pytest.mark.parametrize("damage", ["cut", "empty", "flip", "text"])
def test_a_broken_entry_is_removed_and_replaced(cache, damage):
    cache.put(parts(), program("one"))
    (path,) = entries(cache)
    data = path.read_bytes()
    path.write_bytes(
        {
            "cut": data[:-3],
            "empty": b"",
            "flip": data[:-1] + bytes([data[-1] ^ 1]),
            "text": b"no program",
        }[damage]
    )
    assert cache.get(parts()) is None
    assert not entries(cache)
    cache.put(parts(), program("one"))
    assert cache.get(parts()) == program("one")


def test_what_was_used_longest_ago_goes_first(tmp_path):
    cache = ProgramCache(tmp_path, limit_bytes=100_000)
    for n in range(8):
        cache.put(parts(str(n)), program(size=20_000))
        for path in entries(cache):  # all older by a second
            old = path.stat().st_mtime - 1
            os.utime(path, (old, old))
        assert cache.get(parts("0")), "used again and again, so it stays"
    cache.trim()
    assert cache.info().size_bytes <= 100_000
    assert cache.get(parts("7")) and cache.get(parts("0"))
    assert cache.get(parts("1")) is None


def test_a_program_that_would_fill_the_cache_is_not_kept(tmp_path):
    cache = ProgramCache(tmp_path, limit_bytes=10_000)
    cache.put(parts(), program(size=5_000))
    assert not entries(cache)


def test_what_a_killed_process_left_is_removed(cache):
    cache.put(parts(), program())
    old, new = cache.folder / "new-old", cache.folder / "new-new"
    for path in (old, new):
        path.write_bytes(b"half")
    past = time.time() - 10_000
    os.utime(old, (past, past))
    cache.trim()
    assert not old.exists()
    assert new.exists()


def test_a_full_disk_is_said_once_and_is_no_error(cache, monkeypatch, caplog):
    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *_):
            self.file.close()

        def write(self, data):
            self.file.write(data[:10])
            raise OSError(errno.ENOSPC, "No space left on device")

    real = os.fdopen
    monkeypatch.setattr(under_test.os, "fdopen", lambda *a: Full(real(*a)))
    with caplog.at_level(logging.WARNING, "hloom"):
        cache.put(parts("a"), program())
        cache.put(parts("b"), program())
    assert len(caplog.records) == 1
    assert "No space left on device" in caplog.text
    assert not list(cache.folder.iterdir())


def test_a_folder_that_cannot_be_is_said_once(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    cache = ProgramCache(tmp_path / "file" / "programs")
    with caplog.at_level(logging.WARNING, "hloom"):
        assert cache.get(parts()) is None
        cache.put(parts(), program())
    assert len(caplog.records) == 1
    assert cache.info().entries == 0


def test_a_large_program_is_mapped_and_outlives_its_file(cache):
    cache.put(parts(), program(size=1 << 20))
    found = cache.get(parts())
    assert found == program(size=1 << 20)
    assert cache.clear() == 1
    assert found == program(size=1 << 20)


def test_names_lead_to_a_program_and_go_with_it(cache):
    names = {"bytes": "abc"}
    assert cache.get_named(names) is None
    cache.name(parts(), names)
    assert cache.get_named(names) is None, "a name of what is not there"
    assert cache.info().misses == 0, "who finds nothing by a name looks further"
    cache.put(parts(), program("one"))
    assert cache.get_named(names) == program("one")
    cache.files.limit_bytes = 1
    cache.trim()
    assert not list(cache.folder.glob("*.name"))
    cache.name(parts(), names)
    cache.clear()
    assert not list(cache.folder.iterdir())


def test_clear_removes_everything(cache):
    for n in range(3):
        cache.put(parts(str(n)), program())
    cache.get(parts("0"))
    assert cache.clear() == 3
    info = cache.info()
    assert (info.entries, info.hits, info.misses) == (0, 0, 0)
    assert cache.clear() == 0


def test_many_threads_share_a_cache(cache):
    wrong = []

    def work(seed):
        for k in range(30):
            n = (seed * 7 + k) % 5
            found = cache.get(parts(str(n)))
            if found is not None and found.name != str(n):
                wrong.append((n, found.name))
            cache.put(parts(str(n)), program(str(n), 3000))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    assert len(entries(cache)) == 5
    assert len(list(cache.folder.iterdir())) == 7  # and the two counts


def test_the_environment_says_where_and_whether(tmp_path):
    assert program_cache({"HLOOM_CACHE": "0"}) is None
    assert cache_folder({"HLOOM_CACHE_DIR": str(tmp_path)}) == tmp_path
    found = program_cache({"HLOOM_CACHE_DIR": str(tmp_path), "HLOOM_CACHE_BYTES": "77"})
    assert found is not None
    assert (found.folder, found.files.limit_bytes) == (tmp_path, 77)
    assert cache_folder({}).name == "programs"
    with pytest.raises(UsageError, match="number of bytes"):
        program_cache({"HLOOM_CACHE_BYTES": "2 GB"})
