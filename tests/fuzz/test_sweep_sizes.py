"""The sweep over sizes: a sample of it, and that a fault in a case would be told."""

import ctypes
import subprocess
import sys

import pytest

import tests.fuzz.sweep_sizes as sweep
from hloom.codegen.columns import BLOCK_SHARE
from hloom.codegen.walk import block_elements
from hloom.runtime.library import library
from hloom.targets.cpu.device import host_device
from tests.fuzz.size_families import families, names
from tests.fuzz.sweep_sizes import Case, lengths_of, tried


def test_a_sample_finds_nothing():
    command = [sys.executable, "-m", "tests.fuzz.sweep_sizes", "--part", "7/1500"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0 and ", 0 wrong" in done.stdout, done.stdout + done.stderr
    assert int(done.stdout.split()[1]) > 40


def test_faults_and_wrong_values_are_told_with_the_case(monkeypatch: pytest.MonkeyPatch):
    """In the second and third of four; the others are tried all the same."""

    def trouble(case: Case) -> str:
        if case.length == 2:
            block = library().hl_guard_alloc(12, 0, 0)
            ctypes.memset(block + 12, 0, 1)
        if case.length == 3:
            raise ValueError("three")
        return ""

    monkeypatch.setattr(sweep, "trouble", trouble)
    said = dict(tried([Case("x", n) for n in (1, 2, 3, 4)]))
    assert said.pop(Case("x", 1)) == said.pop(Case("x", 4)) == "ok"
    assert said.pop(Case("x", 3)) == "ValueError: three"
    assert "wrote 0 bytes behind the end of a block" in said[Case("x", 2)]


def test_values_are_compared(monkeypatch: pytest.MonkeyPatch):
    case = Case("elementwise alone", 65)
    assert sweep.trouble(case) == ""
    real = sweep.evaluate
    monkeypatch.setattr(sweep, "evaluate", lambda m, x, y: real(m, x, x))
    assert "1 threads, result 0 f32[65]: " in sweep.trouble(case)


def test_lengths_are_those_where_kernels_change():
    found, block = lengths_of("elementwise alone"), block_elements(host_device())
    assert {1, 300, block - 40, 2 * block + 1, 3 * block + 40} <= {*found} and 301 not in found
    assert int(host_device().nearest_bytes * BLOCK_SHARE) // 4 + 1 in lengths_of(
        "reduce many columns f32"
    )
    assert max(lengths_of("attention keys")) == 552 < families()["attention keys"].most
    assert len(names()) > 190
