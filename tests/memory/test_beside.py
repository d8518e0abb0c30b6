"""Memory for branches that run side by side: right, apart, and a little of it."""

import pytest

from hloom.analysis.alias_tree import leaves
from hloom.analysis.alias_values import Dataflow
from hloom.ir.copy import copy_module
from hloom.ir.text import parse_module
from hloom.memory.assign import AssignOptions, assign_buffers
from hloom.memory.beside import Beside
from hloom.memory.copies import CopyOptions, insert_copies
from hloom.plan.branches import Branches
from hloom.plan.verify import check_buffer_assignment
from hloom.schedule.least_memory import least_memory_order
from tests.memory.drawn_modules import Drawn
from tests.memory.placed import placed, run_both


def every_step(c, order):
    """Each step a branch of its own, beside all that it needs nothing of."""
    ancestors, number = [], {i: k for k, i in enumerate(order)}
    for i in order:
        seen = 0
        for x in (*i.operands, *i.control_predecessors):
            seen |= ancestors[number[x]] | 1 << number[x]
        ancestors.append(seen)
    beside = [0] * len(order)
    for b, before in enumerate(ancestors):
        for a in range(b):
            if not before >> a & 1:
                beside[a] |= 1 << b
                beside[b] |= 1 << a
    return Branches({i.name: k for k, i in enumerate(order)}, tuple(beside))


def plan_of(module):
    made = copy_module(module)
    order = least_memory_order(made)
    insert_copies(made, order)
    return {c.name: every_step(c, steps) for c, steps in order.steps.items()}


def falsely_shared(module, order, assignment, plan):
    """Pairs of steps that may run at once of which one writes where the other reads or writes."""
    flow = Dataflow(module, order)
    beside = Beside(flow, plan)
    values = [
        (v, beside.touches(v), assignment.slice(i, index))
        for i, tree in flow.trees.items()
        for index, v in leaves(tree)
        if v is not None and v.instruction is i and v.kind != "constant"
    ]
    found = []
    for k, (v, touches, one) in enumerate(values):
        for w, others, two in values[:k]:
            if v is not w and one.overlaps(two) and beside.in_the_way(touches, others):
                found.append((v, w))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_drawn_programs_are_right_and_apart(seed):
    module = Drawn(3_000_000 + seed, 8).module()
    plan = plan_of(module)
    run_both(module, CopyOptions(branches=plan), AssignOptions(branches=plan), seed)
    made = copy_module(module)
    order, assignment, _ = placed(made, CopyOptions(branches=plan), AssignOptions(branches=plan))
    # What a loop carries is in one place, whoever reads it.
    carried = ("state", "merge")
    for pair in falsely_shared(made, order, assignment, plan):
        assert any(v.kind in carried or v.instruction.opcode == "copy" for v in pair), pair


CHAINS = """HloModule chains
ENTRY e {
  x = f32[100] parameter(0)
  a = f32[100] sine(x)
  b = f32[100] reverse(a), dimensions={0}
  c = f32[100] reverse(b), dimensions={0}
  d = f32[100] cosine(x)
  e = f32[100] reverse(d), dimensions={0}
  f = f32[100] reverse(e), dimensions={0}
  ROOT r = f32[100] add(c, f)
}"""


def assigned(text, plan):
    module = parse_module(text)
    order = least_memory_order(module)
    insert_copies(module, order, CopyOptions(branches=plan))
    assignment = assign_buffers(module, order, AssignOptions(branches=plan))
    check_buffer_assignment(module, assignment)
    return module, order, assignment


def test_two_chains_take_twice_the_memory_and_no_more():
    _, _, alone = assigned(CHAINS, None)
    left, right = dict.fromkeys("abc", 0), dict.fromkeys("def", 1)
    plan = {"e": Branches({**left, **right, "r": 2}, (2, 1, 0))}
    module, order, assignment = assigned(CHAINS, plan)
    assert falsely_shared(module, order, assignment, plan) == []
    assert alone.temp_bytes < assignment.temp_bytes <= 2 * alone.temp_bytes
    # Within a branch memory is shared as ever.
    assert assignment.slice(module.entry["b"]).size_bytes == 400
    assert len({assignment.slice(module.entry[n]) for n in "abcdef"}) < 6


def test_what_another_branch_reads_is_copied_before_it_is_overwritten():
    text = """HloModule m
ENTRY e {
  x = f32[64] parameter(0)
  u = f32[8] parameter(1)
  k = s32[] parameter(2)
  a = f32[64] sine(x)
  b = f32[64] reverse(a), dimensions={0}
  c = f32[64] dynamic-update-slice(a, u, k)
  d = f32[64] reverse(c), dimensions={0}
  ROOT r = (f32[64], f32[64]) tuple(b, d)
}"""
    _, _, none = run_both(text)
    plan = {"e": Branches({"a": 0, "b": 1, "c": 2, "d": 2, "r": 3}, (0, 4, 2, 0))}
    made, assignment, result = run_both(
        text, CopyOptions(branches=plan), AssignOptions(branches=plan)
    )
    assert (none.inserted, result.inserted) == (0, 1)
    b, c = assignment.slice(made.entry["b"]), assignment.slice(made.entry["c"])
    assert not assignment.slice(made.entry["a"]).overlaps(c) and not b.overlaps(c)


def test_a_plan_of_one_branch_changes_nothing():
    for seed in range(10):
        module = Drawn(4_000_000 + seed, 8).module()
        plan = {c.name: Branches({}, ()) for c in module.computations_in_order()}
        _, one, first = run_both(module)
        _, two, second = run_both(module, CopyOptions(branches=plan), AssignOptions(branches=plan))
        assert (first, one.temp_bytes) == (second, two.temp_bytes)
