"""Fusions of drawn graphs: valid, of a known form, and they compute what was computed before."""

import random

import numpy as np
import pytest

from hloom.analysis.fusion_form import Form
from hloom.interp import evaluate
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.text import parse_module
from hloom.ir.values.padding import Padding, PaddingDimension
from hloom.ir.values.slices import SliceDimension, Slices
from hloom.ir.verify import verify
from hloom.passes import pass_named
from hloom.types.literal import Literal
from hloom.types.shape import shape
from tests.pass_case import difference, leaves
from tests.passes.fuse.fusion_reading import form_of
from tests.random_arguments import random_arguments

SHAPES = [(), (3,), (5, 6), (30,), (2, 3, 5), (6, 5), (1, 6), (5, 1, 6), (4, 7), (2, 2, 7)]
UNARY = "negate abs exponential tanh logistic floor".split()
BINARY = "add subtract multiply maximum minimum".split()
TEXT = """HloModule drawn
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
largest { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
ENTRY main { p = f32[5,6] parameter(0)  ROOT t = (f32[5,6]) tuple(p) }
"""


class Draw:
    """Adds random instructions to a computation."""

    def __init__(self, seed, module, c, values):
        self.rng, self.module, self.c, self.values = random.Random(seed), module, c, values

    def pick(self, where=lambda x: True):
        found = [x for x in self.values if where(x)]
        return self.rng.choice(found[-8:] if self.rng.random() < 0.7 else found) if found else None

    def step(self):
        kind = self.rng.choice(
            "unary unary binary binary binary broadcast reduce reduce reshape transpose slice pad "
            "concatenate reverse dot update dynamic select constant iota softmax".split()
        )
        made = getattr(self, kind)()
        if made is not None:
            self.values.append(made)

    def unary(self):
        return self.c.add(self.rng.choice(UNARY), self.pick())

    def binary(self):
        x = self.pick()
        y = self.pick(lambda v: v.shape is x.shape)
        return self.c.add(self.rng.choice(BINARY), x, y)

    def select(self):
        x = self.pick()
        y = self.pick(lambda v: v.shape is x.shape)
        p = self.c.add("compare", x, y, direction="LT")
        return self.c.add("select", p, y, x)

    def constant(self):
        return self.c.add("constant", literal=Literal.of(self.rng.random(), "f32"))

    def iota(self):
        dims = self.rng.choice(SHAPES[1:])
        at = self.rng.randrange(len(dims))
        s = shape("f32", dims).with_default_layouts()
        return self.c.add("iota", iota_dimension=at, shape=s)

    def broadcast(self):
        x = self.pick(lambda v: len(v.shape.dims) < 3)
        dims = [*x.shape.dims]
        at = self.rng.randrange(len(dims) + 1)
        out = [*dims[:at], self.rng.choice((1, 2, 5, 6)), *dims[at:]]
        mapped = tuple(k for k in range(len(out)) if k != at)
        s = shape("f32", out).with_default_layouts()
        return self.c.add("broadcast", x, dimensions=mapped, shape=s)

    def reduce(self):
        x = self.pick(lambda v: v.shape.dims)
        rank = len(x.shape.dims)
        count = self.rng.randrange(1, rank + 1)
        which = range(rank - count, rank) if self.rng.random() < 0.6 else ()
        gone = tuple(which) or tuple(sorted(self.rng.sample(range(rank), count)))
        zero = self.c.add("constant", literal=Literal.of(-1.5, "f32"))
        by = self.module[self.rng.choice(("sum", "largest"))]
        return self.c.add("reduce", x, zero, dimensions=gone, called=(by,))

    def softmax(self):
        x = self.pick(lambda v: len(v.shape.dims) > 1)
        if x is None:
            return None
        rank = len(x.shape.dims)
        low = self.c.add("constant", literal=Literal.of(-9.0, "f32"))
        kept = tuple(range(rank - 1))
        for by in ("largest", "sum"):
            r = self.c.add("reduce", x, low, dimensions=(rank - 1,), called=(self.module[by],))
            x = self.c.add(
                "subtract", x, self.c.add("broadcast", r, dimensions=kept, shape=x.shape)
            )
        return x

    def reshape(self):
        x = self.pick()
        found = [d for d in SHAPES if np.prod(d, dtype=int) == x.shape.size and d != x.shape.dims]
        if not found:
            return None
        s = shape("f32", self.rng.choice(found)).with_default_layouts()
        return self.c.add("reshape", x, shape=s)

    def transpose(self):
        x = self.pick(lambda v: v.shape.dims)
        order = list(range(len(x.shape.dims)))
        self.rng.shuffle(order)
        return self.c.add("transpose", x, dimensions=tuple(order))

    def reverse(self):
        x = self.pick(lambda v: v.shape.dims)
        return self.c.add("reverse", x, dimensions=(self.rng.randrange(len(x.shape.dims)),))

    def slice(self):
        x = self.pick(lambda v: v.shape.dims)
        rows = []
        for n in x.shape.dims:
            start = self.rng.randrange(n)
            limit = self.rng.randrange(start + 1, n + 1)
            rows.append(SliceDimension(start, limit, self.rng.choice((1, 1, 2))))
        return self.c.add("slice", x, slice=Slices(tuple(rows)))

    def pad(self):
        x = self.pick(lambda v: v.shape.dims)
        zero = self.c.add("constant", literal=Literal.of(0.5, "f32"))
        edges = [PaddingDimension(1, 0, self.rng.choice((0, 1))) for _ in x.shape.dims]
        return self.c.add("pad", x, zero, padding=Padding(tuple(edges)))

    def concatenate(self):
        x = self.pick(lambda v: v.shape.dims)
        y = self.pick(lambda v: v.shape is x.shape)
        at = self.rng.randrange(len(x.shape.dims))
        return self.c.add("concatenate", x, y, x, dimensions=(at,))

    def dot(self):
        x = self.pick(lambda v: len(v.shape.dims) == 2)
        y = x and self.pick(lambda v: len(v.shape.dims) == 2 and v.shape.dims[0] == x.shape.dims[1])
        if not y:
            return None
        return self.c.add("dot", x, y, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))

    def starts(self, x):
        drawn = [Literal.of(self.rng.randrange(4), "s32") for _ in x.shape.dims]
        return [self.c.add("constant", literal=literal) for literal in drawn]

    def dynamic(self):
        x = self.pick(lambda v: v.shape.dims)
        sizes = tuple(self.rng.randrange(1, n + 1) for n in x.shape.dims)
        return self.c.add("dynamic-slice", x, *self.starts(x), dynamic_slice_sizes=sizes)

    def update(self):
        x = self.pick(lambda v: v.shape.dims)

        def fits(v):
            dims = x.shape.dims
            small = len(v.shape.dims) == len(dims)
            return small and all(a <= b for a, b in zip(v.shape.dims, dims))

        return self.c.add("dynamic-update-slice", x, self.pick(fits), *self.starts(x))


