"""`hloom doctor` and `hloom --version`: they say what is here, and what does not fit."""

import json
import os
import subprocess
import sys
from importlib import metadata

import pytest

import hloom
from hloom.tools import doctor

HLOOM = [sys.executable, "-m", "hloom"]


def found(run, *words):
    done = run("doctor", "--json", *words)
    data = json.loads(done.stdout)
    return done.exit_code, {f["name"]: f for f in data["found"]}


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HLOOM_CACHE_DIR", str(tmp_path / "programs"))
    monkeypatch.delenv("HLOOM_CACHE", raising=False)


def test_all_is_well_here(run):
    code, things = found(run)
    assert code == 0 and not [f for f in things.values() if f["state"] == "broken"]
    names = {"python", "system", "processor", "features", "threads", "native library"}
    assert names | {"program cache", "numpy", "llvmlite", "jax", "torch"} <= things.keys()
    assert things["numpy"]["value"] == metadata.version("numpy")
    assert things["native library"]["value"].split(",")[0].endswith(".so")


def test_the_same_for_people(run):
    done = run("doctor")
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == f"hloom {hloom.__version__}"
    assert done.stdout.splitlines()[-1] == "all is well"


def test_a_version_out_of_bounds_is_said(run, monkeypatch):
    real = metadata.version
    others = {"llvmlite": "0.44.0", "jax": "0.4.30"}
    monkeypatch.setattr(metadata, "version", lambda name: others.get(name) or real(name))
    code, things = found(run)
    assert code == 1
    assert things["llvmlite"]["state"] == "broken" and "pip install" in things["llvmlite"]["hint"]
    assert things["jax"]["state"] == "note" and "0.10" in things["jax"]["hint"]


def test_a_missing_package_is_said(run, monkeypatch):
    real = metadata.version

    def version(name):
        if name in ("rich", "jax"):
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    code, things = found(run)
    assert code == 1 and things["rich"]["state"] == "broken"
    assert things["jax"] == {"name": "jax", "value": "not installed", "state": "ok", "hint": ""}


def test_a_library_that_cannot_be_loaded(tmp_path):
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library")
    done = subprocess.run(
        [*HLOOM, "doctor", "--json"],
        env=os.environ | {"HLOOM_RUNTIME_LIBRARY": str(broken)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    (native,) = [f for f in json.loads(done.stdout)["found"] if f["name"] == "native library"]
    assert done.returncode == 1 and native["state"] == "broken" and str(broken) in native["hint"]


def test_a_cache_that_others_may_write(run, tmp_path):
    folder = tmp_path / "programs"
    folder.mkdir()
    folder.chmod(0o777)
    _, things = found(run)
    assert things["program cache"]["state"] == "note"
    assert "drwxrwxrwx" in things["program cache"]["value"]
    folder.chmod(0o700)
    _, things = found(run)
    assert things["program cache"]["state"] == "ok"


def test_no_home_is_no_error(run, monkeypatch):
    import platformdirs

    def no_home(*words, **keywords):
        raise RuntimeError("could not determine the home directory")

    monkeypatch.delenv("HLOOM_CACHE_DIR")
    monkeypatch.setattr(platformdirs, "user_cache_dir", no_home)
    code, things = found(run)
    assert code == 0 and "HLOOM_CACHE_DIR" in things["program cache"]["hint"]


def test_flags_that_do_nothing_are_named(run, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_graph_min_graph_size=7")
    code, things = found(run)
    assert code == 0 and "gpu_graph_min_graph_size" in things["XLA_FLAGS"]["hint"]
    monkeypatch.setenv("XLA_FLAGS", "--no_such_flag=7")
    code, things = found(run)
    assert code == 1 and things["XLA_FLAGS"]["state"] == "broken"


@pytest.mark.parametrize(
    ("version", "wanted", "expected"),
    [
        ("2.4.6", ">=2.0,<3", True),
        ("3.0", ">=2.0,<3", False),
        ("2", ">=2.0,<3", True),
        ("1.99.9", ">=2.0,<3", False),
        ("0.50.0rc1", ">=0.50,<0.51", True),
        ("0.10.2.dev1+local", ">=0.10,<0.13", True),
        ("0.9.2", ">=0.10,<0.13", False),
        ("anything", "", True),
    ],
)
def test_bounds(version, wanted, expected):
    assert doctor.fits(version, wanted) is expected


def test_version(run):
    assert run("--version").stdout == f"hloom {hloom.__version__}\n"
