"""`python -m tests.fuzz.run_training`: all training steps of tests/plugin/training_child.py.

20 steps of each on eight devices of 1, 2, 4 and 8 processes that `jax.distributed` joins, and of 2
and 4 that MPI does: losses beside one device, memory, and work. Tests run few, as all take minutes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.plugin.test_parallel_training import check, check_mpi

ALL = "data,tensor,sequence,fsdp,fsdp with accumulation,pipeline,experts"


def said(what: str, trial: Callable[[], str | None]) -> bool:
    """Whether a trial is right, printed with what it says."""
    begin = time.monotonic()
    try:
        text, is_right = trial() or "", True
    except AssertionError as error:
        text, is_right = str(error), False
    seconds = time.monotonic() - begin
    print(f"{what}: {'right' if is_right else 'WRONG'}, {seconds:.0f} s\n{text}", flush=True)
    return is_right


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        right = [said("1 process", partial(check, 1, f":{folder}"))]
        for count in (2, 4, 8):
            right.append(said(f"{count} processes of JAX", partial(check, count, "")))
        for count in (2, 4):
            trial = partial(check_mpi, count, ALL, Path(folder))
            right.append(said(f"{count} processes of MPI", trial))
    return not all(right)


if __name__ == "__main__":
    sys.exit(main())
