"""Programs on libraries of others: the same results on hloom as on JAX's built-in backend.

Each runs in two child processes. Install the libraries with `pip install 'hloom[real]'`; a program
whose library is missing is skipped and says so.
"""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

# Program: the libraries it needs, and how far results may be apart, as a part of the largest.
PROGRAMS = {
    "flax_cnn": (("flax", "optax"), 2e-3),
    "flax_nnx": (("flax", "optax"), 1e-3),
    "equinox_training": (("equinox", "optax"), 1e-3),
    "diffrax_solvers": (("diffrax",), 1e-3),
    "numpyro_nuts": (("numpyro",), 1e-4),
    "keras_mobilenet": (("keras",), 2e-3),
    "sequence_models": (("optax",), 1e-3),
    "policy_gradient": (("optax",), 1e-3),
    "flax_diffusion": (("flax", "optax"), 1e-3),
    "haiku_jraph": (("haiku", "jraph", "optax"), 2e-3),
    "solvers": (("jaxopt", "optimistix", "lineax"), 2e-3),
    "processes_and_transport": (("tinygp", "ott", "optax"), 1e-3),
    "blackjax_chains": (("blackjax",), 2e-3),
    "orbax_checkpoints": (("orbax", "optax"), 1e-5),
}
# Results that rounding moves further: means of a short chain; weights behind batch norms over four
# values each, where a second epoch's loss already was 6 % apart.
LOOSE = {"['posterior']": 0.05, "['after']": 0.05}


def computed(name: str, platform: str) -> dict:
    paths = os.pathsep.join([str(HERE), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", str(HERE / "child.py"), name],
        env={**os.environ, "JAX_PLATFORMS": platform, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, (
        f"{name} on {platform}: exit {done.returncode}\n{done.stderr[-4000:]}"
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_as_the_built_in_backend(name):
    libraries, tolerance = PROGRAMS[name]
    missing = [x for x in ("jax", *libraries) if importlib.util.find_spec(x) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (pip install 'hloom[real]')")
    ours, theirs = computed(name, "hloom"), computed(name, "cpu")
    assert "hloom" in ours["backend"] and "hloom" not in theirs["backend"]
    assert ours["results"].keys() == theirs["results"].keys()
    for path, value in ours["results"].items():
        wanted = np.asarray(theirs["results"][path])
        loose = [much for start, much in LOOSE.items() if path.startswith(start)]
        allowed = (loose or [tolerance])[0] * max(np.abs(wanted).max(), 1e-6)
        assert np.isfinite(wanted).all(), path
        np.testing.assert_allclose(value, wanted, rtol=0, atol=allowed, err_msg=path)
