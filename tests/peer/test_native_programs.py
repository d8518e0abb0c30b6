"""Programs made by JAX, compiled natively, give what XLA's code for the CPU gives.

A few of each family run here; `HLOOM_PEER_ALL=1` runs every program.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jaxlib")
pytest.importorskip("jax")

HERE = Path(__file__).parent
WHOLE = "HLOOM_PEER_ALL" in os.environ
FAMILIES = "elementwise data folds linear factorisations arrays indexing randomness".split()
FAMILIES += ["control", "networks", "gradients"]
EVERY = 1 if WHOLE else 40


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_native_programs_agree_with_xla(family):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / "programs/native.py"), family, str(EVERY)],
        capture_output=True,
        text=True,
        timeout=3600 if WHOLE else 300,
        env={**os.environ, "PYTHONPATH": str(HERE.parent.parent)},
    )
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert said, done.stderr[-2000:]
    assert done.returncode == 0, f"died in {said[-1]}: {done.stderr[-2000:]}"
    wrong = [line for line in said if line.get("wrong")]
    assert not wrong, json.dumps(wrong, indent=1)[:6000]
    assert sum("compile_s" in line for line in said) >= 2
