"""jax.distributed: programs of JAX on the devices of several processes (distributed_child.py)."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.plugin.child import HERE, environment

AS_ASKED = """
import sys
import jax
rank, number, port, how = sys.argv[1:]
jax.distributed.initialize(f"localhost:{port}", int(number), int(rank))
kept = jax.numpy.ones(3) + len(jax.devices())
if how == "shutdown":
    jax.distributed.shutdown()
print("done", kept[0])
"""


def run(
    processes: int, devices: int, what: str, child: Sequence[str] = ()
) -> list[tuple[int, str]]:
    """The exit status and the words of each process."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    child = child or [str(HERE / "distributed_child.py")]
    started = [
        subprocess.Popen(
            [sys.executable, *child, *map(str, (rank, processes, port, what))],
            env=environment(devices),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(processes)
    ]
    try:
        texts = [each.communicate(timeout=240)[0] for each in started]
    finally:
        for each in started:
            each.kill()
    return [(each.returncode, text) for each, text in zip(started, texts, strict=True)]


@pytest.mark.parametrize("how", ["shutdown", "end"])
def test_processes_end_and_say_nothing(how: str) -> None:
    """Nothing in them waits for the coordinator's word, or is told that it has gone."""
    for status, text in run(2, 2, how, ["-c", AS_ASKED]):
        assert status == 0 and "done 5.0" in text.splitlines(), text
        assert "WatchTasks" not in text, text


def test_two_processes_of_four_devices_and_one_that_is_killed() -> None:
    (status, text), (killed, other) = run(2, 4, "killed")
    assert "done" in text.splitlines(), text
    assert "done" in other.splitlines(), other
    assert (status, killed) == (0, -9), text
    assert "of process 1, which ended without it [rendezvous]" in text
    assert "True: " in text, text


def test_four_processes_of_two_devices_and_one_that_does_something_else() -> None:
    ended = run(4, 2, "other")
    for status, text in ended:
        assert "done" in text.splitlines(), text
        assert status == 0, text
        assert "True: " in text, text
    said = [text for _, text in ended if "runs another program here: all must run the same" in text]
    assert said, ended
    # Who saw it may have ended before another looked, which then names who is gone.
    for _, text in ended:
        assert text in said or "which ended without it [rendezvous]" in text, ended
