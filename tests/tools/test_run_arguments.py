"""`hloom run --arguments`: what devices are handed where no file says."""

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
