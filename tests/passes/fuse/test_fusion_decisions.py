"""Every edge gets a verdict, with a reason where it is no."""

from hloom.ir.text import parse_module, show_module
from hloom.passes import pass_named
from hloom.passes.fuse.explain import explained, fusion_decisions

TEXT = """HloModule m
ENTRY e {
  p = f32[5] parameter(0)
  a = f32[5] negate(p)
  b = f32[3] slice(a), slice={[1:4]}
  c = f32[3] exponential(b)
  s = f32[5] custom-call(a), custom_call_target="x"
  ROOT t = (f32[3], f32[5]) tuple(c, s)
}"""


def test_a_decision_has_a_reason_and_a_line():
    module = parse_module(TEXT)
    before = show_module(module)
    found = {(d.producer.name, d.consumer.name): d.reason for d in fusion_decisions(module)}
    assert found == {("b", "c"): None, ("a", "c"): "results of another shape"}
    assert "%b (slice) -> %c (exponential): fused" in explained(module)
    text = explained(module, only="a")
    assert "%a (negate) -> %c (exponential): declined: results of another shape" in text
    assert "%b" not in text
    assert explained(module, only="nobody").strip() == ""
    assert show_module(module) == before


def test_without_results_of_several_the_first_reason_stands():
    module = parse_module(TEXT)
    step = pass_named("fusion", multi_output=False)
    found = {(d.producer.name, d.consumer.name): d.reason for d in fusion_decisions(module, step)}
    assert found["a", "c"] == "it is read outside of kernels"


def test_limits_are_options():
    text = "HloModule m\nENTRY e {\n  x0 = f32[5] parameter(0)\n"
    text += "".join(f"  x{k} = f32[5] negate(x{k - 1})\n" for k in range(1, 21))
    module = parse_module(f"{text}  ROOT r = f32[5] cosine(x20)\n}}")
    pass_named("fusion", max_instructions=7).run(module)
    sizes = [len(c.instructions) for c in module.computations if c.is_fusion]
    assert sorted(sizes) == [8, 8, 8]


def test_a_scheduled_module_is_left_alone():
    text = TEXT.replace("HloModule m", "HloModule m, is_scheduled=true")
    assert not pass_named("fusion").run(parse_module(text)).changed


def test_equal_kernels_have_equal_bodies():
    module = parse_module("""HloModule m
ENTRY e {
  p = f32[5] parameter(0)
  q = f32[5] parameter(1)
  m = f32[5] multiply(q, p)
  a = f32[5] add(m, q)
  s = f32[5] custom-call(a), custom_call_target="x"
  n = f32[5] multiply(s, q)
  ROOT b = f32[5] add(n, s)
}""")
    pass_named("fusion").run(module)
    bodies = [show_module_body(c) for c in module.computations if c.is_fusion]
    assert len(bodies) == 2
    assert bodies[0] == bodies[1]


def show_module_body(c):
    return str(c).split("{", 1)[1]
