"""How many threads this process should use: what the scheduler and the container grant it.

Why not os.cpu_count(): on a server it counts the machine; threads beyond the quota only wait, and
spinning ones burn what the others need.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from hloom.base.clock import monotonic
from hloom.base.diagnostics import UsageError

MOST = 1024
"""As many threads may work on one program."""


def granted_threads(root: Path | None = None) -> int:
    """The processors this process may run on, and no more than its cgroup's quota; at least 1.

    A fraction of a quota is left to the rest of the process. `root` holds proc/ and sys/; of this
    machine's own, the quota is read at most once a second, which takes half a millisecond.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota = _quota_lately(int(monotonic())) if root is None else cgroup_quota(root)
    return max(1, min(allowed or 1, int(quota) if quota is not None else 1 << 16))


def checked_threads(threads: int | None) -> int:
    """How many threads are asked for, None being what is granted; `UsageError` for no number."""
    if threads is None:
        return granted_threads()
    if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= MOST:
        raise UsageError(
            f"{threads!r} is no number of threads",
            rule="threads",
            hint=f"1 to {MOST} can be; None is what the system grants",
        )
    return threads


@lru_cache(maxsize=1)
def _quota_lately(second: int) -> float | None:
    """The quota of this process, as it was when first asked for in this second."""
    return cgroup_quota()


def cgroup_quota(root: Path = Path("/")) -> float | None:
    """Processors' worth of time that the control groups (versions 1 and 2) grant, or None."""
    quotas = []
    for group, files in _groups(root):
        # A limit of any group above ours holds, too.
        for folder in (group, *group.parents):
            for file in files:
                if (quota := _quota(folder / file)) is not None:
                    quotas.append(quota)
            if folder == root or folder.name == "cgroup":
                break
    return min(quotas, default=None)


def _groups(root: Path) -> list[tuple[Path, tuple[str, ...]]]:
    """The folders of our control groups, each with the names of the files that limit."""
    mounted = root / "sys" / "fs" / "cgroup"
    try:
        lines = (root / "proc" / "self" / "cgroup").read_text().splitlines()
    except OSError:
        lines = []
    groups = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            groups.append((mounted / path.lstrip("/"), ("cpu.max",)))
        elif "cpu" in controllers.split(","):
            for name in (controllers, "cpu"):
                groups.append((mounted / name / path.lstrip("/"), ("cpu.cfs_quota_us",)))
                # Inside a container the path is that of the host, and only the top is mounted.
                groups.append((mounted / name, ("cpu.cfs_quota_us",)))
    return groups or [(mounted, ("cpu.max",))]


def _quota(file: Path) -> float | None:
    """The limit one file states, in processors."""
    try:
        words = file.read_text().split()
        if file.name == "cpu.cfs_quota_us":
            words.append((file.parent / "cpu.cfs_period_us").read_text().strip())
    except OSError:
        return None
    if len(words) < 2 or words[0] in ("max", "-1") or not float(words[1]):
        return None
    return float(words[0]) / float(words[1])
