"""Sends between devices for which there is no memory: an error of the run, not of the process."""

import subprocess
import sys

import pytest

from hloom.base.guarding import GUARDING

PROGRAM = '''
import resource

import numpy as np

import hloom

TEXT = """HloModule sent, num_partitions=2
ENTRY e { x = f32[NUMBER] parameter(0)
 t = token[] after-all()
 s = (f32[NUMBER], u32[], token[]) send(x, t), channel_id=1,
   frontend_attributes={_xla_send_recv_source_target_pairs={{0,1}}}
 r = (f32[NUMBER], u32[], token[]) recv(t), channel_id=1,
   frontend_attributes={_xla_send_recv_source_target_pairs={{0,1}}}
 rd = (f32[NUMBER], token[]) recv-done(r), channel_id=1
 sd = token[] send-done(s), channel_id=1
 g = f32[NUMBER] get-tuple-element(rd), index=0
 k = f32[1] slice(g), slice={[3:4]}
 ROOT y = f32[] reshape(k) }"""
number = 1 << 24
exe = hloom.compile(TEXT.replace("NUMBER", str(number)))
x = np.ones(number, np.float32)
messages = []
for step in (None, -1, 0, 1, None):
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    limit = -1 if step is None else used + step * (1 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, -1))
    try:
        results = [np.asarray(r).item() for r in exe.run_devices([[x], [x]])]
        messages.append(str(results))
    except hloom.HloError as error:
        messages.append(str(error))
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
print("\\n".join(messages))
'''


@pytest.mark.skipif(GUARDING, reason="every run maps its buffers anew, which meets the limit first")
def test_a_send_without_memory_is_an_error_of_the_run() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr[-2000:]
    first, *limited, last = done.stdout.splitlines()
    assert first == last == "[0.0, 1.0]"
    told = "no memory for 67108864 bytes that are sent to device 1"
    assert any(told in line for line in limited), limited
