"""`hloom conformance` on a small made-up checkout: outcomes, crashes, time-outs, going on later."""

import importlib.metadata
import importlib.util
import json

import pytest
from typer.testing import CliRunner

from hloom.tools.conformance_choice import EXCLUSIONS, Choice, read_exclusions
from hloom.tools.main import app

if importlib.util.find_spec("jax") is None:
    pytest.skip("JAX is not installed (make setup)", allow_module_level=True)

VERSION = importlib.metadata.version("jax")
GOOD = """
import subprocess, sys
import jax, pytest
OURS = "hloom" in jax.devices()[0].client.platform_version

def test_devices():
    assert len(jax.devices()) == 8

def test_children_import_what_is_installed():
    code = "import jax; print(len(jax.devices()))"
    assert subprocess.check_output([sys.executable, "-c", code]).strip() == b"8"

@pytest.mark.parametrize("name", {"a", "b[c]", "d::e"})
def test_odd_names_in_any_order(name):
    pass

@pytest.mark.parametrize("n", range(6))
def test_sum(n):
    assert float(jax.jit(lambda x: x + n)(1.0)) == n + 1

def test_wrong_here():
    assert not OURS, "only on hloom"

def test_wrong_everywhere():
    assert False

@pytest.mark.skip(reason="not today")
def test_skipped():
    pass

def test_left_out():
    assert False
"""
CRASHING = """
import os, signal, time, jax
OURS = "hloom" in jax.devices()[0].client.platform_version

def test_before():
    pass

def test_crashes_here():
    if OURS:
        os.kill(os.getpid(), signal.SIGSEGV)

def test_between():
    pass

def test_hangs_here():
    if OURS:
        time.sleep(1000)

def test_after():
    pass
"""


SETTINGS = """
[tool.pytest.ini_options]
filterwarnings = ["error"]
addopts = "-n 4 --import-mode=importlib"
"""


@pytest.fixture
def checkout(tmp_path):
    root = tmp_path / "jax-checkout"
    (root / "jax").mkdir(parents=True)
    (root / "jax" / "__init__.py").write_text("raise ImportError('not the installed JAX')")
    (root / "jax" / "version.py").write_text(f'_version = "{VERSION}"\n')
    (root / "tests" / "gpu").mkdir(parents=True)
    (root / "pyproject.toml").write_text(SETTINGS)
    (root / "tests" / "good_test.py").write_text(GOOD)
    (root / "tests" / "crashing_test.py").write_text(CRASHING)
    (root / "tests" / "broken_test.py").write_text("import nothing_of_this_name\n")
    (root / "tests" / "gpu" / "kernels_test.py").write_text("def test_a():\n    assert False\n")
    (root / "exclusions").write_text(
        "tests/gpu/*  # needs a GPU\ntests/good_test.py::test_left_out  # of no interest\n"
    )
    return root


def run(checkout, *words):
    command = ["conformance", "--jax", str(checkout), "--folder", str(checkout / "work")]
    command += ["--exclude", str(checkout / "exclusions"), "--timeout", "12", *words]
    return CliRunner().invoke(app, command)


@pytest.mark.slow
def test_outcomes_of_both_backends(checkout):
    page = checkout / "page.md"
    done = run(checkout, "--json", "-o", str(page), "--jobs", "2")
    assert done.exit_code == 1, done.output
    told = json.loads(done.stdout)
    files = told["files"]
    assert files["tests/good_test.py"]["hloom"] == {
        "passed": 11,
        "failed": 2,
        "skipped": 1,
        "excluded": 1,
    }
    assert files["tests/good_test.py"]["builtin"]["passed"] == 12
    crashing = files["tests/crashing_test.py"]
    assert crashing["hloom"] == {"passed": 3, "crashed": 1, "timeout": 1}
    assert crashing["builtin"] == {"passed": 5}
    assert files["tests/broken_test.py"]["builtin"] == {"failed": 1}
    wrong = {w["test"].rpartition("::")[2]: w for w in told["failed_here"]}
    assert set(wrong) == {"test_wrong_here", "test_crashes_here", "test_hangs_here"}
    assert "SIGSEGV" in wrong["test_crashes_here"]["why"]
    assert "only on hloom" in wrong["test_wrong_here"]["why"]
    assert (told["passed"], told["of"], told["crashed"]) == (14, 17, 1)
    assert told["excluded_files"] == {"tests/gpu/kernels_test.py": "needs a GPU"}
    text = page.read_text()
    assert text.index("test_wrong_here") < text.index("## By file")
    assert "82.35 %" in text and "of no interest" in text


