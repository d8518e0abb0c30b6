"""Copy insertion: as few copies as there must be, and none too few."""

import pytest

from hloom.analysis import alias_share
from hloom.base.diagnostics import HloError
from hloom.ir.text import parse_module
from hloom.memory.assign import assign_buffers
from hloom.memory.copies import CopyOptions, insert_copies
from hloom.memory.groups import Groups
from hloom.plan.order import Order
from hloom.schedule.least_memory import least_memory_order
from tests.memory.drawn_modules import Drawn
from tests.memory.placed import copy_count, run_both

LOOP = """HloModule m
body {{ p = (s32[], f32[5], f32[5]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[5] get-tuple-element(p), index=1
  b = f32[5] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
{body}
  ROOT r = (s32[], f32[5], f32[5]) tuple(next, {result}) }}
condition {{ p = (s32[], f32[5], f32[5]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(3)
  ROOT f = pred[] compare(i, n), direction=LT }}
ENTRY e {{ x = f32[5] parameter(0)
  y = f32[5] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[5], f32[5]) tuple(zero, x, y)
  ROOT w = (s32[], f32[5], f32[5]) while(init), condition=condition, body=body }}"""
UPDATE = """  part = f32[1] dynamic-slice(b, i), dynamic_slice_sizes={1}
  u = f32[5] dynamic-update-slice(a, part, i)"""


@pytest.mark.parametrize(
    ("body", "result", "copies"),
    [
        (UPDATE, "u, b", 0),
        ("", "b, a", 3),
        # The old array is still read, but before it is overwritten.
        (UPDATE + "\n  v = f32[5] sine(a)", "u, v", 0),
        (UPDATE + "\n  z = f32[5] reverse(u), dimensions={0}\n  v = f32[5] add(a, z)", "u, v", 1),
        ("  v = f32[5] add(a, b)", "v, v", 1),
    ],
)
def test_copies_inside_a_loop(body, result, copies):
    made, _, _ = run_both(LOOP.format(body=body, result=result))
    assert sum(i.opcode == "copy" for i in made["body"]) == copies
    # Parameters are read only, and so is the constant that the counter starts from.
    assert sum(i.opcode == "copy" for i in made.entry) <= 3


def test_state_that_stays_as_it_is_is_read_where_it_stands():
    """The parameter y goes through the loop as it is; only the caller's output is a copy of it."""
    made, assignment, _ = run_both(LOOP.format(body=UPDATE, result="u, b"))
    assert assignment.slice(made["body"]["b"]) == assignment.slice(made.entry["y"])
    assert copy_count(made) == 3


@pytest.mark.parametrize(
    ("header", "root", "copies"),
    [
        ("", "(f32[5], f32[5]) tuple(a, n)", 1),
        ("", "(f32[5], f32[5]) tuple(n, n)", 1),
        (", input_output_alias={ {0}: (0, {}) }", "(f32[5], f32[5]) tuple(n, n)", 1),
        (", input_output_alias={ {0}: (0, {}) }", "(f32[5], f32[5]) tuple(a, n)", 0),
        (", input_output_alias={ {1}: (0, {}) }", "(f32[5], f32[5]) tuple(a, n)", 2),
        (", input_output_alias={ {1}: (0, {}) }", "(f32[5], f32[5]) tuple(n, b)", 1),
    ],
)
def test_copies_of_what_is_returned(header, root, copies):
    made, _, _ = run_both(f"""HloModule m{header}
ENTRY e {{ a = f32[5] parameter(0)
  b = f32[5] parameter(1)
  n = f32[5] add(a, b)
  ROOT r = {root} }}""")
    assert copy_count(made) == copies


def test_a_useless_copy_goes_and_a_demanded_one_stays():
    text = """HloModule m
ENTRY e { a = f32[5] parameter(0)
  c = f32[5] copy(a)
  ROOT n = f32[5] negate(c) }"""
    made, _, result = run_both(text)
    assert copy_count(made) == 0 and result.removed == 1
    demand = CopyOptions(
        demand=lambda user, number, source: user.opcode == "negate" and source.opcode == "parameter"
    )
    made, _, result = run_both(text.replace("negate(c)", "negate(a)"), demand)
    assert copy_count(made) == 1 and result.inserted == 1


