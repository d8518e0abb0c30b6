"""What is measured is appended to a log, whole and readable, whatever stands in names."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import UsageError
from hloom.targets.cpu.tuning.log import TuningLog, log_text
from hloom.targets.cpu.tuning.profiler import Measured

MEASURED = [
    Measured("default", 1.5, scratch_bytes=64),
    Measured("loops", 2e-6),
    Measured("a", failure="result 0 differs", is_wrong=True),
    Measured("b", failure="ValueError: it writes outside of buffer 1"),
    Measured("c", failure='no "code"\nat \\ all: ü', is_compiled=False),
]
TEXT = r"""logs {
  fusion_name: "dot.\"3\""
  results {
    other { name: "default" }
    scratch_bytes: 64
    run_time { seconds: 1 nanos: 500000000 }
  }
  results {
    other { name: "loops" }
    scratch_bytes: 0
    run_time { seconds: 0 nanos: 2000 }
  }
  results {
    other { name: "a" }
    failure { kind: WRONG_RESULT msg: "result 0 differs" }
  }
  results {
    other { name: "b" }
    failure { kind: REDZONE_MODIFIED msg: "ValueError: it writes outside of buffer 1" }
  }
  results {
    other { name: "c" }
    failure { kind: DISQUALIFIED msg: "no \"code\"\nat \\ all: \303\274" }
  }
}
"""
PROGRAM = """HloModule two
ENTRY e {
  p = f32[40,80] parameter(0)
  q = f32[80,80] parameter(1)
  first = f32[40,80] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT c = f32[80,80] concatenate(first, first), dimensions={0}
}
"""


def test_every_candidate_stands_in_the_text_with_its_time_or_why_it_failed():
    head, _, rest = log_text('dot."3"', "dot(\nf32[2])", "a machine\n}", MEASURED).partition("logs")
    assert "logs" + rest == TEXT
    # What is no field is a comment, one line each.
    assert [line[0] for line in head.splitlines()] == ["#", "#"]
    assert "dot( f32[2])" in head and "a machine }" in head


def test_entries_are_appended_and_a_file_that_cannot_be_written_is_named(tmp_path):
    log = TuningLog(tmp_path / "log.txt", "a machine")
    log.add("first", "a dot", MEASURED[:1])
    log.add("second", "a dot", MEASURED[:1])
    text = log.path.read_text()
    assert text.count("logs {") == 2 and text.index("first") < text.index("second")
    with pytest.raises(UsageError, match="cannot write the log of tuning"):
        TuningLog(tmp_path, "a machine").add("first", "a dot", MEASURED)


def test_compiling_logs_what_it_measured_and_nothing_that_it_knew(tmp_path, monkeypatch):
    monkeypatch.setenv("HLOOM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("HLOOM_CACHE", "1")
    log = tmp_path / "log.txt"
    options = {"autotune": "quick", "autotune_log": str(log)}
    module = hloom.parse(PROGRAM)
    tuned = hloom.compile(module, options=options)
    first = log.read_text()
    assert first.count("logs {") == 2, "a product, and the options of a concatenation"
    assert first.count('name: "default"') == 1 and first.count("run_time {") > 8
    hloom.compile(module, options=options)
    again = log.read_text().removeprefix(first)
    assert again.count("logs {") == 1, "results of the options are not kept"
    p, q = np.ones((40, 80), np.float32), np.ones((80, 80), np.float32)
    assert (np.asarray(tuned(p, q)) == 80).all()


def test_a_log_without_measuring_is_refused(tmp_path):
    for mode in ("off", "load"):
        with pytest.raises(UsageError, match="autotune_log does nothing"):
            options = {"autotune": mode, "autotune_log": str(tmp_path / "log.txt")}
            hloom.compile(hloom.parse(PROGRAM), options=options)
