"""Explanations follow from the plan that is really made."""

import pytest

import hloom
from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.machine import Machine
from hloom.passes import PASSES
from hloom.runtime.processors import granted_threads
from hloom.targets.cpu import lowering
from hloom.targets.cpu.explain import EXPLANATIONS, Explained, Row, explained
from hloom.targets.cpu.target import CpuTarget
from tests.docs.pages import ROOT
from tests.targets.test_apart import TWO_LOOPS

PROGRAMS = ("collatz", "resnet_step", "softmax", "transformer_block", "layer")


def example(name):
    return hloom.load(ROOT / "examples" / f"{name}.hlo")


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("topic", EXPLANATIONS)
def test_a_module_is_not_changed(name, topic):
    module = example(name)
    before = hloom.show(module)
    if topic == "partition":  # these are programs of one device
        with pytest.raises(HloError, match="nothing to partition"):
            explained(module, topic)
        assert hloom.show(module) == before
        return
    found = explained(module, topic)
    assert hloom.show(module) == before and found.topic == topic
    assert all(r.value and r.verdict and r.why for r in found.rows)


@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_is_that_of_the_program(name):
    memory = hloom.compile(example(name)).memory
    rows = explained(example(name), "memory").rows
    assert [r.size_bytes for r in rows] == [v.slice.size_bytes for v in memory.values]
    arena = [r for r in rows if r.verdict.startswith("arena")]
    assert len(arena) == sum(v.slice.allocation.kind == "temp" for v in memory.values)


LOOP = """HloModule m
body {{
  s = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64,64] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[64,64] {step}
  ROOT t = (s32[], f32[64,64]) tuple(j, y)
}}
condition {{
  s = (s32[], f32[64,64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(100)
  ROOT p = pred[] compare(i, n), direction=LT
}}
ENTRY e {{
  x = f32[64,64] parameter(0)
  zero = s32[] constant(0)
  s = (s32[], f32[64,64]) tuple(zero, x)
  w = (s32[], f32[64,64]) while(s), condition=condition, body=body
  ROOT y = f32[64,64] get-tuple-element(w), index=1
}}
"""
PRODUCT = "dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def test_a_loop_that_is_not_one_kernel_says_why():
    (row,) = explained(hloom.parse(LOOP.format(step=PRODUCT)), "fallback").rows
    assert (row.value, row.verdict) == ("w", "loop step by step")
    assert "%y" in row.why and "much to do" in row.why
    assert not explained(hloom.parse(LOOP.format(step="add(x, x)")), "fallback").rows


def test_what_shares_a_buffer_names_another_value():
    rows = explained(example("resnet_step"), "memory").rows
    names = {r.value for r in rows}
    shared = [r for r in rows if "in the buffer of" in r.why]
    assert shared and all(r.other in names and r.other != r.value for r in shared)


def test_fused_values_are_not_in_memory():
    module = example("layer")
    fused = {r.value for r in explained(module, "fusion").rows if r.verdict == "fused into"}
    placed = {r.value for r in explained(module, "memory").rows}
    assert {"shifted", "positive", "largest"} <= fused and not fused & placed


def test_donated_arguments():
    text = """HloModule m, input_output_alias={ {}: (0, {}, may-alias) }
ENTRY e {
  x = f32[8] parameter(0)
  ROOT y = f32[8] negate(x)
}
"""
    rows = {r.value: r for r in explained(hloom.parse(text), "memory").rows}
    assert "donated" in rows["x"].why and rows["y"].verdict == "argument 0"


def test_layouts():
    text = """HloModule m, entry_computation_layout={(f32[3,5]{0,1})->f32[5,3]{1,0}}
ENTRY e {
  x = f32[3,5]{0,1} parameter(0)
  y = f32[3,5]{1,0} copy(x)
  z = f32[3,5]{1,0} sine(y)
  ROOT t = f32[5,3]{1,0} transpose(z), dimensions={1,0}
}
"""
    rows = explained(hloom.parse(text), "layout").rows
    given = next(r for r in rows if r.value == "x")
    assert given.verdict == "f32[3,5]{0,1}" and "caller" in given.why


def test_what_cannot_run_is_said():
    text = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] custom-call(x), custom_call_target="nobody"
  ROOT z = f32[4] add(y, x)
}
"""
    (row,) = explained(hloom.parse(text), "fallback").rows
    assert row.verdict in ("cannot run", "host function") and "nobody" in row.why


def test_rows_about_a_value_and_counts():
    found = Explained(
        "memory",
        [
            Row("a", "add", "arena", "in the buffer of %x"),
            Row("b{1}", "tuple", "arena", "in the buffer of %y"),
            Row("c", "add", "output", "handed over", other="b"),
        ],
    )
    assert [r.value for r in found.about("%b").rows] == ["b{1}", "c"]
    assert found.counts[0] == ("arena", "in the buffer of ...", 2)


def test_an_unknown_topic():
    with pytest.raises(HloError, match="topics: fusion, memory, layout, fallback"):
        explained(example("layer"), "colour")


def test_concurrency():
    [row] = [r for r in explained(hloom.parse(TWO_LOOPS), "concurrency").rows if r.value == "main"]
    alone = granted_threads() == 1
    assert row.opcode == "sequence"
    assert row.verdict == "one after another" if alone else row.verdict.endswith(" runs")
    # Places are those of the program, not the first ones.
    plan = CpuTarget(Machine.host()).planned(hloom.parse(TWO_LOOPS))
    assert (
        plan.buffer_assignment.temp_bytes
        == hloom.compile(TWO_LOOPS).memory.temp
        > (0 if alone else 640)
    )


def unproved(kernel):
    raise HloError("unproved")


@pytest.mark.parametrize("topic", sorted(set(EXPLANATIONS) - {"partition", "sharding"}))
def test_faults_of_hloom_are_gone_around_as_by_a_compilation(topic, monkeypatch):
    """What no family of kernels can write is in the interpreter, and everything is explained."""
    monkeypatch.setattr(lowering, "admit_kernel", unproved)
    monkeypatch.setenv("HLOOM_STRICT", "1")
    module = example("softmax")
    if topic != "fusion":  # decided before any kernel is written
        with pytest.raises(HloError, match="unproved"):
            explained(module, topic)
    monkeypatch.setenv("HLOOM_STRICT", "0")
    rows = explained(module, topic).rows
    assert rows
    if topic == "fallback":
        assert {r.verdict for r in rows} == {"interpreter"}


@pytest.mark.parametrize("topic", sorted(set(EXPLANATIONS) - {"partition", "sharding"}))
def test_a_pass_that_fails_is_left_out_of_what_is_explained(topic, monkeypatch):
    """`hloom explain fusion` ended with the exception of a pass before the fusions."""

    def fails(*_, **__):
        raise KeyError("planted")

    monkeypatch.setattr(PASSES["cse"], "run", fails)
    monkeypatch.setenv("HLOOM_STRICT", "0")
    assert explained(example("softmax"), topic).rows or topic == "fallback"