def drawn(seed, count=24) -> Module:
    module = parse_module(TEXT)
    c = module.entry
    p = c.parameters[0]
    q = c.add("parameter", number=1, shape=shape("f32", (30,)).with_default_layouts())
    w = c.add("parameter", number=2, shape=shape("f32", (4, 7)).with_default_layouts())
    draw = Draw(seed, module, c, [p, q, w])
    for _ in range(count):
        draw.step()
    results = [x for x in draw.values if not x.users or draw.rng.random() < 0.1]
    s = OPS["tuple"].infer(OPS["tuple"].empty, tuple(x.shape for x in results))
    root = c.append("tuple", OPS["tuple"].empty, tuple(results), s.with_default_layouts())
    old = c.root
    c.root = root
    c.erase(old)
    module.entry_layout = None
    verify(module)
    return module


def equal(before, after, seed):
    arguments = random_arguments(before, np.random.default_rng(seed))
    pairs = zip(leaves(evaluate(before, *arguments)), leaves(evaluate(after, *arguments)))
    for old, new in pairs:
        assert (wrong := difference(old, new, 0)) is None, wrong


def one(seed, count, **options):
    before = drawn(seed, count)
    after = copy_module(before)
    pass_named("reshape-to-bitcast").run(after)
    pass_named("fusion", **options).run(after)
    verify(after)
    equal(before, after, seed)
    for i in after.instructions():
        if i.opcode == "fusion":
            forms = form_of(i)
            assert isinstance(forms, list), forms
            assert all(isinstance(f, Form) for f in forms)


