"""The order of a computation after every kind of edit, against one that is worked out anew."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hloom
from hloom.base.diagnostics import HloError

TEXT = """HloModule m
ENTRY e {
  a = f32[] parameter(0)
  b = f32[] add(a, a)
  c = f32[] negate(b)
  d = f32[] multiply(b, c)
  ROOT e = f32[] subtract(d, a)
}
"""


def is_topological(order):
    at = {i: k for k, i in enumerate(order)}
    return all(at[x] < at[i] for i in order for x in (*i.operands, *i.control_predecessors))


@settings(max_examples=60)
@given(st.data())
def test_every_edit_is_seen(data):
    c = hloom.parse(TEXT).entry
    for _ in range(data.draw(st.integers(1, 8))):
        order = c.in_order()
        assert is_topological(order)
        assert set(order) == set(c.instructions)
        k = data.draw(st.integers(1, len(order) - 1))
        i, before = order[k], order[data.draw(st.integers(0, k - 1))]
        match data.draw(st.sampled_from(["append", "operands", "control", "reorder", "replace"])):
            case "append":
                c.add("negate", before)
            case "operands":
                i.set_operands(tuple([before for _ in i.operands]))
            case "control":
                i.add_control_predecessor(before)
            case "reorder":
                c.reorder(data.draw(st.permutations(order)))
            case "replace":
                made = c.add("tanh", before)
                if i.opcode != "parameter" and before is not i:
                    c.replace(i, made)


def test_a_ring_is_noticed():
    c = hloom.parse(TEXT).entry
    b, d = c["b"], c["d"]
    b.set_operands((d, d))
    with pytest.raises(HloError, match="depends on itself"):
        c.in_order()
    b.set_operands((c["a"], c["a"]))
    assert is_topological(c.in_order())
