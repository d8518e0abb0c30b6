"""Buffers and interference, live ranges on the time line."""

import pytest

from hloom.analysis.alias_buffers import AliasAnalysis
from hloom.analysis.alias_ranges import live_range
from hloom.analysis.alias_values import ValueFlow
from hloom.base.diagnostics import HloError
from hloom.ir.text import parse_module
from hloom.memory.copies import insert_copies
from hloom.schedule.least_memory import schedule_module

LOOP = """HloModule m
body {{ p = (f32[3], f32[3]) parameter(0)
  a = f32[3] get-tuple-element(p), index=0
  b = f32[3] get-tuple-element(p), index=1
  s = f32[3] add(a, b)
  ROOT r = (f32[3], f32[3]) tuple({result}) }}
condition {{ p = (f32[3], f32[3]) parameter(0)
  ROOT f = pred[] constant(false) }}
ENTRY e {{ x = f32[3] parameter(0)
  x1 = f32[3] negate(x)
  x2 = f32[3] sine(x)
  init = (f32[3], f32[3]) tuple(x1, x2)
  ROOT w = (f32[3], f32[3]) while(init), condition=condition, body=body }}"""


def test_loop_state_is_one_buffer():
    m = parse_module(LOOP.format(result="s, b"))
    analysis = AliasAnalysis(m)
    w, init, body = m.entry["w"], m.entry["init"], m["body"]
    for k, root in enumerate(("s", "b")):
        index = (k,)
        assert analysis.share((init, index), (body["p"], index), (body[root], ()), (w, index))
    assert not analysis.share((w, (0,)), (w, (1,)))
    assert analysis.interference() == []


def test_a_swap_interferes_until_copies_are_in():
    text = LOOP.format(result="b, a").replace("  s = f32[3] add(a, b)\n", "")
    m = parse_module(text)
    analysis = AliasAnalysis(m)
    w, p = m.entry["w"], m["body"]["p"]
    assert analysis.share((w, (0,)), (w, (1,)), (p, (0,)), (p, (1,)))
    assert analysis.interference()
    schedule_module(m)
    insert_copies(m)
    assert AliasAnalysis(m).interference() == []


def test_a_chain_has_the_ranges_of_its_times():
    m = parse_module("""HloModule m, is_scheduled=true
ENTRY e { a = f32[3] parameter(0)
  b = f32[3] negate(a)
  c = f32[3] negate(b)
  ROOT d = f32[3] negate(c) }""")
    flow = ValueFlow(m)
    c = m.entry
    assert [flow.time_of[c[n]] for n in "abcd"] == [0, 1, 2, 3]
    assert live_range(flow.at(c["b"])) == (1, 2)
    assert live_range(flow.at(c["c"])) == (2, 3)


def test_what_is_not_flat_or_not_scheduled_is_refused():
    m = parse_module("""HloModule m
f { a = f32[3] parameter(0)
  ROOT b = f32[3] negate(a) }
ENTRY e { a = f32[3] parameter(0)
  b = f32[3] call(a), to_apply=f
  ROOT c = f32[3] call(b), to_apply=f }""")
    with pytest.raises(HloError, match="schedule"):
        ValueFlow(m)
    with pytest.raises(HloError, match="two places"):
        AliasAnalysis(m)
