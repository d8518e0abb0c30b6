"""The table of compile times: its numbers from rows, and one program measured."""

import pytest

from bench.compile_time import mean_ratio, measured, stage_times, table
from bench.native import EXAMPLES


def test_every_second_is_in_a_column():
    stages = {"cache": 1.0, "verify": 2.0, "schedule": 4.0, "buffers": 8.0, "passes": 16.0}
    stages |= {"new": 32.0}
    found = stage_times({"stages": stages})
    assert sum(found.values()) == 63.0
    assert (found["verify"], found["copies"], found["passes"]) == (3.0, 12.0, 16.0)


def test_the_mean_is_over_rows_that_have_both():
    rows = [{"a": 2.0, "b": 1.0}, {"a": 1.0, "b": 8.0}, {"a": 5.0}]
    assert mean_ratio(rows, "a", "b") == pytest.approx(0.5)
    assert mean_ratio(rows, "b", "c") is None


def test_a_program_is_measured(monkeypatch):
    monkeypatch.setenv("HLOOM_CACHE", "0")
    monkeypatch.setenv("HLOOM_CACHE_DIR", "")
    monkeypatch.setattr("bench.compile_time.xla_program", lambda text: (None, 0.25))
    row = measured(EXAMPLES / "softmax.hlo", 2, 1.0)
    assert row["warm_s"] < row["cold_s"]
    assert row["start_s"] > row["warm_s"]
    assert row["xla_s"] == 0.25
    assert "passes" in row["stages"]
    shown = table([row, {"name": "x", "error": "no"}], {"softmax": {"cold_s": 1.0}})
    assert shown.row_count == 2
