"""`hloom calibrate`: costs of this machine, measured, as a device that can be compiled for."""

from __future__ import annotations

import json

import numpy as np

import hloom
from hloom import api
from hloom.device.costs import WEIGHTS, Costs
from hloom.device.text import parse_device, show_device
from hloom.tools import calibrate


def test_everything_that_is_measured_is_plausible_and_the_rest_stays():
    known = Costs(kernel_ns=123.0)
    measured = calibrate.measured_costs(known, 2, far_elements=1 << 20)
    assert measured.kernel_ns == 123.0
    assert 0 < measured.operation_ns < 10
    assert measured.operation_ns <= measured.element_ns < 100
    assert 0 < measured.byte_ns < 100
    weights = dict(measured.weights)
    assert set(weights) == {*calibrate.UNARY, *calibrate.BINARY} <= set(WEIGHTS)
    assert all(w >= 1 for w in weights.values())
    assert measured.weight("power") > measured.weight("add") == 1


def test_the_file_is_a_device_to_compile_for(tmp_path, run, monkeypatch):
    file = tmp_path / "mine.toml"
    monkeypatch.setattr(calibrate, "FAR_ELEMENTS", 1 << 20)
    done = run("calibrate", "-o", str(file), "--rounds", "1", "--json")
    device = parse_device(file.read_text())
    assert json.loads(done.stdout) == api.device_table(device)
    assert parse_device(show_device(device)) == device
    f = hloom.compile(
        "HloModule m\nENTRY e { p = f32[7] parameter(0) ROOT r = f32[7] tanh(p) }",
        target=f"cpu:{file}",
    )
    assert f.target.device.costs == device.costs
    assert np.allclose(np.asarray(f(np.ones(7, np.float32))), np.tanh(1))
