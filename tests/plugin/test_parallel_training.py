"""Losses of training steps in parallel are those of one device (training_child.py)."""

from __future__ import annotations

import pytest

from tests.plugin.child import HERE
from tests.plugin.test_several_processes import run


@pytest.mark.parametrize(("processes", "devices"), [(1, 8)])
def test_losses_are_those_of_one_device(processes: int, devices: int) -> None:
    for status, text in run(processes, devices, "train", [str(HERE / "training_child.py")]):
        assert status == 0 and "done" in text.splitlines(), text[-3000:]
