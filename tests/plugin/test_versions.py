"""Versions of JAX that hloom does not work with."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

from hloom.plugin.versions import FIRST, PAST, unsupported
from tests.plugin.child import run_python


@pytest.mark.parametrize(
    "version", ["0.10.0", "0.10.2", "0.11.2", "0.12.0.1", "0.12.1.dev20260101"]
)
def test_supported(version):
    assert unsupported({"jax": version, "jaxlib": version}) is None


@pytest.mark.parametrize("version", ["0.8.3", "0.9.2", "0.13.0", "1.0.0", "unknown"])
def test_unsupported_in_one_line(version):
    words = unsupported({"jax": version, "jaxlib": "0.10.2"})
    assert words is not None and f"jax {version}" in words
    assert "jaxlib 0.10.2" not in words and "\n" not in words and "pip install" in words


def test_the_package_asks_for_the_same():
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    first, past = (".".join(map(str, v)) for v in (FIRST, PAST))
    for extra in ("jax", "peer"):
        for wanted in extras[extra]:
            if wanted.startswith("jax"):
                assert wanted.endswith(f">={first},<{past}")


@pytest.mark.slow
def test_the_plugin_says_so():
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed (make setup)")
    code = """
import jax
jax.version.__version__ = "0.13.1"
try:
    jax.devices()
except RuntimeError as error:
    print("raised", error)
"""
    done = run_python(code)
    lines = [line for line in done.stderr.splitlines() if "jax-version" in line]
    assert len(lines) == 1 and "0.13.1" in lines[0], done.stderr
    assert "raised" in done.stdout and "Traceback" not in done.stderr
