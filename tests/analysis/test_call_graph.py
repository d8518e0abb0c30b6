"""Callers, callees, contexts and order of computations."""

from hloom.analysis.call_graph import BOTH, EMBEDDED, NONE, SEQUENTIAL, CallGraph
from hloom.ir.text import parse_module

TEXT = """
HloModule m
plus { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
inner { a = f32[] parameter(0)
  ROOT n = f32[] call(a, a), to_apply=plus }
outer { a = f32[] parameter(0)
  x = f32[] call(a), to_apply=inner
  ROOT y = f32[] call(x), to_apply=inner }
unused { ROOT a = f32[] parameter(0) }
ENTRY e {
  p = f32[4] parameter(0)
  z = f32[] constant(0)
  r = f32[] reduce(p, z), dimensions={0}, to_apply=plus
  ROOT c = f32[] call(r), to_apply=outer
}
"""


def graph():
    module = parse_module(TEXT)
    return module, CallGraph(module)


def test_contexts_depth_and_callers():
    module, g = graph()
    context = {c.name: n.context for c, n in g.nodes.items()}
    assert context["plus"] == BOTH
    assert context["inner"] == context["outer"] == context["e"] == SEQUENTIAL
    assert context["unused"] == NONE
    assert g.nodes[module["plus"]].depth == 3
    assert [i.name for i in g.nodes[module["inner"]].callers] == ["x", "y"]
    assert g.nodes[module["outer"]].callees == [module["inner"]]


def test_a_reducer_alone_is_embedded_and_flat():
    module = parse_module(TEXT.replace("call(a, a), to_apply=plus", "negate(a)"))
    g = CallGraph(module)
    assert g.nodes[module["plus"]].context == EMBEDDED
    assert not g.is_flat, "inner has two call sites"
    flat = parse_module(
        TEXT.replace("call(a, a), to_apply=plus", "negate(a)").replace(
            "call(x), to_apply=inner", "negate(x)"
        )
    )
    assert CallGraph(flat).is_flat


def test_a_computation_in_both_contexts_is_not_flat():
    _, g = graph()
    assert not g.is_flat


def test_the_visitor_sees_every_node_callees_first():
    module, g = graph()
    seen = []

    def visitor(node):
        seen.append(node.computation.name)
        return node.computation.name == "plus"

    assert g.visit(visitor)
    assert len(seen) == len(module.computations)
    assert seen.index("plus") < seen.index("inner") < seen.index("outer") < seen.index("e")
    assert not g.visit(lambda node: None)


def test_queries():
    module, g = graph()
    plus, inner, outer, e = (module[n] for n in ("plus", "inner", "outer", "e"))
    assert g.can_reach(e, plus) and not g.can_reach(inner, outer)
    assert g.dominates(outer, inner) and g.dominates(e, plus)
    assert not g.dominates(outer, plus), "the entry reduces with it directly"
    assert g.nearest_common_ancestors([plus, inner]) == {inner}
    assert g.nearest_common_ancestors([inner, module["plus"], e]) == {e}
