"""Programs drawn at random compute the same in whatever orders are chosen, and cost no more."""

from __future__ import annotations

import itertools
import random
from math import prod

import numpy as np
import pytest

import hloom
from hloom.passes.layout.order_graph import looked_at
from tests.pass_case import difference, leaves

HEAD = """%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] add(%a, %b)
}

%largest (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = f32[] maximum(%a, %b)
}

%ge (a: f32[], b: f32[]) -> pred[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %s = pred[] compare(%a, %b), direction=GE
}
"""


def text(dims: tuple[int, ...]) -> str:
    return f"f32[{','.join(map(str, dims))}]"


def braces(numbers) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"


class Program:
    """Lines of one computation and the values it has."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.values: list[tuple[str, tuple[int, ...]]] = []

    def add(self, dims: tuple[int, ...], what: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text(dims)} {what}")
        if dims:
            self.values.append((name, dims))
        return name

    def pick(self) -> tuple[str, tuple[int, ...]]:
        return self.draw.choice(self.values[-6:])

    def step(self) -> None:
        getattr(self, self.draw.choice(STEPS))()

    def binary(self) -> None:
        x, dims = self.pick()
        same = [y for y, d in self.values if d == dims]
        self.add(dims, f"{self.draw.choice(['add', 'subtract', 'maximum'])}({x}, {same[-1]})")

    def unary(self) -> None:
        x, dims = self.pick()
        self.add(dims, f"{self.draw.choice(['sine', 'abs', 'negate'])}({x})")

    def transpose(self) -> None:
        x, dims = self.pick()
        order = list(range(len(dims)))
        self.draw.shuffle(order)
        self.add(tuple(dims[d] for d in order), f"transpose({x}), dimensions={braces(order)}")

    def back(self) -> None:
        """A transpose to sizes that something else has, so that the two can meet."""
        x, dims = self.pick()
        _, wanted = self.draw.choice(self.values)
        if sorted(wanted) == sorted(dims) and len(set(dims)) == len(dims):
            order = [dims.index(size) for size in wanted]
            y = self.add(wanted, f"transpose({x}), dimensions={braces(order)}")
            self.add(
                wanted, f"add({y}, {self.draw.choice([v for v, d in self.values if d == wanted])})"
            )

    def reduce(self) -> None:
        x, dims = self.pick()
        over = sorted(self.draw.sample(range(len(dims)), self.draw.randint(1, len(dims))))
        kept = tuple(size for d, size in enumerate(dims) if d not in over)
        zero = self.add((), "constant(0)")
        r = self.add(kept, f"reduce({x}, {zero}), dimensions={braces(over)}, to_apply=%sum")
        at = [d for d in range(len(dims)) if d not in over]
        self.add(dims, f"broadcast({r}), dimensions={braces(at)}")

    def reshape(self) -> None:
        x, dims = self.pick()
        if 1 in dims:
            made = tuple(size for size in dims if size != 1) or (1,)
        elif self.draw.random() < 0.5:
            made = (*dims[:1], 1, *dims[1:])
        else:
            made = (dims[0] * dims[1], *dims[2:]) if len(dims) > 1 else dims
        self.add(made, f"reshape({x})")

    def pad(self) -> None:
        x, dims = self.pick()
        zero = self.add((), "constant(0.5)")
        rows = [(self.draw.randint(0, 1), 0) for _ in dims]
        made = tuple(n + lo + hi for n, (lo, hi) in zip(dims, rows, strict=True))
        padding = "x".join(f"{lo}_{hi}" for lo, hi in rows)
        self.add(made, f"pad({x}, {zero}), padding={padding}")

    def slice(self) -> None:
        x, dims = self.pick()
        ranges = [(self.draw.randint(0, 1 if n > 2 else 0), n) for n in dims]
        inside = ", ".join(f"[{lo}:{hi}]" for lo, hi in ranges)
        self.add(tuple(hi - lo for lo, hi in ranges), f"slice({x}), slice={{{inside}}}")

    def dynamic(self) -> None:
        x, dims = self.pick()
        starts = [self.draw.randint(0, 1) for _ in dims]
        names = []
        for n in starts:
            name = f"%v{len(self.lines)}"
            self.lines.append(f"  {name} = s32[] constant({n})")
            names.append(name)
        sizes = tuple(max(1, n - 1) for n in dims)
        part = self.add(
            sizes,
            f"dynamic-slice({x}, {', '.join(names)}), dynamic_slice_sizes={braces(sizes)}",
        )
        names.reverse()
        self.add(dims, f"dynamic-update-slice({x}, {part}, {', '.join(names)})")

    def joined(self) -> None:
        x, dims = self.pick()
        axis = self.draw.randrange(len(dims))
        made = tuple(2 * n if d == axis else n for d, n in enumerate(dims))
        if np.prod(made) < 3000:
            self.add(made, f"concatenate({x}, {x}), dimensions={{{axis}}}")

    def turned(self) -> None:
        x, dims = self.pick()
        self.add(dims, f"reverse({x}), dimensions={{{self.draw.randrange(len(dims))}}}")

    def made(self) -> None:
        _, dims = self.pick()
        self.add(dims, f"iota(), iota_dimension={self.draw.randrange(len(dims))}")

    def window(self) -> None:
        x, dims = self.pick()
        size = [self.draw.randint(1, min(2, n)) for n in dims]
        made = tuple(n - k + 1 for n, k in zip(dims, size, strict=True))
        zero = self.add((), "constant(0)")
        window = "window={size=" + "x".join(map(str, size)) + "}"
        self.add(made, f"reduce-window({x}, {zero}), {window}, to_apply=%largest")
        s = self.add(dims, f"sign({x})")
        y = self.add(made, "iota(), iota_dimension=0")
        self.add(dims, f"select-and-scatter({s}, {y}, {zero}), {window}, select=%ge, scatter=%sum")

    def dot(self) -> None:
        x, dims = self.pick()
        k = self.draw.randrange(len(dims))
        y = self.add((4, dims[k]), "iota(), iota_dimension=1")
        kept = tuple(n for d, n in enumerate(dims) if d != k)
        numbers = f"lhs_contracting_dims={{{k}}}, rhs_contracting_dims={{1}}"
        d = self.add((*kept, 4), f"dot({x}, {y}), {numbers}")
        scale = self.add((), "constant(0.05)")
        s = self.add((*kept, 4), f"broadcast({scale}), dimensions={{}}")
        self.add((*kept, 4), f"multiply({d}, {s})")

    def indexed(self) -> None:
        """A gather along one or two dimensions, or one of batches; updates scattered back."""
        x, dims = self.pick()
        rank = len(dims)
        placed = sorted(self.draw.sample(range(rank), self.draw.randint(1, min(2, rank))))
        batching = placed[:1] if len(placed) == 2 and self.draw.random() < 0.4 else []
        chosen = [d for d in placed if d not in batching]
        batch = [dims[d] for d in batching] + [self.draw.randint(1, 3)]
        index = f"%v{len(self.lines)}"
        indices = (*batch, len(chosen))
        name = f"s32[{','.join(map(str, indices))}]"
        self.lines.append(f"  {index} = {name} iota(), iota_dimension={len(indices) - 2}")
        window = [d for d in range(rank) if d not in placed]
        at = self.draw.randint(0, len(window))
        made = (*[dims[d] for d in window[:at]], *batch, *[dims[d] for d in window[at:]])
        of = braces([k if k < at else k + len(batch) for k in range(len(window))])
        sizes = braces([1 if d in placed else n for d, n in enumerate(dims)])
        numbers = f"index_vector_dim={len(indices) - 1}"
        g = self.add(
            made,
            f"gather({x}, {index}), offset_dims={of}, collapsed_slice_dims={braces(chosen)}, "
            f"start_index_map={braces(chosen)}, operand_batching_dims={braces(batching)}, "
            f"start_indices_batching_dims={braces(range(len(batching)))}, {numbers}, "
            f"slice_sizes={sizes}",
        )
        self.values.pop()
        self.add(made, f"negate({g})")
        if self.draw.random() < 0.5:  # updates in the order of the program
            g = self.add(made, f"reshape({self.add((prod(made),), f'reshape({g})')})")
        self.add(
            dims,
            f"scatter({x}, {index}, {g}), update_window_dims={of}, "
            f"inserted_window_dims={braces(chosen)}, "
            f"scatter_dims_to_operand_dims={braces(chosen)}, "
            f"input_batching_dims={braces(batching)}, "
            f"scatter_indices_batching_dims={braces(range(len(batching)))}, {numbers}, "
            "to_apply=%sum",
        )

    def convolution(self) -> None:
        """Wants one order, and gives it."""
        x, dims = self.pick()
        if len(dims) != 4:
            return
        order = self.draw.choice([(0, 2, 3, 1), (0, 3, 2, 1), (1, 2, 3, 0), (0, 1, 2, 3)])
        sizes = tuple(dims[d] for d in order)
        t = self.add(sizes, f"transpose({x}), dimensions={braces(order)}")
        w = self.add((1, 1, sizes[3], sizes[3]), "iota(), iota_dimension=2")
        labels = "window={size=1x1}, dim_labels=b01f_01io->b01f"
        c = self.add(sizes, f"convolution({t}, {w}), {labels}")
        e = self.add(sizes, f"tanh({c})")
        self.add(dims, f"transpose({e}), dimensions={braces(order.index(d) for d in range(4))}")


STEPS = """binary unary transpose back reduce reshape pad slice dynamic joined turned made window
dot convolution convolution back unary binary indexed indexed""".split()


def called_computations(state: str, lines: list[str], found: str) -> str:
    """What a drawn loop or branch calls: `lines` on the state, whose next array is `found`."""
    body = "\n".join(lines)
    return f"""
