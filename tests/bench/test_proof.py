"""The share of the proof in compiling: what is counted."""

import json
import sys

import pytest

import bench.proof
from hloom.targets.cpu import lowering

PROGRAM = "HloModule m\nENTRY e {\n x = f32[70] parameter(0)\n ROOT r = f32[70] add(x, x)\n}"


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.setattr(lowering, "admit_kernel", lowering.admit_kernel)  # put back afterwards
    monkeypatch.setenv("HLOOM_CACHE", "0")
    path = tmp_path / "small.hlo"
    path.write_text(PROGRAM)
    return path


def test_every_kernel_is_counted_and_its_time_is_part_of_all(program):
    (row,) = bench.proof.rows_of([program], 2)
    assert row["name"] == "small" and row["kernels"] == 1
    assert 0 < row["proof_s"] < row["all_s"]
    rows = [{"proof_s": 1.0, "all_s": 100.0}, {"proof_s": 9.0, "all_s": 100.0}]
    assert bench.proof.pooled_percent(rows) == 5.0


@pytest.mark.parametrize(("limit", "status"), [("100", 0), ("0", 1)])
def test_the_limit_decides_how_it_ends(program, tmp_path, monkeypatch, limit, status):
    out = tmp_path / "rows.json"
    arguments = ["proof", str(program), "--rounds", "1", "--limit", limit, "--json", str(out)]
    monkeypatch.setattr(sys, "argv", arguments)
    assert bench.proof.main() == status
    assert [r["name"] for r in json.loads(out.read_text())["programs"]] == ["small"]
