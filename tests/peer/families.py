"""Runs a family of JAX's programs in a process of its own, which says a line of JSON for each."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WHOLE = "HLOOM_PEER_ALL" in os.environ
EVERY = 1 if WHOLE else 40
"""Which programs of a family run: one of so many."""


def said_of_family(script: str, family: str) -> list[dict[str, Any]]:
    """What a script in `programs/` says of a family; it has to come to its end."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / "programs" / script), family, str(EVERY)],
        capture_output=True,
        text=True,
        timeout=3600 if WHOLE else 300,
        env={**os.environ, "PYTHONPATH": str(HERE.parent.parent)},
    )
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert said, done.stderr[-2000:]
    assert done.returncode == 0, f"died in {said[-1]}: {done.stderr[-2000:]}"
    return said
