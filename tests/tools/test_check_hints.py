"""What `hloom run --check` says where native code and the interpreter differ by design."""

from __future__ import annotations

import numpy as np

LOG = "HloModule m\nENTRY main {\n  x = f32[4] parameter(0)\n  ROOT l = f32[4] log(x)\n}\n"


def test_subnormal_numbers_may_be_why(run, tmp_path, monkeypatch):
    monkeypatch.delenv("HLOOM_SUBNORMALS", raising=False)
    (tmp_path / "m.hlo").write_text(LOG)
    words = ["run", tmp_path / "m.hlo", "--inputs", tmp_path / "x.npy", "--check"]
    np.save(tmp_path / "x.npy", np.array([0.5, 3, 1, 2], np.float32))
    done = run(*words)
    assert done.exit_code == 0 and "hint" not in done.stdout
    np.save(tmp_path / "x.npy", np.array([1e-40, 2e-40, 1, 2], np.float32))
    done = run(*words)
    assert done.exit_code == 1 and "HLOOM_SUBNORMALS=keep" in done.stdout
    monkeypatch.setenv("HLOOM_SUBNORMALS", "keep")
    assert "hint" not in run(*words).stdout


ROUNDED = """HloModule m
ENTRY main {
  a = f32[2] parameter(0)
  x = bf16[2] convert(a)
  y = bf16[2] multiply(x, x)
  w = f32[2] convert(y)
  z = f32[2] convert(x)
  ROOT d = f32[2] subtract(w, z)
}
"""


def test_digits_that_are_kept_may_be_why(run, tmp_path):
    """1.0078125 squared has more digits than bf16."""
    (tmp_path / "m.hlo").write_text(ROUNDED)
    np.save(tmp_path / "x.npy", np.array([1.0078125, 1], np.float32))
    words = ["run", tmp_path / "m.hlo", "--inputs", tmp_path / "x.npy", "--check"]
    done = run(*words)
    assert done.exit_code == 1 and "--allow_excess_precision=false" in done.stdout
    done = run(*words, "--allow_excess_precision=false")
    assert done.exit_code == 0 and "hint" not in done.stdout
