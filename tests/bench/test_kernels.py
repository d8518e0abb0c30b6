"""The bench of kernels."""

from pathlib import Path

import pytest

TEXT = "HloModule m\nENTRY e { x = f32[8] parameter(0) ROOT y = f32[8] %s(x) }"


def test_compiling_is_timed_although_it_was_compiled_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # `bench.suites` said 0.03 of XLA's time of programs that an earlier run had left in the cache.
    pytest.importorskip("jaxlib")
    from bench.kernels.loops import compare

    monkeypatch.setenv("HLOOM_CACHE", "1")
    monkeypatch.setenv("HLOOM_CACHE_DIR", str(tmp_path))
    compare(TEXT % "negate", 1, 0.0)  # what measures the machine is kept
    kept = set(tmp_path.rglob("*"))
    compare(TEXT % "abs", 1, 0.0)
    assert set(tmp_path.rglob("*")) == kept
