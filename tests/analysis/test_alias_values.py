"""The time line of a schedule, and when values are alive on it."""

import pytest

from hloom.analysis.alias_ranges import live_range
from hloom.analysis.alias_values import Dataflow
from hloom.base.diagnostics import HloError
from hloom.ir.text import parse_module
from hloom.plan.order import Order
from hloom.schedule.least_memory import least_memory_order


def test_a_chain_has_the_ranges_of_its_times():
    m = parse_module("""HloModule m, is_scheduled=true
ENTRY e { a = f32[3] parameter(0)
  b = f32[3] negate(a)
  c = f32[3] negate(b)
  ROOT d = f32[3] negate(c) }""")
    flow = Dataflow(m, Order(m.schedule))
    c = m.entry
    assert [flow.time_of[c[n]] for n in "abcd"] == [0, 1, 2, 3]
    assert live_range(flow.at(c["b"])) == (1, 2)
    assert live_range(flow.at(c["c"])) == (2, 3)


def test_what_is_not_flat_or_has_no_order_is_refused():
    m = parse_module("""HloModule m
f { a = f32[3] parameter(0)
  ROOT b = f32[3] negate(a) }
ENTRY e { a = f32[3] parameter(0)
  b = f32[3] call(a), to_apply=f
  ROOT c = f32[3] call(b), to_apply=f }""")
    with pytest.raises(HloError, match="%e has no order"):
        Dataflow(m, Order({}))
    with pytest.raises(HloError, match="two places"):
        Dataflow(m, least_memory_order(m))
