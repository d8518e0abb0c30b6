"""Folders that nobody else can put anything into: where code is kept that will be run.

As ssh does with its keys: the folder must be of this user (or of root), and nobody else may write
to it, nor to a folder above it, for whoever may rename a folder may put another in its place. In a
sticky folder, such as /tmp, only owners rename. Symbolic links are followed once; what is checked
is where they lead.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from functools import cache
from pathlib import Path

FOLDER_MODE, FILE_MODE = 0o700, 0o600
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class NotPrivate(Exception):
    """Others can write there; the message says who or where, and what to do."""


def made_private(folder: Path) -> Path:
    """Where the folder really is, made if it is missing, for its owner alone. Raises `NotPrivate`
    and OSError."""
    missing: list[Path] = []
    at = folder.absolute()
    while not at.exists():
        missing.append(at)
        at = at.parent
    for each in reversed(missing):
        each.mkdir(FOLDER_MODE, exist_ok=True)  # whatever the umask allows everybody
    return checked_private(folder)


def checked_private(folder: Path) -> Path:
    """As `made_private`, of a folder that is there. One of this user that others may look into, or
    write to, is closed to them."""
    real = Path(os.path.realpath(folder))
    status = real.stat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(f"{real} is no folder")
    if status.st_uid == os.geteuid() and status.st_mode & 0o077:
        real.chmod(FOLDER_MODE)
        status = real.stat()  # some file systems have one mode for everything
    _check_owner(real, status)
    if status.st_mode & _OTHERS_WRITE:
        raise NotPrivate(f"others can write to {real}; chmod 700 does not help there")
    for above in real.parents:
        _check_above(above)
    return real


def open_private(path: Path, flags: int) -> int:
    """A descriptor of a file in a private folder. Raises `NotPrivate` where others own it or can
    write to it, and OSError."""
    # Not blocking: a pipe would wait for who writes to it.
    safe = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(path, flags | safe, FILE_MODE)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise NotPrivate(f"{path} is no plain file; remove it")
        _check_owner(path, status)
        if status.st_mode & _OTHERS_WRITE:
            raise NotPrivate(f"others can write to {path}; remove it")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise NotPrivate(
            f"{path} belongs to {_name(status.st_uid)}, and this process runs as "
            f"{_name(os.geteuid())}"
        )


def _check_above(folder: Path) -> None:
    status = folder.stat()
    if status.st_uid != _unmapped():
        _check_owner(folder, status)
    others = status.st_mode & _OTHERS_WRITE
    if others == stat.S_IWGRP and _is_own_group(status.st_gid):
        return
    if others and not status.st_mode & stat.S_ISVTX:
        raise NotPrivate(f"others can write to {folder}, which is above it; chmod go-w {folder}")


@cache
def _unmapped() -> int | None:
    """Whom everybody looks like who is not in this process's user namespace: the owners of the
    system's folders, in a container; None where it sees all users."""
    try:
        words = Path("/proc/self/uid_map").read_text().split()
        if words[:3] == ["0", "0", "4294967295"]:
            return None
        return int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return None


def _is_own_group(gid: int) -> bool:
    """Whether a group is that of this user alone, as systems with a umask of 002 give everybody."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and {*group.gr_mem} <= {user.pw_name}


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