%body (s: {state}) -> {state} {{
  %s = {state} parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %one = s32[] constant(1)
  %j = s32[] add(%i, %one)
{body}
  ROOT %r = {state} tuple(%j, {found})
}}

%other (s: {state}) -> {state} {{
  ROOT %s = {state} parameter(0)
}}

%go (s: {state}) -> pred[] {{
  %s = {state} parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %n = s32[] constant(2)
  ROOT %lt = pred[] compare(%i, %n), direction=LT
}}
"""


def drawn(seed: int) -> str:
    """A program whose last values are its results; every third with a loop or a branch."""
    draw = random.Random(seed)
    start = (2, 3, 4, 5)
    inner = Program(draw)
    inner.lines.append(f"  %x = {text(start)} get-tuple-element(%s), index=1")
    inner.values.append(("%x", start))
    for _ in range(draw.randint(2, 6)):
        inner.step()
    found = [v for v, d in inner.values if d == start][-1]
    outer = Program(draw)
    outer.lines.append(f"  %x = {text(start)} parameter(0)")
    outer.values.append(("%x", start))
    for _ in range(draw.randint(2, 10)):
        outer.step()
    state = f"(s32[], {text(start)})"
    given = [v for v, d in outer.values if d == start][-1]
    if seed % 3 == 0:
        outer.lines += [
            "  %z = s32[] constant(0)",
            f"  %init = {state} tuple(%z, {given})",
            f"  %loop = {state} while(%init), condition=%go, body=%body",
        ]
    elif seed % 3 == 1:
        outer.lines += [
            "  %z = s32[] constant(0)",
            f"  %init = {state} tuple(%z, {given})",
            f"  %loop = {state} conditional(%z, %init, %init), "
            "branch_computations={%body, %other}",
        ]
    if seed % 3 < 2:
        outer.add(start, "get-tuple-element(%loop), index=1")
    for _ in range(draw.randint(2, 10)):
        outer.step()
    results = outer.values[-3:]
    shapes = ", ".join(text(d) for _, d in results)
    names = ", ".join(v for v, _ in results)
    called = called_computations(state, inner.lines, found)
    lines = "\n".join(outer.lines)
    entry = f"ENTRY %main {{\n{lines}\n  ROOT %o = ({shapes}) tuple({names})\n}}\n"
    used = called if seed % 3 < 2 else ""
    return f"HloModule drawn\n\n{HEAD}{used}\n{entry}"


def keeps_nothing(i: hloom.Instruction) -> bool:
    """Whether a transpose moves elements."""
    large = [d for d in i.attrs.dimensions if i.operands[0].shape.dims[d] > 1]
    return large != sorted(large)


def moved(module: hloom.Module) -> int:
    """Bytes of all transposes, with the trips of loops."""
    return sum(
        i.shape.size * times
        for c, times in looked_at(module).items()
        for i in c.instructions
        if i.opcode == "transpose" and keeps_nothing(i)
    )


@pytest.mark.parametrize("block", range(6))
def test_random_programs_keep_their_values(block: int):
    changed, before, after = 0, 0, 0
    for seed in range(20 * block, 20 * block + 20):
        module = hloom.parse(drawn(seed))
        x = np.random.default_rng(seed).standard_normal((2, 3, 4, 5)).astype(np.float32)
        with np.errstate(all="ignore"):
            want = leaves(hloom.evaluate(module, x))
        hloom.pass_named("dce").run(module)
        before += moved(module)
        result = hloom.pass_named("transpose-propagation").run(module)
        hloom.verify(module)
        hloom.pass_named("dce").run(module)
        after += moved(module)
        with np.errstate(all="ignore"):
            got = leaves(hloom.evaluate(module, x))
        for old, new in zip(want, got, strict=True):
            assert (wrong := difference(old, new, 1e-3)) is None, f"seed {seed}: {wrong}"
        changed += result.changed
    assert changed > 3
    assert after < before


LAYOUTS = [",".join(map(str, p)) for p in itertools.permutations(range(4))]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_results_that_callers_see_in_another_layout(layout: str):
    """A transpose that is only a layout, as in JAX's text: nothing is moved and moved back."""
    step = hloom.compile(
        hloom.parse(f"""HloModule m,
  entry_computation_layout={{(f32[4,3,96,64]{{3,2,1,0}})->f32[4,96,64,3]{{{layout}}}}}
ENTRY e {{
  x = f32[4,3,96,64]{{3,2,1,0}} parameter(0)
  u = u8[4,3,96,64]{{3,2,1,0}} convert(x)
  t = u8[4,96,64,3]{{2,1,3,0}} transpose(u), dimensions={{0,2,3,1}}
  f = f32[4,96,64,3]{{2,1,3,0}} convert(t)
  m = f32[3]{{0}} constant({{1, 2, 3}})
  b = f32[4,96,64,3]{{3,2,1,0}} broadcast(m), dimensions={{3}}
  ROOT r = f32[4,96,64,3]{{{layout}}} subtract(f, b)
}}""")
    )
    text = step.as_text()
    assert text.count(" fusion(") == 1
    assert layout != "2,1,3,0" or " transpose(" not in text
    x = np.random.default_rng(0).integers(0, 255, (4, 3, 96, 64)).astype(np.float32)
    expected = x.transpose(0, 2, 3, 1) - np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(np.asarray(step(x)), expected)
