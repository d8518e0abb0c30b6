"""C libraries for other processors than this one, called here."""

import ctypes
import shutil

import numpy as np
import pytest

import hloom
from hloom.base.guarding import GUARDING

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory"),
]


def test_a_processor_that_lacks_something_gets_a_status(tmp_path):
    """Nobody has had `xop` or `fma4` since 2017: the call says so instead of dying."""
    text = "HloModule m\nENTRY e { x = f32[40] parameter(0)\n ROOT y = f32[40] negate(x) }"
    options = {"target_cpu": "x86-64-v3", "target_features": "+fma4"}
    x, y = np.ones(40, np.float32), np.zeros(40, np.float32)
    for name, chosen, status in (("lacks", options, 4), ("has", {"cpu_max_isa": "AVX2"}, 0)):
        path = tmp_path / f"lib{name}.so"
        hloom.export_c(text, path, tmp_path / f"{name}.h", name=name, options=chosen)
        function = getattr(ctypes.CDLL(str(path)), name)
        pointers = [(ctypes.c_void_p * 1)(a.ctypes.data) for a in (x, y)]
        assert [function(*pointers, None) for _ in range(3)] == [status] * 3
        assert y[0] == (0 if status else -1)
    assert "lacks instructions" in (tmp_path / "has.h").read_text()
