"""`hloom run --arguments`: what devices are handed where no file says."""

import json

import numpy as np
import pytest

SUMMED = """HloModule m, num_partitions=4
sum { x = s32[] parameter(0) y = s32[] parameter(1) ROOT z = s32[] add(x, y) }
ENTRY e {
  a = (s32[3], f32[2]) parameter(0)
  b = s32[3] get-tuple-element(a), index=0
  c = f32[2] get-tuple-element(a), index=1
  r = s32[3] all-reduce(b), channel_id=1, use_global_device_ids=true, replica_groups={{0,1,2,3}}, to_apply=sum
  ROOT o = (s32[3], f32[2]) tuple(r, c)
}"""  # noqa: E501


@pytest.mark.parametrize(("values", "total", "own"), [("device-id", 6, 2), ("zeros", 0, 0)])
def test_arguments_of_one_number(run, tmp_path, values, total, own) -> None:
    path, out = tmp_path / "m.hlo", tmp_path / "out.npz"
    path.write_text(SUMMED)
    result = run("run", path, "--arguments", values, "--check", "-o", out)
    assert result.exit_code == 0, result.output
    arrays = np.load(out)
    of_devices = {name: arrays[name] for name in arrays.files}
    assert any(np.array_equal(x, [total] * 3) for x in of_devices.values())
    assert any(np.array_equal(x, np.full(2, own, np.float32)) for x in of_devices.values())


def test_arguments_of_one_device_on_all(run, tmp_path) -> None:
    path, out = tmp_path / "m.hlo", tmp_path / "out.npz"
    path.write_text("HloModule m, num_partitions=3\nENTRY e { ROOT a = f32[4] parameter(0) }")
    assert run("run", path, "--arguments", "shared-random", "-o", out).exit_code == 0
    arrays = np.load(out)
    first, *rest = [arrays[name] for name in arrays.files]
    assert np.ptp(first) > 0 and all(np.array_equal(first, x) for x in rest)
    np.savez(tmp_path / "in.npz", arg_0=np.ones(4, np.float32))
    both = run("run", path, "--arguments", "zeros", "--inputs", tmp_path / "in.npz")
    assert both.exit_code == 2
    seeded = run("run", path, "--arguments", "zeros", "--random", "3")
    assert seeded.exit_code == 2 and "--random says" in seeded.output


def test_uninitialised_arguments(run, tmp_path) -> None:
    """Nothing is drawn: an array that would take minutes to fill is there at once; truth values
    are true or false."""
    path, out = tmp_path / "m.hlo", tmp_path / "out.npz"
    path.write_text("""HloModule m, num_partitions=2
ENTRY e {
  a = (pred[65], f32[3]) parameter(0)
  b = bf16[2,5] parameter(1)
  c = s32[<=7] parameter(2)
  p = pred[65] get-tuple-element(a), index=0
  n = s32[] get-dimension-size(c), dimensions={0}
  ROOT t = (pred[65], s32[], bf16[2,5]) tuple(p, n, b)
}""")
    result = run("run", path, "--arguments", "uninitialised", "-o", out)
    assert result.exit_code == 0, result.output
    assert "what stood in memory" in result.output
    arrays = np.load(out)
    for device in range(2):
        assert set(np.unique(arrays[f"result.0@{device}"].view(np.uint8))) <= {0, 1}
        assert arrays[f"result.1@{device}"] == 7


def test_uninitialised_arguments_are_not_drawn(run, tmp_path, monkeypatch) -> None:
    path = tmp_path / "m.hlo"
    path.write_text("HloModule m\nENTRY e { a = f32[4] parameter(0) ROOT b = f32[4] negate(a) }")

    def drawn(*_: object, **__: object) -> None:
        raise AssertionError("random numbers were drawn")

    monkeypatch.setattr("hloom.interp.sample.random_array", drawn)
    for values in ("uninitialised", "zeros", "device-id"):
        assert run("run", path, "--arguments", values).exit_code == 0
    assert run("run", path).exit_code != 0


@pytest.mark.parametrize("check", [False, True])
def test_results_of_chosen_devices(run, tmp_path, check) -> None:
    path, out = tmp_path / "m.hlo", tmp_path / "out.npz"
    path.write_text(SUMMED)
    words = ("run", path, "--arguments", "device-id", *(["--check"] if check else []))
    first = run(*words, "--results", "device-0", "-o", out, "--json")
    assert first.exit_code == 0, first.output
    assert {row["device"] for row in json.loads(first.output)["results"]} == {0}
    arrays = np.load(out)
    assert np.array_equal(arrays["result.0"], [6] * 3)
    assert np.array_equal(arrays["result.1"], np.zeros(2, np.float32))
    nothing = run(*words, "--results", "none", "--json")
    assert nothing.exit_code == 0 and json.loads(nothing.output)["results"] == []
    assert "first run" in run(*words, "--results", "none").output
    assert run(*words, "--results", "none", "-o", out).exit_code == 2


def test_without_passes_a_program_runs_as_it_is_written(run, tmp_path) -> None:
    """Two equal sums and a product by one stay: nothing is simplified, shared or fused."""
    path = tmp_path / "m.hlo"
    path.write_text("""HloModule m
ENTRY e {
  a = f32[4] parameter(0)
  one = f32[] constant(1)
  ones = f32[4] broadcast(one), dimensions={}
  b = f32[4] add(a, a)
  c = f32[4] add(a, a)
  d = f32[4] multiply(b, ones)
  ROOT r = f32[4] subtract(d, c)
}""")
    result = run("run", path, "--disable_all_hlo_passes", "--check", "--profile", "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.output)
    assert data["compile"]["passes"] == []
    assert len([step for step in data["steps"] if step["kind"] == "Kernel"]) >= 5
