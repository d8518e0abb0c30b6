"""Losses of training steps in parallel are those of one device (training_child.py)."""

from __future__ import annotations

from pathlib import Path

from tests.plugin.child import HERE
from tests.plugin.test_several_processes import run
from tests.runtime.test_processes import MPIRUN
from tests.runtime.test_processes import run as run_mpi

CHILD = [str(HERE / "training_child.py")]
FEW = "fsdp,experts"
"""What is tried in several processes: weights are gathered and gradients scattered, and rows of
numbers that nobody knows before are exchanged. `python -m tests.fuzz.run_training` tries all."""


def test_one_process_and_four_that_mpi_joins(tmp_path: Path) -> None:
    check(1, f":{tmp_path}")
    if MPIRUN is not None:
        check_mpi(4, FEW, tmp_path)


def test_four_processes_that_jax_joins() -> None:
    check(4, FEW)


def check(processes: int, names: str) -> str:
    """What the first process says of training steps on eight devices; all must be right."""
    ended = run(processes, 8 // processes, names, CHILD)
    for status, text in ended:
        assert status == 0 and "done" in text.splitlines(), text[-3000:]
    return ended[0][1]


def check_mpi(processes: int, names: str, folder: Path) -> None:
    """Train in processes of MPI what one process has left in a folder."""
    done = run_mpi(HERE / "training_mpi_child.py", folder, names, processes=processes)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for name in names.split(","):
        assert done.stdout.count(f" {name} is right\n") == processes, done.stdout
