"""The processes in which `hloom bench` measures: one for each program file, one for each suite.

A child writes a line of JSON for each row as it is measured. One that dies or takes too long is a
line that says so, and the rest goes on.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parents[2]
"""Where hloom's own sources are, if this is a checkout: the suites stand beside the package."""


@dataclass(frozen=True)
class BenchOptions:
    """How everything is measured."""

    word: str
    rounds: int
    seconds: float
    seed: int
    timeout_s: float
    """For one program file; suites take what they take."""
    with_peer: bool
    options: list[str]


def lines(files: list[str], suites: list[str], chosen: BenchOptions) -> Iterator[dict[str, Any]]:
    """What the children say: rows, and why there are none."""
    for file in files:
        if chosen.word in file:
            asked = {
                "file": os.path.abspath(file),
                "rounds": chosen.rounds,
                "seconds": chosen.seconds,
                "with_peer": chosen.with_peer,
                "options": chosen.options,
            }
            command = ["hloom.tools.bench_child", json.dumps(asked)]
            yield from _child(command, "programs", os.path.basename(file), chosen.timeout_s)
    for suite in suites:
        command = ["bench.suites", suite, "--rounds", str(chosen.rounds), "-k", chosen.word]
        command += ["--seconds", str(chosen.seconds), "--seed", str(chosen.seed)]
        yield from _child(command, suite, suite, None)


def _child(
    command: list[str], suite: str, name: str, timeout_s: float | None
) -> Iterator[dict[str, Any]]:
    """The lines of one child; how it died, where it did, as the last one."""
    paths = [str(SOURCES), os.environ.get("PYTHONPATH", "")]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            _command(command),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=variables,
        )
        is_late = threading.Event()

        def end() -> None:
            is_late.set()
            child.kill()

        timer = None if timeout_s is None else threading.Timer(timeout_s, end)
        try:
            if timer is not None:
                timer.start()
            assert child.stdout is not None
            for line in child.stdout:
                if line.startswith("{"):
                    yield json.loads(line)
            child.wait()
        finally:
            if timer is not None:
                timer.cancel()
            child.kill()
            child.wait()
        if child.returncode:
            errors.seek(0)
            late = f"longer than {timeout_s:g} s" if is_late.is_set() else ""
            why = late or _last_words(child.returncode, errors.read())
            yield {"suite": suite, "name": name, "why": why}


def _command(words: list[str]) -> list[str]:
    """A module of Python's with its arguments."""
    return [sys.executable, "-m", *words]


def _last_words(code: int, errors: str) -> str:
    """How a process ended, and its last line."""
    how = f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    said = errors.strip().splitlines()
    return f"{how}: {said[-1][:200]}" if said else how
