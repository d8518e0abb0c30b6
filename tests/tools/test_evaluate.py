"""`hloom eval`: where arguments come from, and what is shown."""

import json

import ml_dtypes
import numpy as np
import pytest


@pytest.fixture
def npz(tmp_path):
    def write(**arrays):
        np.savez(tmp_path / "in.npz", **arrays)
        return tmp_path / "in.npz"

    return write


def test_table_shows_small_results(run, add, npz):
    out = run("eval", add, "--inputs", npz(x=np.float32([1, 2, 3]), y=np.float32([1, 1, np.inf])))
    assert "[2, 3, inf]" in out.stdout and "1 inf" in out.stdout, out.output


def test_random_arguments_depend_on_the_seed_only(run, add):
    def result(*words):
        return json.loads(run("eval", add, "--json", *words).stdout)["results"][0]["values"]

    assert result() == result("--random", 0) != result("--random", 1)


def test_output_file(run, add, npz, tmp_path):
    given = npz(arg_0=np.float32([1, 2, 3]), arg_1=np.float32([1, 1, 1]))
    run("eval", add, "--inputs", given, "--output", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as found:
        assert found["result"].tolist() == [2, 3, 4]


def test_types_that_numpy_lacks(run, npz, tmp_path):
    path = tmp_path / "narrow.hlo"
    path.write_text("ENTRY main {\n  x = bf16[2] parameter(0)\n  ROOT n = bf16[2] negate(x)\n}\n")
    given = npz(x=np.array([1.5, -2], ml_dtypes.bfloat16))
    done = run("eval", path, "--inputs", given, "--json", "-o", tmp_path / "o.npz")
    assert json.loads(done.stdout)["results"][0]["values"] == [-1.5, 2]


def test_devices_run_in_lockstep(run, ring, npz):
    given = npz(**{"x": np.float32([1, 2]), "x@1": np.float32([10, 20])})
    done = run("eval", ring, "--inputs", given)
    assert "the same on all 2 devices" in done.stdout and "[11, 22]" in done.stdout
    data = json.loads(run("eval", ring, "--partitions", 2, "--json").stdout)
    assert [r["device"] for r in data["results"]] == [0, 1]


def test_print_shows_every_value(run, loop, npz):
    out = run("eval", loop, "--inputs", npz(x=np.zeros(4, np.float32)), "--print").stdout
    assert "result f32[4]\n[0. 0. 0. 0.]" in out


def test_loops_are_guarded(run, loop):
    done = run("eval", loop, "--while-limit", 5)
    assert done.exit_code == 1 and "loop" in done.stderr


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.float32([1, 2, 3])}, "no array for parameter y"),
        ({"x": np.zeros(3), "y": np.zeros(3)}, "x is float64[3], but the parameter is f32[3]"),
        ({"x": np.float32([1]), "y": np.float32([1])}, "x is float32[1]"),
        ({"x": np.zeros(3, "f4"), "y": np.zeros(3, "f4"), "z": np.zeros(1)}, "'z' is no parameter"),
    ],
)
def test_wrong_arrays(run, add, npz, arrays, message):
    done = run("eval", add, "--inputs", npz(**arrays))
    assert done.exit_code == 2 and message in done.stderr
    assert "Traceback" not in done.output


def test_devices_that_a_header_leaves_out_are_asked_for(run, tmp_path):
    path = tmp_path / "four.hlo"
    path.write_text("""HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[2] parameter(0)
  ROOT r = f32[2] all-reduce(x), replica_groups={{0,1,2,3}}, to_apply=add }""")
    for command in ("eval", "run"):
        done = run(command, path)
        assert done.exit_code == 1 and "--num_replicas=4" in done.output
    assert "the same on all 4 devices" in run("eval", path, "--num_replicas=4").output
    assert "the same on all 4 devices" in run("run", path, "--num_replicas=4").output
    assert run("run", path, "--num_replicas=1").exit_code == 0
    assert "replica_count=4" in run("opt", path, "--num_replicas=4", "--passes=dce").output
