"""The verifier on graphs that no text can describe: wrong owners, users, callers, orders."""

import pytest

from hloom.base.diagnostics import VerifyError
from hloom.ir.module import Module
from hloom.ir.verify import verify, violations
from hloom.types.text import shape_from_text

F32 = shape_from_text("f32[2]")


def build():
    """e(x) = call f(negate(x)), f(y) = exponential(y)."""
    module = Module("m")
    f = module.add_computation("f")
    y = f.add("parameter", number=0, shape=F32, name="y")
    f.root = f.add("exponential", y, name="exp")
    e = module.add_computation("e", entry=True)
    x = e.add("parameter", number=0, shape=F32, name="x")
    n = e.add("negate", x, name="n")
    e.root = e.add("call", n, name="c", called=(f,))
    return module, e, f


def refused(module, rule, *parts):
    found = list(violations(module))
    assert found and found[0].rule == rule, [str(e) for e in found]
    for part in parts:
        assert part in str(found[0])
    with pytest.raises(VerifyError):
        verify(module)


def test_a_sound_module_passes():
    verify(build()[0])


def test_no_entry():
    module, _, _ = build()
    module.entry_or_none = None
    refused(module, "entry")


def test_foreign_entry():
    module, _, _ = build()
    module.entry_or_none = Module("other").add_computation("o")
    refused(module, "entry")


def test_no_root():
    module, e, _ = build()
    e._root = None
    refused(module, "root", "%e")


def test_root_elsewhere():
    module, e, f = build()
    e._root = f.root
    refused(module, "root")


def test_operand_of_another_computation():
    module, e, f = build()
    e["n"].operands = (f["y"],)
    refused(module, "operands", "e/%n", "%y")


def test_users_forgotten():
    module, e, _ = build()
    e["x"].users.clear()
    refused(module, "users", "e/%n", "%x")


def test_users_invented():
    module, e, _ = build()
    e["x"].users[e["c"]] = None
    refused(module, "users", "%c")


def test_callers_forgotten():
    module, _, f = build()
    f.callers.clear()
    refused(module, "callers", "missing ['c']")


def test_callers_counted_wrong():
    module, e, f = build()
    f.callers[e["c"]] = 2
    refused(module, "callers")


def test_callee_of_another_module():
    module, e, _ = build()
    e["c"].called = (build()[2],)
    refused(module, "called")


def test_call_without_callee():
    module, e, _ = build()
    e["c"].called = ()
    refused(module, "called", "calls 1, not 0")


def test_owner():
    module, e, f = build()
    e["n"].parent = f
    refused(module, "owner")


def test_names():
    module, e, _ = build()
    e["n"].name = "x"
    refused(module, "names")


def test_two_computations_of_one_name():
    module, _, f = build()
    f.name = "e"
    refused(module, "names")


def test_parameter_numbers():
    module, e, _ = build()
    e.add("parameter", number=2, shape=F32, name="late")
    refused(module, "parameters", "number 2", "1 is missing")


def test_parameter_numbers_twice():
    module, e, _ = build()
    e.add("parameter", number=0, shape=F32, name="again")
    refused(module, "parameters", "used twice")


def test_unknown_opcode():
    module, e, _ = build()
    e["n"].opcode = "frobnicate"
    refused(module, "opcode", "frobnicate")


def test_operand_count():
    module, e, _ = build()
    e["n"].set_operands((e["x"], e["x"]))
    refused(module, "operand-count", "takes 1 operands, got 2")


def test_cycle():
    module, e, _ = build()
    loop = e.add("add", e["x"], e["n"], name="loop")
    e["n"].set_operands((loop,))
    refused(module, "cycle", "depends on itself")


def test_cycle_of_control_edges():
    module, e, _ = build()
    e["n"].add_control_predecessor(e["c"])
    refused(module, "cycle")


def test_control_edge_known_at_one_end():
    module, e, _ = build()
    e["c"].control_predecessors = (e["n"],)
    refused(module, "control")


def test_control_edge_to_another_computation():
    module, e, f = build()
    e["c"].control_successors = (f["y"],)
    refused(module, "control")


def test_recursion():
    module, e, f = build()
    f.root = f.add("call", f["y"], called=(e,), name="back", shape=F32)
    module.entry = e
    refused(module, "recursion", "calls itself")


def test_schedule():
    module, e, f = build()
    module.schedule = {e: list(e), f: list(f)}
    verify(module)
    module.schedule[e] = [e["n"], e["x"], e["c"]]
    refused(module, "schedule", "e/%n", "%x")
    module.schedule[e] = [e["x"], e["n"]]
    refused(module, "schedule", "%c is not scheduled")
    module.schedule[e] = [e["x"], e["n"], e["n"], e["c"]]
    refused(module, "schedule", "twice")
    del module.schedule[e]
    refused(module, "schedule", "not scheduled")


def test_schedule_respects_control_edges():
    module, e, f = build()
    late = e.add("exponential", e["x"], name="late")
    e["n"].add_control_predecessor(late)
    module.schedule = {e: [e["x"], e["n"], late, e["c"]], f: list(f)}
    refused(module, "schedule", "%late")


def test_a_fusion_body_is_no_entry():
    module, e, f = build()
    e.root = e.add("fusion", e["n"], kind="kLoop", called=(f,), name="fused")
    e["c"].parent.erase(e["c"])
    verify(module)
    g = module.add_computation("g")
    x = g.add("parameter", number=0, shape=F32)
    g.root = g.add("fusion", x, kind="kLoop", called=(e,))
    refused(module, "entry", "body of a fusion")
