"""Collectives in lockstep against four CPU devices of XLA, in a process of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jaxlib")
pytest.importorskip("jax")

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.parametrize(
    "opcode", ["all-gather", "all-reduce", "collective-permute", "reduce-scatter"]
)
def test_lockstep_computes_what_xla_does(opcode):
    done = subprocess.run(
        [sys.executable, str(HERE / "collectives_on_xla.py"), opcode, "0", "12"],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(HERE.parent.parent)},
    )
    found = re.search(r"compared (\d+) different (\d+)", done.stdout)
    assert found, done.stderr[-2000:]
    assert int(found[2]) == 0, done.stdout
    assert int(found[1]) >= 2
