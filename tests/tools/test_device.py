"""`hloom device`: the machines that are known, as text that reads back."""

import json

from hloom import api
from hloom.device.text import parse_device


def test_all_machines_are_listed(run):
    done = run("device")
    assert done.exit_code == 0
    assert all(name in done.stdout for name in api.known_names())
    assert "(host)" in done.stdout


def test_one_as_text_that_reads_back(run, tmp_path):
    text = run("device", "host").stdout
    assert parse_device(text) == api.host_device()
    file = tmp_path / "mine.toml"
    file.write_text(text.replace('kind = "cpu"', 'kind = "gpu"'))
    assert parse_device(run("device", str(file)).stdout).kind == "gpu"


def test_as_json(run):
    rows = json.loads(run("device", "--json").stdout)
    assert len(rows) == 1 + len(api.known_names())
    table = json.loads(run("device", "h100", "--json").stdout)
    assert table["compute"]["units"] == 132


def test_a_mesh(run, tmp_path):
    file = tmp_path / "mesh.toml"
    axes = "".join([f'[[axes]]\nname = "{name}"\nsize = 2\n' for name in "xy"])
    file.write_text(f'topology = "four-sims"\n{axes}')
    table = json.loads(run("device", str(file), "--json").stdout)
    assert [a["groups"] for a in table["axes"]] == [[[0, 2], [1, 3]], [[0, 1], [2, 3]]]
    assert "all-reduce of 64 MiB" in run("device", str(file)).stdout


def test_wrong_names_are_said(run, tmp_path):
    done = run("device", "h10O")
    assert done.exit_code == 2 and "did you mean h100" in done.stderr
    file = tmp_path / "broken.toml"
    file.write_text('name = "x"\nkind = [\n')
    done = run("device", str(file))
    assert done.exit_code == 1 and f"{file}:" in done.stderr
