"""Infeeds and outfeeds of programs for several devices: each has queues of its own."""

from threading import Thread

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import UsageError
from hloom.runtime.communicator.patience import Patience
from hloom.runtime.native import ExecutionError

FED = """HloModule fed, num_partitions=4
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
body { s = (s32[], f32[3], token[]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  t = token[] get-tuple-element(s), index=2
  i = (f32[3], token[]) infeed(t)
  x = f32[3] get-tuple-element(i), index=0
  it = token[] get-tuple-element(i), index=1
  r = f32[3] all-reduce(x), replica_groups={{0,1,2,3}}, channel_id=1,
    use_global_device_ids=true, to_apply=sum
  n = f32[3] subtract(r, x)
  o = token[] outfeed(n, it), outfeed_shape=f32[3]
  one = s32[] constant(1)
  j = s32[] add(k, one)
  ROOT y = (s32[], f32[3], token[]) tuple(j, r, o) }
cond { s = (s32[], f32[3], token[]) parameter(0)
  k = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT l = pred[] compare(k, n), direction=LT }
ENTRY e { z = s32[] constant(0)
  f = f32[] constant(0)
  v = f32[3] broadcast(f), dimensions={}
  t = token[] after-all()
  s = (s32[], f32[3], token[]) tuple(z, v, t)
  w = (s32[], f32[3], token[]) while(s), condition=cond, body=body
  ROOT r = f32[3] get-tuple-element(w), index=1 }"""


def fed(device: int, turn: int) -> np.ndarray:
    return np.arange(3, dtype=np.float32) * (device + 1) + 10 * turn


@pytest.mark.parametrize("target", ["cpu", "sim:four-sims"])
def test_each_device_has_feeds_of_its_own(target):
    exe = hloom.compile(FED, target=target)
    for _ in range(2):
        for turn in range(3):
            for device in range(4):
                exe.infeed(fed(device, turn), device=device)
        results = exe.run_devices([[]] * 4)
        for device in range(4):
            np.testing.assert_array_equal(results[device], sum(fed(d, 2) for d in range(4)))
            for turn in range(3):
                others = sum(fed(d, turn) for d in range(4) if d != device)
                np.testing.assert_array_equal(exe.outfeed(1, device=device), others)
    with pytest.raises(UsageError, match="no device 4 to feed"):
        exe.infeed(fed(0, 0), device=4)


def test_devices_wait_for_what_the_host_gives_one_of_them():
    exe = hloom.compile(FED)
    for turn in range(3):
        for device in (0, 1, 3):
            exe.infeed(fed(device, turn), device=device)
    thread = Thread(target=exe.run_devices, args=([[]] * 4,))
    thread.start()
    for turn in range(3):
        exe.infeed(fed(2, turn), device=2)
        others = sum(fed(d, turn) for d in range(1, 4))
        np.testing.assert_array_equal(exe.outfeed(30), others)
    thread.join(30)
    assert not thread.is_alive()


def test_a_device_that_waits_for_its_host_ends_with_the_others():
    exe = hloom.compile(FED)
    exe.patience = Patience(0.05, 0.3, 60)
    for device in (0, 1, 3):
        exe.infeed(fed(device, 0), device=device)
    with pytest.raises(ExecutionError, match="device"):
        exe.run_devices([[]] * 4)
