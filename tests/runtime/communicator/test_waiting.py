"""Devices that wait in vain: who says what, when, and that nobody waits for ever."""

import re
import threading
import time

import numpy as np
import pytest

from hloom.base.diagnostics import UsageError
from hloom.base.options import Options
from hloom.compiler import compile_module
from hloom.device.ids import GlobalDeviceId
from hloom.interp import evaluate_lockstep
from hloom.ir.text import parse_module
from hloom.runtime.communicator.patience import PATIENCE_OPTIONS, Patience
from hloom.runtime.library import ExecutionError

X = np.arange(6, dtype=np.float32)
SUM = """HloModule m, num_partitions=4
fold { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[6] parameter(0)
  ROOT all = f32[6] all-reduce(x), replica_groups={{0,1,2,3}}, channel_id=1,
    use_global_device_ids=true, to_apply=fold }"""
APART = """HloModule m, num_partitions=2
first { p = f32[6] parameter(0)
  ROOT a = f32[6] collective-permute(p), source_target_pairs={{0,1},{1,0}}, channel_id=1 }
second { p = f32[6] parameter(0)
  ROOT b = f32[6] collective-permute(p), source_target_pairs={{0,1},{1,0}}, channel_id=2 }
ENTRY e { x = f32[6] parameter(0)
  which = u32[] partition-id()
  index = s32[] convert(which)
  ROOT c = f32[6] conditional(index, x, x), branch_computations={first, second} }"""
ONE_GOES = APART.replace(
    "second { p = f32[6] parameter(0)", "second { p = f32[6] parameter(0)"
).replace(
    "ROOT b = f32[6] collective-permute(p), source_target_pairs={{0,1},{1,0}}, channel_id=2",
    "ROOT b = f32[6] negate(p)",
)
NEVER_SENT = """HloModule m, num_partitions=2
sends { p = f32[6] parameter(0)  ROOT n = f32[6] negate(p) }
takes { p = f32[6] parameter(0)
  t = token[] after-all()
  q = (f32[6], u32[], token[]) recv(t), channel_id=7,
    frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1}}"}
  d = (f32[6], token[]) recv-done(q), channel_id=7
  ROOT g = f32[6] get-tuple-element(d), index=0 }
ENTRY e { x = f32[6] parameter(0)
  which = u32[] partition-id()
  index = s32[] convert(which)
  ROOT c = f32[6] conditional(index, x, x), branch_computations={sends, takes} }"""
BUSY = """HloModule m, num_partitions=2
cond { s = (s32[], f32[6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  which = u32[] partition-id()
  p = s32[] convert(which)
  many = s32[] constant(COUNT)
  n = s32[] multiply(p, many)
  ROOT l = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  x = f32[6] get-tuple-element(s), index=1
  y = f32[6] cosine(x)
  ROOT t = (s32[], f32[6]) tuple(j, y) }
ENTRY e { x = f32[6] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[6]) tuple(z, x)
  w = (s32[], f32[6]) while(t), condition=cond, body=body
  y = f32[6] get-tuple-element(w), index=1
  ROOT a = f32[6] collective-permute(y), source_target_pairs={{0,1},{1,0}}, channel_id=1 }"""


def made(text: str, *patience: float):
    exe = compile_module(parse_module(text))
    exe.patience = Patience(*patience) if patience else exe.patience
    return exe


def test_a_device_that_stops_is_named(capfd):
    exe = made(SUM, 0.1, 1.5, 600)
    np.testing.assert_array_equal(np.asarray(exe.run_devices([[X]] * 4)[3]), 4 * X)
    exe.together.stop(GlobalDeviceId(2))
    said = r"waits at all for device 2, which did not come in (\S+) s"
    with pytest.raises(ExecutionError, match=said) as caught:
        exe.run_devices([[X]] * 4)
    assert float(re.search(said, caught.value.message)[1]) >= 1.5
    warned = capfd.readouterr().err
    after = re.search(r"waits at all for device 2, for (\S+) s now", warned)
    assert after is not None and float(after[1]) >= 0.1 and warned.count("hloom: device") == 3
    exe.together.stop(None)
    np.testing.assert_array_equal(np.asarray(exe.run_devices([[X]] * 4)[0]), 4 * X)


