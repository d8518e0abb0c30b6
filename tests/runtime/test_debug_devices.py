"""Programs of several devices, step by step: times of each device, waits apart from work."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import hloom
from hloom.base.diagnostics import HloError
from hloom.interp import evaluate_lockstep
from hloom.ir.text import parse_module
from hloom.tools.main import app

PROGRAM = """HloModule m, num_partitions=4
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] add(a, b) }
body { c = (s32[], f32[8,8]) parameter(0)
  k = s32[] get-tuple-element(c), index=0
  x = f32[8,8] get-tuple-element(c), index=1
  one = s32[] constant(1)
  n = s32[] add(k, one)
  s = (f32[8,8], f32[8,8]) collective-permute-start(x),
    source_target_pairs={{0,1},{1,2},{2,3},{3,0}}, channel_id=1
  t = f32[8,8] tanh(x)
  d = f32[8,8] collective-permute-done(s)
  y = f32[8,8] add(t, d)
  ROOT r = (s32[], f32[8,8]) tuple(n, y) }
less { c = (s32[], f32[8,8]) parameter(0)
  k = s32[] get-tuple-element(c), index=0
  n = s32[] constant(3)
  ROOT r = pred[] compare(k, n), direction=LT }
ENTRY e { x = f32[8,8] parameter(0)
  p = u32[] partition-id()
  q = f32[] convert(p)
  w = f32[8,8] broadcast(q), dimensions={}
  l = f32[8,8] log(w)
  g = s32[] constant(0)
  i = (s32[], f32[8,8]) tuple(g, x)
  u = (s32[], f32[8,8]) while(i), condition=less, body=body
  v = f32[8,8] get-tuple-element(u), index=1
  a = f32[8,8] all-reduce(v), replica_groups={{0,1},{2,3}}, channel_id=2,
    use_global_device_ids=true, to_apply=add
  ROOT r = (f32[8,8], f32[8,8]) tuple(a, l) }"""
X = [np.random.default_rng(d).random((8, 8), np.float32) for d in range(4)]


def test_times_of_each_device():
    exe = hloom.compile(PROGRAM)
    steps = exe.profile_devices([[x] for x in X], repeats=2)
    assert len(steps) == 4
    for own in steps:
        by_kind = {s.thunk.kind: s for s in own}
        assert by_kind["CollectiveDone"].runs == by_kind["CollectiveStart"].runs == 6
        assert by_kind["Collective"].runs == 2
        assert all(0 <= s.waited_s <= s.seconds for s in own)
        assert all(s.waited_s == 0 for s in own if s.thunk.kind in ("Kernel", "CollectiveStart"))
    assert sum([s.waited_s for own in steps for s in own]) > 0


@pytest.mark.parametrize("watched", [{}, {"nan": False, "kernels": True}], ids=str)
def test_results_and_findings_of_each_device(watched):
    exe = hloom.compile(PROGRAM)
    wanted = evaluate_lockstep(parse_module(PROGRAM), [[x] for x in X])
    runs = exe.debug_devices([[x] for x in X], **watched)
    for device, (run, expected) in enumerate(zip(runs, wanted, strict=True)):
        for x, y in zip(run.result, expected.leaves(), strict=True):
            np.testing.assert_allclose(np.asarray(x), y.array, rtol=1e-6)
        is_found = device == 0 and not watched  # log(0)
        assert (run.finding is not None) == is_found, run
        assert not is_found or run.finding.inf == 64


def test_an_error_on_one_device_ends_all():
    exe = hloom.compile(PROGRAM)
    for wrong in ([], [X[0], X[0]]):
        for call in (exe.run_devices, exe.profile_devices, exe.debug_devices):
            with pytest.raises(HloError, match=f"takes 1 arrays, {len(wrong)} were given"):
                call([[x] for x in X[:3]] + [wrong])
    with pytest.raises(HloError, match="arguments for 2 were given"):
        exe.debug_devices([[X[0]]] * 2)


def test_the_command_shows_devices(tmp_path):
    path = tmp_path / "m.hlo"
    path.write_text(PROGRAM)
    done = CliRunner().invoke(app, ["run", str(path), "--profile"])
    assert done.exit_code == 0 and "device" in done.output and "waits" in done.output, done.output
    done = CliRunner().invoke(app, ["run", str(path), "--profile", "--json"])
    rows = json.loads(done.stdout)["steps"]
    assert {row["device"] for row in rows} == {0, 1, 2, 3}
    assert {row["name"] for row in rows if row["waited_seconds"]} <= {"a", "d"}
