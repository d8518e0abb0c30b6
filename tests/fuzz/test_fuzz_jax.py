"""Random JAX programs: a sample, and what the fuzzer does with a program that goes wrong."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fuzz.run_jax import summary
from tests.fuzz.run_native import in_child

pytest.importorskip("jax")
REPOSITORY = Path(__file__).parents[2]

TWICE = """
from tests.fuzz.jax_programs.assemble import drawn
from tests.fuzz.jax_programs.sketch import STEPS
for number in range(12):
    one, two = drawn(number), drawn(number)
    assert one.label == two.label and one.donated == two.donated, number
    assert [a.tobytes() for a in one.args] == [a.tobytes() for a in two.args], number
    print(one.label)
print(len(STEPS))
"""
WRONG = """
import numpy as np
from tests.fuzz.jax_programs import judge
from tests.fuzz.jax_programs.assemble import Program
add = lambda x: (x + 1, x.sum())
program = Program(add, [np.ones((3, 5), np.float32)], "add", (), False, False)
assert judge.verdict(program, {}, True) == ""
real = judge.Side.run
def run(self, args):
    results, seconds = real(self, args)
    if self.backend == "hloom":
        results[0][2, 4] += FAULT
    return results, seconds
judge.Side.run = run
print(judge.verdict(program, {}, True))
"""


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "JAX_PLATFORMS": "hloom,cpu", "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_a_number_is_a_program() -> None:
    *labels, steps = python(TWICE).splitlines()
    assert len(set(labels)) > 8
    assert int(steps) > 200


@pytest.mark.parametrize(("fault", "said"), [("0.01", "wrong: result 0"), ("1e-6", "")])
def test_a_wrong_element_is_noticed(fault: str, said: str) -> None:
    assert python(WRONG.replace("FAULT", fault)).strip().startswith(said)


def test_a_sample_and_its_report(tmp_path: Path) -> None:
    report = tmp_path / "report.jsonl"
    command = [sys.executable, "-m", "tests.fuzz.run_jax", "--seed=40", f"--report={report}"]
    for count in (3, 4):  # the second goes on where the first ended
        done = subprocess.run(
            [*command, f"--count={count}"], cwd=REPOSITORY, capture_output=True, timeout=600
        )
        assert done.returncode == 0, done.stdout
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    assert [r["number"] for r in rows] == [40, 41, 42, 43]
    assert {r["verdict"] for r in rows} <= {"ok", "not judged"}
    assert any("run_s" in r for r in rows)


def _free_twice() -> str:
    os.write(2, b"PHASE run\n")
    libc: Any = ctypes.CDLL(None)
    libc.calloc.restype = ctypes.c_void_p
    there = ctypes.c_void_p(libc.calloc(100_000, 1))  # zeros before it: a size that cannot be
    libc.free(ctypes.c_void_p(there.value + 16))  # type: ignore[operator]
    return "ok"


def test_a_crash_says_where_and_what() -> None:
    said = in_child(_free_twice)
    assert said.startswith("crash: SIGABRT PHASE run")
    assert "free()" in said


def test_the_summary_counts() -> None:
    rows = [
        {"number": 1, "verdict": "ok", "run_s": [1.0, 2.0], "label": "a"},
        {"number": 2, "verdict": "wrong: result 0", "label": "b"},
        {"number": 3, "verdict": "ok", "run_s": [8.0, 1.0], "label": "c"},
    ]
    made = summary(rows)
    assert made["kinds"] == {"ok": 2, "wrong": 1}
    assert [f["number"] for f in made["finds"]] == [2]
    assert np.isclose(made["run_time_ratio"], 2)
    assert made["worst"][0]["number"] == 3
