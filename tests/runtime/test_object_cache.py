"""Objects of kernels on disk and in memory."""

import logging
import os
import threading

import pytest

from hloom.runtime import object_cache as under_test
from hloom.runtime.cache import ProgramCache
from hloom.runtime.object_cache import OBJECT_SUFFIX

KEY = "a" * 64


@pytest.fixture
def cache(tmp_path):
    return ProgramCache(tmp_path / "programs")


def test_what_was_put_is_got_from_memory_and_from_disk(cache):
    assert cache.objects.object(KEY) is None
    cache.objects.put_object(KEY, b"code")
    assert cache.objects.object(KEY) == b"code"
    assert ProgramCache(cache.folder).objects.object(KEY) == b"code"
    info = cache.info()
    assert (info.entries, info.objects) == (0, 1) and info.size_bytes > 4
    assert os.stat(cache.folder).st_mode & 0o777 == 0o700
    assert os.stat(cache.folder / (KEY + OBJECT_SUFFIX)).st_mode & 0o777 == 0o600
    assert cache.clear() == 0 and cache.objects.object(KEY) is None


@pytest.mark.parametrize("place", range(24))
def test_a_damaged_file_is_removed(cache, place):
    cache.objects.put_object(KEY, b"code!")
    path = cache.folder / (KEY + OBJECT_SUFFIX)
    data = bytearray(path.read_bytes())
    assert len(data) == 24
    data[place] ^= 1
    path.write_bytes(data)
    assert ProgramCache(cache.folder).objects.object(KEY) is None
    assert not path.exists()


@pytest.mark.parametrize("length", [0, 3, 19])
def test_a_short_file_is_removed(cache, length):
    cache.objects.put_object(KEY, b"code!")
    path = cache.folder / (KEY + OBJECT_SUFFIX)
    path.write_bytes(path.read_bytes()[:length])
    assert ProgramCache(cache.folder).objects.object(KEY) is None


def test_what_others_can_write_is_not_used(cache, caplog):
    cache.objects.put_object(KEY, b"code")
    os.chmod(cache.folder / (KEY + OBJECT_SUFFIX), 0o666)
    with caplog.at_level(logging.WARNING, logger="hloom"):
        assert ProgramCache(cache.folder).objects.object(KEY) is None
    assert "cannot read the compile cache" in caplog.text


def test_memory_and_disk_have_their_bounds(cache, monkeypatch):
    monkeypatch.setattr(under_test, "IN_MEMORY_BYTES", 2500)
    for number in range(5):
        cache.objects.put_object(f"{number:064}", bytes(1000))
    for path in cache.folder.iterdir():
        path.unlink()
    held = [cache.objects.object(f"{number:064}") is not None for number in range(5)]
    assert held == [False, False, False, True, True]

    small = ProgramCache(cache.folder, 5000)
    for number in range(20):
        small.objects.put_object(f"{number:064}", bytes(1000))
    assert small.info().size_bytes <= 5000


def test_many_threads_at_once(cache):
    wrong = []

    def work(seed):
        for turn in range(50):
            key, content = f"{(seed * turn) % 7:064}", bytes([(seed * turn) % 7]) * 100
            cache.objects.put_object(key, content)
            if cache.objects.object(key) != content:
                wrong.append(key)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
