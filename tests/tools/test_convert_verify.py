"""`hloom convert` and `hloom verify`."""

import gzip
import json

import numpy as np
import pytest

import hloom
from hloom import api


@pytest.mark.parametrize("name", ["a.pb", "a.pbtxt", "a.textproto", "a.hlo", "a.txt", "a.hlo.gz"])
def test_every_extension_and_back(run, add, tmp_path, name):
    assert run("convert", add, tmp_path / name).exit_code == 0
    assert api.difference(hloom.load(add), hloom.load(tmp_path / name)) is None
    assert not [p for p in tmp_path.iterdir() if p.name.endswith(".part")]


@pytest.mark.parametrize("form", ["snapshot", "unoptimized-snapshot", "custom-snapshot"])
def test_snapshots_hold_the_inputs(run, add, tmp_path, form):
    np.savez(tmp_path / "in.npz", x=np.float32([1, 2, 3]), arg_1=np.float32([10, 20, 30]))
    out = tmp_path / "s.pb"
    done = run("convert", add, out, "--to", form, "--inputs", tmp_path / "in.npz")
    assert done.exit_code == 0, done.output
    data = json.loads(run("eval", out, "--json").stdout)
    assert data["arguments"] == "snapshot"
    assert data["results"][0]["values"] == [11, 22, 33]


def test_counts_are_replaced(run, add, tmp_path):
    run("convert", add, tmp_path / "b.pb", "--replicas", 3, "--partitions", 2)
    module = hloom.load(tmp_path / "b.pb")
    assert (module.replica_count, module.num_partitions) == (3, 2)


def test_standard_input_and_output(run, add, tmp_path):
    binary = run("convert", add, "-", "--to", "proto").stdout_bytes
    text = run("convert", "-", "-", stdin=binary).stdout
    assert text == run("print", add, "--large-constants").stdout
    words = run("convert", "-", "-", "--to", "hlo-proto", "--text-proto", stdin=text.encode())
    assert words.stdout.startswith("hlo_module {")
    assert run("verify", "-", stdin=words.stdout_bytes).exit_code == 0
    assert gzip.compress(binary)


def test_verdict_per_file_and_worst_exit_code(run, add, tmp_path):
    bad = tmp_path / "bad.hlo"
    bad.write_text(add.read_text().replace("multiply(%x, %y)", "tanh(%x), bogus=1"))
    wrong = tmp_path / "wrong.hlo"
    wrong.write_text(add.read_text().replace("%dead = f32[3]", "%dead = f32[4]"))
    done = run("verify", add, bad, wrong)
    assert done.exit_code == 1
    assert "add.hlo: ok, 4 instructions" in done.stdout
    assert "bad.hlo:6:" in done.stdout and "^" in done.stdout
    assert "3 files, 2 wrong" in done.stdout
    data = json.loads(run("verify", add, wrong, "--json").stdout)
    assert [f["ok"] for f in data["files"]] == [True, False]
    assert data["files"][1]["errors"][0]["rule"] == "shape"
    assert run("verify", add, tmp_path / "absent.hlo").exit_code == 2


def test_all_violations(run, add, tmp_path):
    wrong = tmp_path / "wrong.hlo"
    text = add.read_text().replace(
        "{(f32[3]{0}, f32[3]{0})->f32[3]{0}}", "{(f32[3]{0})->f32[3]{0}}"
    )
    wrong.write_text(text.replace("f32[3]{0} multiply", "f32[5]{0} multiply"))
    one = json.loads(run("verify", wrong, "--json").stdout)["files"][0]["errors"]
    every = json.loads(run("verify", wrong, "--json", "--all").stdout)["files"][0]["errors"]
    assert len(one) == 1 and len(every) >= len(one)


def test_the_file_to_write_is_named_once_either_way(run, add, tmp_path):
    first, second = tmp_path / "a.hlo", tmp_path / "b.hlo"
    assert run("convert", add, first).exit_code == 0
    assert run("convert", add, "-o", second).exit_code == 0
    assert first.read_text() == second.read_text()
    neither, both = run("convert", add), run("convert", add, first, "-o", tmp_path / "c.hlo")
    assert neither.exit_code == both.exit_code == 2
    assert "no file to write is named" in neither.output
    assert "two files to write" in both.output and not (tmp_path / "c.hlo").exists()
