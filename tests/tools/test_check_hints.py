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