def test_without_copies_assignment_refuses():
    m = parse_module(LOOP.format(body="", result="b, a"))
    with pytest.raises(HloError, match="insert_copies"):
        assign_buffers(m, least_memory_order(m))


@pytest.mark.parametrize("seed", range(12))
def test_no_copy_can_be_spared(seed):
    """Each copy that stands in the module is needed: without it two values interfere."""
    m = Drawn(seed, 5).module()
    order = least_memory_order(m)
    insert_copies(m, order)
    names = [(i.parent.name, i.name) for i in m.instructions() if i.opcode == "copy"]
    for computation, name in names:
        other = order.scheduled(m)
        i = other[computation][name]
        i.parent.replace(i, i.operands[0])
        i.parent.erase(i)
        assert other.schedule is not None
        without = Order(other.schedule)
        without.drop_erased([i.parent])
        with pytest.raises(HloError, match="alive together"):
            assign_buffers(other, without)


def test_the_parts_of_a_loops_state_are_looked_at_once(monkeypatch):
    """Not once for each part, which takes as long as the square of how many there are."""
    count = 40
    state = f"({', '.join(['f32[5]'] * count)})"
    body = [f"  a{k} = f32[5] get-tuple-element(p), index={k}" for k in range(count)]
    body += [f"  b{k} = f32[5] sine(a{k})" for k in range(count)]
    results = ", ".join(f"b{k}" for k in range(count))
    started = ", ".join(f"x{k}" for k in range(count))
    entry = [f"  x{k} = f32[5] parameter({k})" for k in range(count)]
    text = "\n".join(
        ["HloModule m", f"body {{ p = {state} parameter(0)", *body]
        + [f"  ROOT r = {state} tuple({results}) }}", f"condition {{ p = {state} parameter(0)"]
        + ["  ROOT f = pred[] constant(false) }", "ENTRY e {", *entry]
        + [f"  init = {state} tuple({started})"]
        + [f"  ROOT w = {state} while(init), condition=condition, body=body }}"]
    )
    looked = []
    real = alias_share.leaves
    monkeypatch.setattr(alias_share, "leaves", lambda x: looked.append(type(x)) or real(x))
    made, _, _ = run_both(text)
    assert copy_count(made) == count
    assert looked.count(tuple) < 8


def test_copies_between_many_loops_look_at_what_is_alive_beside_them(monkeypatch):
    """Not at all of the chain, which takes as long as the square of how many loops there are."""
    count, state = 40, "(s32[], f32[5], f32[5], f32[5])"
    lines = ["HloModule m", f"body {{ p = {state} parameter(0)"]
    lines += ["  i = s32[] get-tuple-element(p), index=0"]
    lines += [f"  a{k} = f32[5] get-tuple-element(p), index={k}" for k in (1, 2, 3)]
    lines += [f"  b{k} = f32[5] sine(a{k % 3 + 1})" for k in (1, 2, 3)]
    lines += ["  one = s32[] constant(1)", "  n = s32[] add(i, one)"]
    lines += [
        f"  ROOT r = {state} tuple(n, b1, b2, b3) }}",
        f"condition {{ p = {state} parameter(0)",
    ]
    lines += ["  i = s32[] get-tuple-element(p), index=0", "  end = s32[] constant(3)"]
    lines += ["  ROOT f = pred[] compare(i, end), direction=LT }", "ENTRY e {"]
    lines += ["  x = f32[5] parameter(0)", "  zero = s32[] constant(0)"]
    lines += [f"  t0 = {state} tuple(zero, x, x, x)"]
    for k in range(count):
        lines += [f"  w{k} = {state} while(t{k}), condition=condition, body=body"]
        lines += [f"  g{k}_{j} = f32[5] get-tuple-element(w{k}), index={j}" for j in (1, 2, 3)]
        lines += [f"  t{k + 1} = {state} tuple(zero, g{k}_1, g{k}_2, g{k}_3)"]
    lines += [f"  ROOT y = f32[5] get-tuple-element(w{count - 1}), index=1", "}"]
    module = parse_module("\n".join(lines))
    looked = []
    real = Groups._merged
    monkeypatch.setattr(
        Groups, "_merged", lambda g, x, *more: looked.append(len(x)) or real(g, x, *more)
    )
    insert_copies(module, least_memory_order(module))
    assert len(looked) >= count
    assert max(looked) < count
