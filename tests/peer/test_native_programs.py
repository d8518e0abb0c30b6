"""Programs made by JAX, compiled natively, give what XLA's code for the CPU gives.

A few of each family run here; `HLOOM_PEER_ALL=1` runs every program.
"""

import json
import os
import subprocess
import sys

import pytest

from tests.peer.families import HERE, said_of_family

pytest.importorskip("jaxlib")
pytest.importorskip("jax")

FAMILIES = "elementwise data folds linear factorisations arrays indexing randomness".split()
FAMILIES += ["control", "networks", "gradients"]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_native_programs_agree_with_xla(family):
    said = said_of_family("native.py", family, FAMILIES)
    wrong = [line for line in said if line.get("wrong")]
    assert not wrong, json.dumps(wrong, indent=1)[:6000]
    assert sum("compile_s" in line for line in said) >= 2


CALL = """
import jax, jax.numpy as jnp, numpy as np, hloom
from hloom.runtime import ffi

def function(x, y):
    results = jax.ShapeDtypeStruct(x.shape, x.dtype), jax.ShapeDtypeStruct((2,), jnp.int32)
    call = jax.ffi.ffi_call("peer.scale", results, input_output_aliases={0: 0})
    scaled, counts = call(
        x, y, alpha=np.float32(2.5), word="x", dims=np.array([1, 2]), flag=True, inner=dict(a=1)
    )
    return scaled + 1, counts

def handler(call):
    assert (call.text("word"), call.attributes["flag"].value) == ("x", True)
    assert call.attribute("dims", "s64", many=True).tolist() == [1, 2]
    call.results[0][...] = call.arguments[0] * call.attribute("alpha", "f32")
    call.results[1][...] = call.arguments[1] + call.dictionary("inner")["a"].value

x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.int32(4)
text = jax.jit(function).lower(x, y).compiler_ir("hlo").as_hlo_text()
ffi.register("peer.scale", handler)
scaled, counts = hloom.compile(text)(x, y)
np.testing.assert_array_equal(np.asarray(scaled), x * np.float32(2.5) + 1)
np.testing.assert_array_equal(np.asarray(counts), [5, 5])
"""


@pytest.mark.slow
def test_foreign_calls_of_jax_reach_the_handler_that_is_registered():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CALL],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(HERE.parent.parent)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