@pytest.mark.slow
def test_a_run_goes_on_where_it_was(checkout, monkeypatch):
    words = ["--files", "good_test.py", "--json"]
    first = json.loads(run(checkout, *words).stdout)
    # As if it had been interrupted in the last test.
    (path,) = (checkout / "work").rglob("hloom/*good_test.jsonl")
    lines = path.read_text().splitlines()
    starts = [k for k, line in enumerate(lines) if '"start"' in line]
    path.write_text("\n".join(lines[: starts[-1] + 1]) + '\n{"id": "cut o')
    (checkout / "tests" / "good_test.py").write_text(GOOD.replace("range(6)", "range(0, 7)"))
    second = json.loads(run(checkout, *words).stdout)
    counts = second["files"]["tests/good_test.py"]
    assert counts["builtin"] == first["files"]["tests/good_test.py"]["builtin"]
    assert counts["hloom"]["passed"] == first["files"]["tests/good_test.py"]["hloom"]["passed"] + 1
    # What has failed is run again where that is asked for; under other settings, everything is.
    mended = GOOD.replace("assert not OURS", "assert OURS or True").replace("range(6)", "range(9)")
    (checkout / "tests" / "good_test.py").write_text(mended)
    again = json.loads(run(checkout, *words, "--again").stdout)
    assert not again["failed_here"] and "settings" not in again
    monkeypatch.setenv("JAX_NUM_GENERATED_CASES", "3")
    counts = again["files"]["tests/good_test.py"]
    other = json.loads(run(checkout, *words).stdout)
    assert other["settings"] == "JAX_NUM_GENERATED_CASES=3"
    assert other["files"]["tests/good_test.py"]["builtin"]["passed"] > counts["builtin"]["passed"]


def test_a_sample_is_the_same_each_time_and_of_its_size():
    nodes = [f"tests/a_test.py::test[{k}]" for k in range(2000)]
    chosen = [n for n in nodes if Choice(0.1, 3, []).takes(n)]
    assert chosen == [n for n in nodes if Choice(0.1, 3, []).takes(n)]
    assert 140 < len(chosen) < 260
    assert chosen != [n for n in nodes if Choice(0.1, 4, []).takes(n)]
    assert all(Choice(1.0, 0, []).takes(n) for n in nodes)


def test_every_exclusion_has_a_reason(tmp_path):
    assert all(reason for _, reason in read_exclusions(EXCLUSIONS))
    (tmp_path / "bad").write_text("tests/a_test.py\n")
    with pytest.raises(ValueError, match="no reason"):
        read_exclusions(tmp_path / "bad")


def test_kernels_in_interpret_mode_are_not_left_out():
    choice = Choice(1.0, 0, read_exclusions(EXCLUSIONS))
    for node in ("tests/pallas/any_test.py", "tests/mosaic/any_gpu_test.py", "tests/any_test.py"):
        assert choice.why_excluded(node) is None
    assert choice.why_excluded("tests/multiprocess/any_test.py") is not None


def test_brackets_in_patterns_stand_for_themselves():
    choice = Choice(1.0, 0, [("tests/a_test.py::test[1]", "why")])
    assert choice.why_excluded("tests/a_test.py::test[1]") == "why"
    assert choice.why_excluded("tests/a_test.py::test1") is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: (c / "jax" / "version.py").unlink(), "no checkout of JAX"),
        (lambda c: (c / "jax" / "version.py").write_text('_version = "0.1.2"'), "JAX 0.1.2"),
        (lambda c: (c / "exclusions").write_text("tests/a\n"), "no reason"),
    ],
)
def test_a_wrong_checkout_is_one_error(checkout, change, words):
    change(checkout)
    done = run(checkout)
    assert done.exit_code == 2 and words in done.output, done.output


def test_files_that_are_not_there_are_an_error(checkout):
    done = run(checkout, "--files", "nothing*")
    assert done.exit_code == 2 and "no test files like nothing*" in done.output
