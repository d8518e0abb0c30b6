"""The child process of these tests: runs functions of jax_cases*.py and tells how each ended.

JAX keeps its backends for the whole process, so the tests themselves must not import it.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path

HERE = Path(__file__).parent


def environment(devices: int = 1, **more: str) -> dict[str, str]:
    """That of a process in which hloom is JAX's default."""
    return {
        **os.environ,
        "JAX_PLATFORMS": "hloom",
        "HLOOM_NUM_CPU_DEVICES": str(devices),
        "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])]),
        **more,
    }


def run_python(code: str, devices: int = 1, timeout_s: float = 300, **more: str):
    """A finished process that ran this code, with its output as text."""
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", code],
        env=environment(devices, **more),
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


def run_cases(names: list[str], devices: int = 1) -> dict[str, str]:
    """How each case ended: "" or a traceback. A crash is the end of all that had not run."""
    code = f"import child; child.main({names!r})"
    done = run_python(code, devices, timeout_s=900)
    ended = dict.fromkeys([*names, "exit"], f"did not run:\n{done.stderr[-3000:]}")
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            ended.update(json.loads(line))
    ended["exit"] = "" if done.returncode == 0 else f"exit {done.returncode}: {done.stderr[-3000:]}"
    return ended


def main(names: list[str]) -> None:
    files = sorted(HERE.glob("jax_cases*.py"))
    cases = {k: v for f in files for k, v in vars(importlib.import_module(f.stem)).items()}
    for name in names:
        try:
            cases[name]()
            told = ""
        except BaseException:
            told = traceback.format_exc()
        print(json.dumps({name: told}), flush=True)
