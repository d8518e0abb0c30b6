"""docs/c-library.md, from a flax model to a C program: the files and commands of the page, run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hloom.base.guarding import GUARDING

pytest.importorskip("flax", reason="flax is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory"),
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.skipif(shutil.which("cmake") is None, reason="no cmake"),
]
ROOT = Path(__file__).parents[2]


def test_the_page_runs(tmp_path):
    page = (ROOT / "docs" / "c-library.md").read_text()
    section = page.split("## From a flax model to a C program")[1].split("\n## ")[0]
    blocks = dict(re.findall(r"```(python|c|cmake|sh)\n(.*?)```", section, re.DOTALL))
    for name, kind in (("train.py", "python"), ("main.c", "c"), ("CMakeLists.txt", "cmake")):
        (tmp_path / name).write_text(blocks[kind])
    script = re.sub(r"^python ", f"{sys.executable} ", blocks["sh"], flags=re.MULTILINE)
    script = re.sub(r"^hloom ", f"{sys.executable} -m hloom ", script, flags=re.MULTILINE)
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        ["sh", "-e", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"^class \d, 0\.\d+$", done.stdout, re.MULTILINE)
    assert len(lines) == 2 and lines[0] == lines[1], done.stdout
