"""Programs that JAX lowers to StableHLO, read and computed as JAX does.

A few of each family run here; `HLOOM_PEER_ALL=1` runs all.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jaxlib", reason="StableHLO is read with jaxlib")
pytest.importorskip("jax", reason="the programs are written in JAX")

ROOT = Path(__file__).parents[3]
FAMILIES = "elementwise data folds linear factorisations arrays indexing randomness control".split()
FAMILIES += ["networks", "gradients", "devices"]
WHOLE = "HLOOM_PEER_ALL" in os.environ
EVERY = 1 if WHOLE else 50


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_programs_are_what_jax_computes(family):
    done = subprocess.run(
        [
            *(sys.executable, "-W", "ignore"),
            *(str(ROOT / "tests/peer/programs/stablehlo.py"), family, str(EVERY)),
        ],
        capture_output=True,
        text=True,
        timeout=3600 if WHOLE else 300,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert said, done.stderr[-2000:]
    assert done.returncode == 0, f"died after {said[-1]}: {done.stderr[-2000:]}"
    wrong = [line for line in said if line["wrong"]]
    assert not wrong, json.dumps(wrong, indent=1)[:6000]
    assert len(said) >= 2