@pytest.mark.parametrize("seed", range(40))
def test_drawn_graphs_keep_their_meaning(seed):
    one(seed, 12 + seed % 5 * 9)


@pytest.mark.parametrize("seed", range(8))
def test_small_limits_hold(seed):
    one(seed, 40, max_operands=6, max_instructions=7)


def loop_of(seed, count) -> Module:
    """A while whose body is a drawn graph over its carried values."""
    text = """HloModule looped
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
largest { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
condition { s = (s32[], f32[3], f32[5,6], f32[9,3], f32[9,5,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(9)
  ROOT l = pred[] compare(i, n), direction=LT }
body { s = (s32[], f32[3], f32[5,6], f32[9,3], f32[9,5,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0   v = f32[3] get-tuple-element(s), index=1
  m = f32[5,6] get-tuple-element(s), index=2
  vs = f32[9,3] get-tuple-element(s), index=3  ms = f32[9,5,6] get-tuple-element(s), index=4
  one = s32[] constant(1)  next = s32[] add(i, one)
  ROOT t = (s32[], f32[3], f32[5,6], f32[9,3], f32[9,5,6]) tuple(next, v, m, vs, ms) }
ENTRY main { v = f32[3] parameter(0)  m = f32[5,6] parameter(1)
  vs = f32[9,3] parameter(2)  ms = f32[9,5,6] parameter(3)  zero = s32[] constant(0)
  t = (s32[], f32[3], f32[5,6], f32[9,3], f32[9,5,6]) tuple(zero, v, m, vs, ms)
  ROOT w = (s32[], f32[3], f32[5,6], f32[9,3], f32[9,5,6]) while(t), condition=condition, body=body
}
"""
    module = parse_module(text)
    c = module["body"]
    zero = c.add("constant", literal=Literal.of(0, "s32"))
    old = c.root
    i, v, m, vs, ms = (c[n] for n in ("i", "v", "m", "vs", "ms"))
    x = c.add("dynamic-slice", vs, i, zero, dynamic_slice_sizes=(1, 3))
    flat = c.add("reshape", x, shape=shape("f32", (3,)).with_default_layouts())
    draw = Draw(seed, module, c, [v, m, flat])
    for _ in range(count):
        draw.step()
    values = draw.values
    new_v = c.add("tanh", [x for x in values if x.shape is v.shape][-1])
    new_m = c.add("tanh", [x for x in values if x.shape is m.shape][-1])
    row = c.add("reshape", new_v, shape=shape("f32", (1, 3)).with_default_layouts())
    block = c.add("reshape", new_m, shape=shape("f32", (1, 5, 6)).with_default_layouts())
    at = i if seed % 2 else c["next"]
    vs = c.add("dynamic-update-slice", vs, row, at, zero)
    ms = c.add("dynamic-update-slice", ms, block, at, zero, zero)
    c.root = c.add("tuple", c["next"], new_v, new_m, vs, ms)
    c.erase(old)
    pass_named("dce").run(module)
    verify(module)
    return module


@pytest.mark.parametrize("seed", range(24))
def test_drawn_loops_keep_their_meaning(seed):
    before = loop_of(seed, seed)
    after = copy_module(before)
    pass_named("reshape-to-bitcast").run(after)
    pass_named("fusion").run(after)
    verify(after)
    equal(before, after, seed)
    in_place = [
        i
        for c in after.computations
        if c.is_fusion
        for i in c.instructions
        if i.opcode == "dynamic-update-slice" and i.operands[0].opcode != "parameter"
    ]
    assert not in_place
