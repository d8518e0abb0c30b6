"""Programs made by JAX, read, checked, written, rewritten and computed as XLA does.

A few of each family run here; `HLOOM_PEER_ALL=1` runs every program, and each pass alone.
"""

import json

import pytest

from tests.peer.families import said_of_family

pytest.importorskip("jaxlib")
pytest.importorskip("jax")

FAMILIES = "elementwise data folds linear arrays indexing randomness control networks".split()
FAMILIES += ["gradients", "devices"]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_programs_agree_with_xla(family):
    said = said_of_family("check.py", family, FAMILIES)
    wrong = [line for line in said if line.get("wrong") or "refused" in line]
    assert not wrong, json.dumps(wrong, indent=1)[:6000]
    assert sum("done" in line for line in said) >= 2
