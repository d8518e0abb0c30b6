"""Sends to the host and receives from it: handlers in Python, while the program runs."""

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import UsageError
from hloom.base.options import Options
from hloom.runtime.native import ExecutionError

ROUND = """HloModule m
ENTRY e {
  x = f32[2,3]{0,1} parameter(0)
  t = token[] after-all()
  s = (f32[2,3]{0,1}, u32[], token[]) send(x, t), channel_id=5, is_host_transfer=true
  d = token[] send-done(s), channel_id=5, is_host_transfer=true
  r = (f32[3,2], u32[], token[]) recv(d), channel_id=6, is_host_transfer=true
  w = (f32[3,2], token[]) recv-done(r), channel_id=6, is_host_transfer=true
  y = f32[3,2] get-tuple-element(w), index=0
  ROOT z = f32[3,2] add(y, y)
}"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def program():
    return hloom.compile(ROUND, threads=1)


@pytest.fixture
def answered(program):
    """The program, whose host gives back what it is sent, and what that was."""
    sent = []
    program.host.take(5, lambda x, device: sent.append((x, device)))
    program.host.give(6, lambda shape, device: sent[-1][0].reshape(shape.dims) + device)
    return program, sent


def test_data_goes_to_the_host_and_comes_back_in_its_layout(answered):
    program, sent = answered
    for k in range(3):
        np.testing.assert_array_equal(program(X + k), 2 * (X + k).reshape(3, 2), strict=True)
    assert [device for _, device in sent] == [0, 0, 0]
    np.testing.assert_array_equal(sent[0][0], X, strict=True)


def test_step_by_step_and_from_a_file_it_is_the_same(answered, tmp_path):
    program, sent = answered
    np.testing.assert_array_equal(program.debug(X).result, 2 * X.reshape(3, 2))
    program.save(tmp_path / "p")
    loaded = hloom.load_compiled(tmp_path / "p")
    with pytest.raises(ExecutionError, match=r"%s: the host has no handler .* channel 5"):
        loaded(X)
    loaded.host.take(5, lambda x, device: sent.append((x, device)))
    loaded.host.give(6, lambda shape, device: -sent[-1][0].reshape(shape.dims))
    np.testing.assert_array_equal(loaded(X), -2 * X.reshape(3, 2))


def test_a_loop_sends_in_order():
    text = """HloModule m
go { c = (s32[], token[]) parameter(0)
  k = s32[] get-tuple-element(c), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(k, n), direction=LT }
body { c = (s32[], token[]) parameter(0)
  k = s32[] get-tuple-element(c), index=0
  t = token[] get-tuple-element(c), index=1
  s = (s32[], u32[], token[]) send(k, t), channel_id=1, is_host_transfer=true
  d = token[] send-done(s), channel_id=1, is_host_transfer=true
  one = s32[] constant(1)
  j = s32[] add(k, one)
  ROOT r = (s32[], token[]) tuple(j, d) }
ENTRY e { z = s32[] constant(0)
  t = token[] after-all()
  i = (s32[], token[]) tuple(z, t)
  w = (s32[], token[]) while(i), condition=go, body=body
  ROOT r = s32[] get-tuple-element(w), index=0 }"""
    exe, sent = hloom.compile(text, threads=1), []
    exe.host.take(1, lambda x, device: sent.append(int(x)))
    assert int(np.asarray(exe())) == 5
    assert sent == [0, 1, 2, 3, 4]


def test_every_device_has_its_number():
    text = ROUND.replace("HloModule m", "HloModule m, replica_count=2")
    exe, sent = hloom.compile(text), {}
    exe.host.take(5, lambda x, device: sent.update({device: x}))
    exe.host.give(6, lambda shape, device: np.full(shape.dims, device, np.float32))
    results = exe.run_devices([[X], [X + 1]])
    assert [np.asarray(r)[0, 0] for r in results] == [0, 2]
    np.testing.assert_array_equal(sent[1] - sent[0], np.ones_like(X))


@pytest.mark.parametrize(
    ("give", "words"),
    [
        (lambda shape, device: np.zeros(3), r"float64\[3\] does not fit .* reads f32\[3,2\]"),
        (lambda shape, device: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_what_a_handler_raises_ends_the_program(answered, give, words):
    program, _ = answered
    program.host.give(6, give)
    with pytest.raises(ExecutionError, match=words) as error:
        program(X)
    assert isinstance(error.value.__cause__, UsageError | ZeroDivisionError)


def test_a_channel_that_is_not_there_is_refused(program):
    with pytest.raises(UsageError, match="no host send on channel 6"):
        program.host.take(6, print)
    with pytest.raises(UsageError, match="no host receive on channel 5"):
        program.host.give(5, print)


def test_what_was_sent_is_the_handlers_own(answered):
    program, sent = answered
    program(X)
    sent[0][0][:] = 7
    np.testing.assert_array_equal(program(X), 2 * X.reshape(3, 2))


def test_tuples_are_refused_with_what_to_do():
    text = ROUND.replace("s = (f32[2,3]{0,1},", "s = ((f32[2,3]{0,1}, s32[]),")
    text = text.replace("send(x, t)", "send(p, t)").replace(
        "  t =", "  n = s32[] constant(1)\n  p = (f32[2,3]{0,1}, s32[]) tuple(x, n)\n  t ="
    )
    with pytest.raises(hloom.HloError, match="arrays of fixed size") as error:
        hloom.compile(text, options=Options())
    assert "a channel of its own" in (error.value.hint or "")
