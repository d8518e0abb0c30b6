"""What JAX says on one backend: probes of jax_probes.py, in a process of their own.

    python -m probing               # in the environment of the backend; a JSON object

Each answer is what a call returned, or the error it raised, as text that both backends can share.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DEVICES = 8


def answers(backend: str) -> dict[str, Any]:
    """All answers of a backend, by the names of the questions."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "probing"],
        env={
            **os.environ,
            "JAX_PLATFORMS": backend,
            "JAX_NUM_CPU_DEVICES": str(DEVICES),
            "PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])]),
        },
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def plain(value: Any) -> Any:
    """A value as JSON; addresses and keys of caches are left out."""
    if isinstance(value, (bool, int, type(None))):
        return value
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return re.sub(r"0x[0-9a-f]{6,}|[0-9a-f]{32,}", "...", str(value))


def answer(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            value = plain(call())
        except Exception as error:
            value = plain(f"{type(error).__name__}: {str(error)[:300]}")
    texts = sorted({plain(str(w.message)[:200]) for w in told})
    return [value, *texts]


def main() -> None:
    import jax_probes

    found: dict[str, Any] = {}
    for name, probe in list(vars(jax_probes).items()):
        if name.startswith("probe_"):
            for question, call in probe():
                found[f"{name[6:]} {question}"] = answer(call)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
