"""`bench/costs.py`: every step has a family, what it was expected to take, and what it took."""

from __future__ import annotations

import pytest

from bench.costs import LEAST_S, Step, steps_of, summary
from hloom.api import host_device
from hloom.device.text import show_device

TEXT = """HloModule both
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT l = pred[] compare(a, b), direction=LT
}
ENTRY e {
  p = f32[128,256] parameter(0)
  q = f32[256,512] parameter(1)
  d = f32[128,512] dot(p, q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT s = f32[128,512] sort(d), dimensions={1}, to_apply=less
}
"""


def test_steps_of_kernels_and_routines_have_families(tmp_path):
    device = tmp_path / "here.toml"
    device.write_text(show_device(host_device()), encoding="utf-8")
    found = steps_of("both", TEXT, 1, device)
    assert {"product"} < {s.family for s in found} and len(found) >= 2
    assert all(s.measured_s >= LEAST_S and s.predicted_s > 0 and s.floor_s > 0 for s in found)


def test_the_summary_has_the_median_of_each_family_and_of_all():
    steps = [Step("p", "n", f, x, 1.0, 0.1) for f, x in (("a", 0.9), ("a", 1.1), ("b", 0.5))]
    assert steps[2].error == pytest.approx(0.5)
    lines = summary(steps).split("\n")
    assert [x.split()[0] for x in lines] == ["a", "b", "all"]
    assert "10.0%" in lines[0] and "50.0%" in lines[1] and "10.0%" in lines[2]