def test_limits_are_options():
    names = ("warn_stuck", "terminate")
    given = {f"cpu_collective_call_{n}_timeout_seconds": 3 + k for k, n in enumerate(names)}
    options = Options({**given, "cpu_collective_timeout_seconds": 9})
    assert compile_module(parse_module(SUM), None, options).patience == (3, 4, 9)
    assert made(SUM).patience == (20, 40, 1800)


@pytest.mark.parametrize("name", PATIENCE_OPTIONS)
def test_no_time_is_below_zero(name):
    with pytest.raises(UsageError, match=f"--{name}=-1 is no time"):
        compile_module(parse_module(SUM), None, Options({name: -1}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (APART, "all devices wait for one another: device 0 waits at a.* for device 1; device 1"),
        (ONE_GOES, "device 0 waits at .* for device 1, which ended without it"),
        (NEVER_SENT, "device 1 waits at .* for device 0, which ended without it"),
    ],
)
def test_waiting_in_vain_is_seen_at_once(text, message):
    exe = made(text, 600, 600, 600)
    begin = time.monotonic()
    with pytest.raises(ExecutionError, match=message):
        exe.run_devices([[X]] * 2)
    assert time.monotonic() - begin < 300


def test_a_device_that_computes_may_be_late(capfd):
    exe = made(BUSY.replace("COUNT", "3000000"), 0.02, 0.04, 600)
    slow, fast = exe.run_devices([[X]] * 2)
    assert np.isfinite(np.asarray(slow)).all() and np.isfinite(np.asarray(fast)).all()
    assert "for device 1, for" in capfd.readouterr().err


def test_one_that_computes_too_long():
    exe = made(BUSY.replace("COUNT", "1000000000"), 0.02, 0.04, 0.2)
    said = r"for device 1, which did not come in (\S+) s"
    with pytest.raises(ExecutionError, match=said) as caught:
        exe.run_devices([[X]] * 2)
    assert float(re.search(said, caught.value.message)[1]) >= 0.2


def test_an_abort_ends_all_at_once():
    """Device 1 is in a long loop, device 0 waits for it."""
    exe = made(BUSY.replace("COUNT", "1000000000"))
    threading.Timer(0.2, lambda: exe.together.abort("somebody had enough")).start()
    begin = time.monotonic()
    with pytest.raises(ExecutionError, match="somebody had enough"):
        exe.run_devices([[X]] * 2)
    assert time.monotonic() - begin < 300
    assert exe.together.health().under_way == 0


def test_more_devices_than_cores():
    everybody = ",".join(map(str, range(40)))
    text = SUM.replace("num_partitions=4", "num_partitions=40").replace("0,1,2,3", everybody)
    found = made(text).run_devices([[X]] * 40)
    np.testing.assert_array_equal(np.asarray(found[39]), 40 * X)


OVERLAPPED = """HloModule m, num_partitions=8
fold { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[64,64] parameter(0)
  g = (f32[64,64], f32[512,64]) all-gather-start(x), channel_id=1, dimensions={0},
    replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true
  n = f32[64,64] negate(x)
  r = f32[64,64] all-reduce-start(n), channel_id=2, to_apply=fold,
    replica_groups={{0,2,4,6},{1,3,5,7}}, use_global_device_ids=true
  m = f32[64,64] multiply(x, x)
  h = f32[512,64] all-gather-done(g)
  d = f32[64,64] all-reduce-done(r)
  p = f32[64,64] collective-permute(d), channel_id=3,
    source_target_pairs={{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}}
  q = f32[64,64] add(p, m)
  ROOT t = (f32[512,64], f32[64,64]) tuple(h, q) }"""


def test_eight_partitions_with_overlapped_collectives(capfd):
    rng = np.random.default_rng(0)
    given = [[rng.standard_normal((64, 64), np.float32)] for _ in range(8)]
    exe = made(OVERLAPPED, 0.1, 0.2, 60)
    for found, wanted in zip(
        exe.run_devices(given), evaluate_lockstep(parse_module(OVERLAPPED), given), strict=True
    ):
        for x, y in zip(found, wanted.leaves(), strict=True):
            assert np.asarray(x).tobytes() == y.array.tobytes()
    exe.together.stop(GlobalDeviceId(5))
    with pytest.raises(ExecutionError, match=r"waits at [gpr] for devices? .*\b5\b"):
        exe.run_devices(given)
    assert "for device 5, for 0.1" in capfd.readouterr().err
