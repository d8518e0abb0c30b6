"""Which instruction runs before which."""

from random import Random

from hloom.analysis.reachability import Reachability, depends_on
from hloom.ir.text import parse_module


def test_against_searching_on_random_graphs():
    for seed in range(20):
        rng = Random(seed)
        lines = [" x0 = f32[] parameter(0)"]
        for k in range(1, 40):
            a, b = rng.randrange(k), rng.randrange(k)
            control = (
                f", control-predecessors={{x{rng.randrange(k)}}}" if rng.random() < 0.2 else ""
            )
            lines.append(f" x{k} = f32[] add(x{a}, x{b}){control}")
        module = parse_module("HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}")
        table = Reachability(module.entry)
        everything = list(module.entry)
        for later in everything:
            for earlier in everything:
                searched = depends_on(later, earlier)
                assert table.depends(later, earlier) == searched
        root = module.entry.root
        assert table.predecessors(root) == [i for i in everything if depends_on(root, i)]
        assert not table.depends(root, root)


def test_ordered_either_way():
    module = parse_module("""
HloModule m
ENTRY e {
  x = f32[] parameter(0)
  a = f32[] negate(x)
  b = f32[] sine(x)
  ROOT c = f32[] add(a, b)
}
""")
    table = Reachability(module.entry)
    a, b, c = (module.entry[n] for n in "abc")
    assert table.ordered(a, c) and table.ordered(c, a) and not table.ordered(a, b)
