"""Host callbacks of an execution, as any host of PJRT gives them, through ctypes."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

import hloom
from hloom.plugin.serving import serve
from tests.plugin.pjrt_table import Failed, Table, size

PROGRAM = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  t = token[] after-all()
  s = (f32[4], u32[], token[]) send(x, t), channel_id=5, is_host_transfer=true
  d = token[] send-done(s), channel_id=5, is_host_transfer=true
  r = (f32[4], u32[], token[]) recv(d), channel_id=6, is_host_transfer=true
  w = (f32[4], token[]) recv-done(r), channel_id=6, is_host_transfer=true
  y = f32[4] get-tuple-element(w), index=0
  ROOT z = f32[4] add(y, y)
}"""
X = np.array([1, 2, 3, 4], np.float32)
SEND = ctypes.CFUNCTYPE(
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_bool,
    ctypes.c_void_p,
)
RECEIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
FREE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
FAIL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)


class Host:
    """A client with the program, and a host that answers."""

    def __init__(self) -> None:
        serve()
        self.table = Table()
        self.sent: list[np.ndarray] = []
        self.fails = False
        self.client = self.table.call("Client_Create")("client")
        listed = self.table.call("Client_AddressableDevices", client=self.client)
        self.device = ctypes.c_uint64.from_address(listed("addressable_devices")).value
        code = self.table.program(hloom.file_bytes(hloom.parse(PROGRAM), "proto"), b"hlo")
        compiled = self.table.call("Client_Compile", client=self.client, program=code)
        self.executable = compiled("executable")

    def send(self, chunk, make_error, total, is_done, _user):
        data, length, free, argument = (ctypes.c_uint64 * 4).from_address(chunk)
        assert is_done and length == total == X.nbytes
        self.sent.append(np.frombuffer(ctypes.string_at(data, length), np.float32))
        FREE(free)(data, argument)
        if self.fails:
            made = ctypes.c_uint64.from_address(make_error).value
            return FAIL(made)(9, b"the host is full", 16)
        return None

    def add(self, stream, data: bytes) -> None:
        raw = ctypes.create_string_buffer(data, len(data))
        chunk = (ctypes.c_uint64 * 4)(ctypes.addressof(raw), len(data), 0, 0)
        self.table.call("CopyToDeviceStream_AddChunk", stream=stream, chunk=chunk)

    def options(self, sends, receives):
        """PJRT_ExecuteOptions with these callbacks of channels 5 and 6."""
        raw = (ctypes.c_uint64 * (size("PJRT_ExecuteOptions") // 8))()
        raw[0] = size("PJRT_ExecuteOptions")
        for at, functions, channel in ((2, sends, 5), (3, receives, 6)):
            infos = (ctypes.c_uint64 * (3 * max(len(functions), 1)))()
            for k, f in enumerate(functions):
                infos[3 * k] = channel
                infos[3 * k + 2] = ctypes.cast(f, ctypes.c_void_p).value
            lists = (ctypes.c_uint64 * 1)(ctypes.addressof(infos))
            raw[at], raw[at + 2] = ctypes.addressof(lists), len(functions)
            self.table.held += [infos, lists, *functions]
        return raw

    def run(self, receive, sends=None):
        """What the program gives where the host answers by `receive`."""
        sends = [SEND(self.send)] if sends is None else sends
        receives = [RECEIVE(receive)] if receive else []
        buffer = self.table.call(
            "Client_BufferFromHostBuffer",
            client=self.client,
            data=X.ctypes.data,
            type=11,
            dims=(ctypes.c_uint64 * 1)(4),
            num_dims=1,
            host_buffer_semantics=0,
            device=self.device,
        )("buffer")
        outputs = (ctypes.c_uint64 * 1)()
        arguments = (ctypes.c_uint64 * 1)(buffer)
        try:
            self.table.call(
                "LoadedExecutable_Execute",
                executable=self.executable,
                options=self.options(sends, receives),
                argument_lists=(ctypes.c_uint64 * 1)(ctypes.addressof(arguments)),
                num_devices=1,
                num_args=1,
                output_lists=(ctypes.c_uint64 * 1)(ctypes.addressof(outputs)),
            )
            result = np.zeros(4, np.float32)
            event = self.table.call(
                "Buffer_ToHostBuffer", src=outputs[0], dst=result.ctypes.data, dst_size=16
            )("event")
            try:
                self.table.call("Event_Await", event=event)
            finally:
                self.table.call("Event_Destroy", event=event)
                self.table.call("Buffer_Destroy", buffer=outputs[0])
            return result
        finally:
            self.table.call("Buffer_Destroy", buffer=buffer)


@pytest.fixture(scope="module")
def host():
    made = Host()
    yield made
    made.table.call("LoadedExecutable_Destroy", executable=made.executable)
    made.table.call("Client_Destroy", client=made.client)


def test_data_goes_to_the_host_and_comes_back(host):
    def receive(stream, _user):
        total = host.table.call("CopyToDeviceStream_TotalBytes", stream=stream)("total_bytes")
        host.add(stream, host.sent[-1].tobytes()[: total // 2])
        there = host.table.call("CopyToDeviceStream_CurrentBytes", stream=stream)("current_bytes")
        assert (total, there) == (16, 8)
        host.add(stream, host.sent[-1].tobytes()[8:])
        with pytest.raises(Failed, match="4 bytes is added where 0 are missing"):
            host.add(stream, bytes(4))
        host.table.call("CopyToDeviceStream_Destroy", stream=stream)

    for _ in range(2):
        np.testing.assert_array_equal(host.run(receive), 2 * X)
    np.testing.assert_array_equal(host.sent[-1], X)


def test_the_host_may_answer_later(host):
    def later(stream):
        host.add(stream, (-X).tobytes())
        host.table.call("CopyToDeviceStream_Destroy", stream=stream)

    timer = []

    def receive(stream, _user):
        timer.append(threading.Timer(0.05, later, [stream]))
        timer[0].start()

    np.testing.assert_array_equal(host.run(receive), -2 * X)
    timer[0].join()


def test_a_host_that_lets_go_ends_the_program(host):
    def receive(stream, _user):
        host.add(stream, bytes(4))
        host.table.call("CopyToDeviceStream_Destroy", stream=stream)

    with pytest.raises(Failed, match="the host gave 4 of 16 bytes on channel 6"):
        host.run(receive)


def test_errors_of_the_host_and_missing_callbacks_are_told(host):
    host.fails = True
    with pytest.raises(Failed, match="send callback of channel 5: the host is full"):
        host.run(lambda stream, user: None)
    host.fails = False
    with pytest.raises(Failed, match="no receive callback was given for channel 6"):
        host.run(None)
    with pytest.raises(Failed, match="channel 5"):
        host.run(None, sends=[])
