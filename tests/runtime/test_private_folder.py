"""The compile cache is its owner's alone: modes, owners, links, folders above."""

import logging
import os
import stat
from types import SimpleNamespace

import pytest

from hloom.runtime import private_folder
from hloom.runtime.cache import ProgramCache
from hloom.runtime.private_folder import NotPrivate, checked_private, made_private, open_private
from tests.runtime.test_cache import entries, parts, program


@pytest.fixture
def no_umask():
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def give_away(monkeypatch):
    """Makes a file or a folder somebody else's."""

    def give(path):
        if os.geteuid() == 0:
            os.chown(path, 12345, -1)
        else:
            monkeypatch.setattr(private_folder.os, "geteuid", lambda: 12345)

    return give


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_made_is_for_its_owner_whatever_the_umask(tmp_path, no_umask):
    cache = ProgramCache(tmp_path / "a" / "programs")
    cache.put(parts(), program())
    assert cache.get(parts()) is not None
    assert (mode(tmp_path / "a"), mode(cache.folder)) == (0o700, 0o700)
    assert {p.name: mode(p) for p in cache.folder.iterdir() if mode(p) != 0o600} == {}


@pytest.mark.parametrize("wide", [0o755, 0o750, 0o777, 0o770, 0o711])
def test_a_folder_that_was_open_is_closed(tmp_path, wide):
    cache = ProgramCache(tmp_path / "programs")
    cache.put(parts(), program("one"))
    cache.folder.chmod(wide)
    again = ProgramCache(cache.folder)
    assert again.get(parts()) == program("one")
    assert mode(cache.folder) == 0o700
    cache.folder.chmod(wide)
    assert again.get(parts()) == program("one")
    assert mode(cache.folder) == 0o700, "looked at each time"


def refused(cache, caplog, words):
    """Whether a cache is not used, says why once, and is left as it is."""
    before = sorted(p.name for p in cache.folder.iterdir())
    with caplog.at_level(logging.WARNING, "hloom"):
        assert cache.get(parts()) is None
        assert cache.get_named({"bytes": "1"}) is None
        cache.put(parts("b"), program())
        cache.name(parts("b"), {"bytes": "2"})
    assert sorted(p.name for p in cache.folder.iterdir()) == before
    assert len(caplog.records) == 1, caplog.text
    assert words in caplog.text and "HLOOM_CACHE=0" in caplog.text


def test_a_folder_of_another_is_not_used(tmp_path, caplog, give_away):
    cache = ProgramCache(tmp_path / "programs")
    cache.put(parts(), program())
    cache.name(parts(), {"bytes": "1"})
    give_away(cache.folder)
    refused(ProgramCache(cache.folder), caplog, "belongs to")


def test_nor_one_below_a_folder_of_another(tmp_path, caplog, give_away):
    cache = ProgramCache(tmp_path / "home" / "programs")
    cache.put(parts(), program())
    give_away(tmp_path / "home")
    refused(ProgramCache(cache.folder), caplog, "belongs to")


@pytest.mark.parametrize("wide", [0o777, 0o775, 0o757])
def test_nor_one_below_a_folder_that_others_write_to(tmp_path, caplog, wide, monkeypatch):
    monkeypatch.setattr(private_folder, "_is_own_group", lambda gid: False)
    cache = ProgramCache(tmp_path / "above" / "programs")
    cache.put(parts(), program())
    (tmp_path / "above").chmod(wide)
    refused(ProgramCache(cache.folder), caplog, f"chmod go-w {tmp_path / 'above'}")


def test_a_group_of_ones_own_is_nobody_else(tmp_path, monkeypatch):
    above = tmp_path / "above"
    made_private(above / "programs")
    above.chmod(0o775)
    monkeypatch.setattr(private_folder, "_is_own_group", lambda gid: gid == above.stat().st_gid)
    assert checked_private(above / "programs") == (above / "programs").resolve()
    above.chmod(0o777)
    with pytest.raises(NotPrivate):
        checked_private(above / "programs")


@pytest.mark.parametrize(
    ("name", "members", "is_own"),
    [("me", [], True), ("me", ["me"], True), ("me", ["me", "you"], False), ("staff", [], False)],
)
def test_whose_a_group_is(monkeypatch, name, members, is_own):
    monkeypatch.setattr(private_folder.pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name="me"))
    group = SimpleNamespace(gr_name=name, gr_mem=members)
    monkeypatch.setattr(private_folder.grp, "getgrgid", lambda gid: group)
    assert private_folder._is_own_group(5) is is_own


def test_in_a_sticky_folder_only_owners_rename(tmp_path):
    (tmp_path / "above").mkdir()
    (tmp_path / "above").chmod(0o1777)
    cache = ProgramCache(tmp_path / "above" / "programs")
    cache.put(parts(), program("one"))
    assert cache.get(parts()) == program("one")


def test_a_link_is_followed_and_what_it_leads_to_is_checked(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(private_folder, "_is_own_group", lambda gid: False)
    real = tmp_path / "real"
    made_private(real / "programs")
    (tmp_path / "link").symlink_to(real / "programs")
    cache = ProgramCache(tmp_path / "link")
    cache.put(parts(), program("one"))
    assert cache.get(parts()) == program("one")
    assert entries(ProgramCache(real / "programs"))
    real.chmod(0o777)
    refused(ProgramCache(tmp_path / "link"), caplog, f"chmod go-w {real}")


@pytest.mark.parametrize("how", ["writable", "another's", "link", "folder", "pipe"])
def test_an_entry_that_another_may_have_written_is_not_run(tmp_path, caplog, give_away, how):
    cache = ProgramCache(tmp_path / "programs")
    cache.put(parts(), program("one"))
    (path,) = entries(cache)
    kept = tmp_path / "kept"
    if how == "writable":
        path.chmod(0o660)
    elif how == "another's":
        if os.geteuid() != 0:
            pytest.skip("only root gives files away")
        give_away(path)
    else:
        path.rename(kept)
    if how == "link":
        path.symlink_to(kept)
    elif how == "folder":
        path.mkdir()
    elif how == "pipe":
        os.mkfifo(path)
    with caplog.at_level(logging.WARNING, "hloom"):
        assert cache.get(parts()) is None
        assert cache.get(parts()) is None
    assert len(caplog.records) == 1
    if how != "folder":
        cache.put(parts(), program("one"))
        assert cache.get(parts()) == program("one"), "replaced by one's own"


def test_files_are_opened_for_their_owner(tmp_path, no_umask):
    descriptor = open_private(tmp_path / "new", os.O_WRONLY | os.O_CREAT)
    os.close(descriptor)
    assert mode(tmp_path / "new") == 0o600


def test_a_container_does_not_see_who_owns_its_root(monkeypatch, tmp_path):
    made_private(tmp_path / "programs")
    real_stat = private_folder.Path.stat

    def seen(path, **more):
        status = real_stat(path, **more)
        if path == tmp_path.parent:
            return SimpleNamespace(st_uid=65534, st_gid=0, st_mode=status.st_mode)
        return status

    monkeypatch.setattr(private_folder.Path, "stat", seen)
    monkeypatch.setattr(private_folder, "_unmapped", lambda: None)
    with pytest.raises(NotPrivate, match="belongs to"):
        checked_private(tmp_path / "programs")
    monkeypatch.setattr(private_folder, "_unmapped", lambda: 65534)
    assert checked_private(tmp_path / "programs")
