"""What the verifier says, and what it does not work out."""

import pytest

import hloom
from hloom.base import diagnostics
from hloom.ir import op
from tests.processor_time import at_most

SENDS = """HloModule m
ENTRY e {{
  x = f32[2]{{0}} parameter(0)
  y = f32[2]{{0}} parameter(1)
  k = token[] after-all()
  first = (f32[2]{{0}}, u32[], token[]) send(x, k), channel_id=3, is_host_transfer=true{a}
  d = token[] send-done(first), channel_id=3, is_host_transfer=true{done}
  second = (f32[2]{{0}}, u32[], token[]) send(y, k), channel_id=3, is_host_transfer=true{b}
  f = token[] send-done(second), channel_id=3, is_host_transfer=true
  ROOT r = f32[2]{{0}} negate(x)
}}
"""


def said(text: str) -> str | None:
    try:
        hloom.verify(hloom.parse(text))
    except diagnostics.HloError as error:
        return str(error)
    return None


def test_host_transfers_on_one_channel_are_identical():
    mark = ', frontend_attributes={k="v"}'
    assert said(SENDS.format(a="", b="", done="")) is None
    assert said(SENDS.format(a=mark, b=mark, done="")) is None
    message = said(SENDS.format(a=mark, b="", done=""))
    assert message and "%first" in message and "%second" in message


def test_both_shapes_are_in_the_message():
    text = "ENTRY e {{\n p = {0} parameter(0)\n q = {1} parameter(1)\n ROOT r = {0} {2}(p, q)\n}}"
    for one, two in (("f32[2]", "f32[3]"), ("f32[2,2]", "f32[2]"), ("s32[4]", "f32[4]")):
        for opcode in ("add", "multiply", "maximum", "subtract"):
            try:
                message = said(text.format(one, two, opcode))
            except hloom.HloError as error:
                message = str(error)
            assert message and one in message and two in message, (opcode, message)


def test_done_and_start_agree():
    start, other = "send-done(first), channel_id=3", "send-done(first), channel_id=4"
    text = SENDS.format(a="", b="", done="").replace(start, other)
    assert "channel" in (said(text) or "")
    text = SENDS.format(a="", b="", done="").replace(
        "send-done(first), channel_id=3, is_host_transfer=true", "send-done(first), channel_id=3"
    )
    assert "is_host_transfer" in (said(text) or "")


def test_equal_channel_ids_order_nothing():
    text = """sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY e {
  x = f32[4]{0} parameter(0)
  a = f32[4]{0} all-reduce(x), channel_id=1, replica_groups={}, to_apply=sum
  b = f32[4]{0} all-reduce(x), channel_id=1, replica_groups={}, to_apply=sumEDGE
  ROOT t = (f32[4]{0}, f32[4]{0}) tuple(a, b)
}"""
    for edge in (False, True):
        source = text.replace("EDGE", ", control-predecessors={a}" if edge else "")
        assert said(source) is None
        module = hloom.parse(source)
        e = module.entry
        module.schedule = {e: [e["x"], e["b"], e["a"], e["t"]], module["sum"]: list(module["sum"])}
        if edge:
            with pytest.raises(hloom.HloError, match="%b"):
                hloom.verify(module)
        else:
            hloom.verify(module)


@pytest.mark.parametrize("count", [100_000])
def test_a_correct_program_costs_no_message(count, monkeypatch):
    kinds = ("negate(p{0})", "add(p{0}, p0)", "multiply(p{0}, p{0})", "select(c, p{0}, p0)")
    lines = ["ENTRY e {\n p0 = f32[8]{0} parameter(0)\n c = pred[8]{0} parameter(1)"]
    lines += [f" p{k + 1} = f32[8]{{0}} {kinds[k % 4].format(k)}" for k in range(count)]
    module = hloom.parse("\n".join([*lines, f" ROOT r = f32[8]{{0}} sine(p{count})\n}}"]))

    def refuse(self, *arguments, **more):
        raise AssertionError("an error was made for a correct program")

    monkeypatch.setattr(diagnostics.HloError, "__init__", refuse)
    monkeypatch.setattr(op.ShapeError, "__init__", refuse)
    with at_most(6):
        hloom.verify(module)
