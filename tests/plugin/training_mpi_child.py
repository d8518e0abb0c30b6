"""Trains what training_child.py left: `mpirun -n 4 python training_mpi_child.py folder names`.

Each process has its part of eight devices; losses of 20 steps are those of one device. Says the
name of each program that was right.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import hloom
from hloom import api

FOLDER = Path(sys.argv[1])
PROCESSES = api.Processes.mpi()
assert PROCESSES.size > 1, "started without mpirun"
for name in sys.argv[2].split(","):
    module = hloom.load(FOLDER / f"{name}.mlir")
    exe = hloom.compile(module)
    exe.processes = PROCESSES
    kept = np.load(FOLDER / f"{name}.npz")
    count = len([key for key in kept.files if key.endswith("@0")])
    devices = [[kept[f"{k:03}@{d}"] for k in range(count)] for d in exe.own_part]
    assert len(devices) == 8 // PROCESSES.size
    losses: list[float] = []
    for _ in range(len(kept["losses"])):
        results = exe.run_devices(devices)
        for own, (*state, loss) in zip(devices, results, strict=True):
            own[: len(state)] = state
            value = float(np.asarray(loss))
        losses.append(value)
    np.testing.assert_allclose(losses, kept["losses"], rtol=3e-4, err_msg=name)
    sys.stdout.write(f"{PROCESSES.rank} {name} is right\n")  # in one piece
