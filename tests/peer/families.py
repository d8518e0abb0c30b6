"""Runs families of JAX's programs in a process of their own, which says a line of JSON for each."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WHOLE = "HLOOM_PEER_ALL" in os.environ
EVERY = 1 if WHOLE else 40
"""Which programs of a family run: one of so many."""


TOGETHER = 1 if WHOLE else 4
"""Families in one process: starting it takes longer than a few programs."""


def said_of_family(script: str, family: str, families: Sequence[str]) -> list[dict[str, Any]]:
    """What a script in `programs/` says of one of several families; it has to come to its end."""
    first = families.index(family) // TOGETHER * TOGETHER
    said = _said_of_families(script, tuple(families[first : first + TOGETHER]))
    return [line for line in said if line.get("name", line.get("begun")).startswith(f"{family}/")]


@cache
def _said_of_families(script: str, families: tuple[str, ...]) -> list[dict[str, Any]]:
    command = [sys.executable, "-W", "ignore", str(HERE / "programs" / script)]
    done = subprocess.run(
        [*command, ",".join(families), str(EVERY)],
        capture_output=True,
        text=True,
        timeout=3600 if WHOLE else 600,
        env={**os.environ, "PYTHONPATH": str(HERE.parent.parent)},
    )
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert said, done.stderr[-2000:]
    assert done.returncode == 0, f"died in {said[-1]}: {done.stderr[-2000:]}"
    return said
