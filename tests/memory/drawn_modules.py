"""Draws programs full of what makes buffers hard: loops in branches in loops, states that swap,
in-place updates of values that are still needed, the same value returned twice, donations."""

from __future__ import annotations

import numpy as np

from hloom.ir.builder import Builder
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.aliasing import AliasEntry, BufferDonors, InputOutputAlias
from hloom.ir.values.padding import Padding, PaddingDimension
from hloom.ir.values.slices import SliceDimension, Slices

ARRAY = "f32[5]"
OTHER = "f32[7]"


class Drawn:
    """Draws one module."""

    def __init__(self, seed: int, size: int = 10) -> None:
        self.rng = np.random.default_rng(seed)
        self.size = size
        self.b = Builder(f"drawn_{seed}")

    def module(self) -> Module:
        count = int(self.rng.integers(1, 4))
        parameters = [self.b.parameter(ARRAY, name=f"p{k}") for k in range(count)]
        if self.rng.random() < 0.3:
            pair = self.b.parameter(f"({ARRAY}, {ARRAY})", name="pair")
            parameters += [self.b.get_tuple_element(pair, index=k) for k in range(2)]
        pool = self.grow(self.b, list(parameters), self.size, 0)
        results = self.some(pool, int(self.rng.integers(1, 5)))
        single = len(results) == 1 and self.rng.random() < 0.5
        root = results[0] if single else self.b.tuple(*results)
        module = self.b.build(root)
        if not single:
            self.donate(module, len(results))
        return module

    def donate(self, module: Module, results: int) -> None:
        entries: list[AliasEntry] = []
        donors: list[tuple[int, tuple[int, ...]]] = []
        outputs = [int(k) for k in self.rng.permutation(results)]
        for p in module.entry.parameters:
            parts = [()] if p.shape.is_array else [(0,), (1,)]
            for part in parts:
                what = self.rng.random()
                if what < 0.4 and outputs:
                    entries.append(AliasEntry((outputs.pop(),), p.attrs.number, part))
                elif what < 0.6:
                    donors.append((p.attrs.number, part))
        entries.sort(key=lambda e: e.output_shape_index)
        module.input_output_alias = InputOutputAlias(tuple(entries)) if entries else None
        module.buffer_donors = BufferDonors(tuple(sorted(donors))) if donors else None

    def some(self, pool: list[Instruction], count: int) -> list[Instruction]:
        """Values of the pool, the last ones more often, with repetition."""
        back = np.minimum(self.rng.geometric(0.25, count), len(pool))
        return [pool[-int(k)] for k in back]

    def one(self, pool: list[Instruction]) -> Instruction:
        return self.some(pool, 1)[0]

    def grow(self, b: Builder, pool: list[Instruction], count: int, depth: int) -> list:
        """Add so many operations; all values are of one shape."""
        draws = [self.elementwise, self.update, self.fused_update, self.fused, self.around,
                 self.constant, self.sorted, self.scattered]  # fmt: skip
        if depth < 2:
            draws += [self.loop, self.loop, self.branch, self.call, self.tuples]
        for _ in range(count):
            draw = draws[int(self.rng.integers(len(draws)))]
            pool.extend(draw(b, pool, depth))
        return pool

    # -- operations ----------------------------------------------------------------------------

    def elementwise(self, b: Builder, pool: list, depth: int) -> list:
        x, y = self.some(pool, 2)
        kind = int(self.rng.integers(4))
        if kind == 0:
            return [b.negate(x)]
        if kind == 1:
            return [b.copy(x)]
        return [b.emit(["add", "maximum"][kind - 2], x, y)]

    def constant(self, b: Builder, pool: list, depth: int) -> list:
        return [b.constant(self.rng.integers(-9, 9, 5).astype(np.float32))]

    def index(self, b: Builder) -> Instruction:
        return b.constant(np.int32(self.rng.integers(0, 5)))

    def update(self, b: Builder, pool: list, depth: int) -> list:
        x, y = self.some(pool, 2)
        if self.rng.random() < 0.1:
            return [b.dynamic_update_slice(x, y, self.index(b))]
        part = b.dynamic_slice(y, self.index(b), dynamic_slice_sizes=(2,))
        return [b.dynamic_update_slice(x, part, self.index(b))]

    def fused_update(self, b: Builder, pool: list, depth: int) -> list:
        f = b.computation("fused")
        own = self.rng.random() < 0.5
        p = f.parameter(ARRAY)
        i = f.parameter("s32[]")
        x = self.one(pool)
        operands = [x, self.index(b)]
        if own:
            part = f.dynamic_slice(p, i, dynamic_slice_sizes=(2,))
        else:
            q, j = f.parameter(ARRAY), f.parameter("s32[]")
            operands += [self.one(pool), self.index(b)]
            sources = [p, q] if self.rng.random() < 0.5 else [q, q]
            parts = [f.dynamic_slice(y, j, dynamic_slice_sizes=(2,)) for y in sources]
            part = f.add(*parts)
        out = f.dynamic_update_slice(p, f.add(part, part), i)
        body = f.finish(f.negate(out) if self.rng.random() < 0.2 else out)
        return [b.fusion(*operands, kind="kLoop", calls=body)]

    def fused(self, b: Builder, pool: list, depth: int) -> list:
        f = b.computation("fused")
        p, q = f.parameter(ARRAY), f.parameter(ARRAY)
        total = f.add(p, q)
        back = f.reverse(p, dimensions=(0,)) if self.rng.random() < 0.4 else f.negate(p)
        body = f.finish(f.tuple(total, back))
        made = b.fusion(*self.some(pool, 2), kind="kLoop", calls=body)
        return [b.get_tuple_element(made, index=k) for k in range(2)]

    def around(self, b: Builder, pool: list, depth: int) -> list:
        """Through another size, so that buffers of several sizes are there."""
        zero = b.constant(np.float32(self.rng.integers(9)))
        wide = b.pad(self.one(pool), zero, padding=padding(1, 1))
        wide = b.negate(wide)
        part = b.slice(wide, slice=slices(2, 7))
        return [b.reverse(part, dimensions=(0,))]

    def sorted(self, b: Builder, pool: list, depth: int) -> list:
        f = b.computation("less")
        x, y = f.parameter("f32[]"), f.parameter("f32[]")
        less = f.finish(f.compare(x, y, direction="LT"))
        return [b.sort(self.one(pool), dimensions=(0,), to_apply=less)]

    def scattered(self, b: Builder, pool: list, depth: int) -> list:
        at = b.constant(self.rng.permutation(5)[:5].astype(np.int32).reshape(5, 1))
        x, y = self.some(pool, 2)
        last = b.scalar("add", "f32")
        made = b.scatter(
            x, at, y, update_window_dims=(), inserted_window_dims=(0,),
            scatter_dims_to_operand_dims=(0,), index_vector_dim=1, to_apply=last,
        )  # fmt: skip
        return [made]

    def tuples(self, b: Builder, pool: list, depth: int) -> list:
        x, y, z = self.some(pool, 3)
        nested = b.opt_barrier(b.tuple(x, b.tuple(y, z)))
        inner = b.get_tuple_element(nested, index=1)
        return [b.bitcast(b.get_tuple_element(inner, index=1), shape=ARRAY)]

    # -- control flow --------------------------------------------------------------------------

    def state(self, f: Builder, p: Instruction, count: int) -> list:
        return [f.get_tuple_element(p, index=k) for k in range(1, count + 1)]

    def loop(self, b: Builder, pool: list, depth: int) -> list:
        count = int(self.rng.integers(1, 4))
        shape = "(s32[], " + ", ".join([ARRAY] * count) + ")"
        f = b.computation("body")
        p = f.parameter(shape)
        inner = self.grow(f, self.state(f, p, count), int(self.rng.integers(0, 5)), depth + 1)
        step = f.add(f.get_tuple_element(p, index=0), f.constant(np.int32(1)))
        body = f.finish(f.tuple(step, *self.some(inner, count)))
        f = b.computation("condition")
        p = f.parameter(shape)
        more = f.constant(np.int32(self.rng.integers(0, 4)))
        seen = self.grow(f, self.state(f, p, count), int(self.rng.integers(0, 3)), 2)
        few = f.compare(f.get_tuple_element(p, index=0), more, direction="LT")
        if self.rng.random() < 0.5:
            first = f.reshape(f.slice(seen[-1], slice=slices(0, 1)), shape="f32[]")
            few = f.and_(few, f.compare(first, f.constant(np.float32(50)), direction="LT"))
        condition = f.finish(few)
        init = b.tuple(b.constant(np.int32(0)), *self.some(pool, count))
        w = b.while_(init, condition=condition, body=body)
        return [b.get_tuple_element(w, index=k) for k in range(1, count + 1)]

    def branch(self, b: Builder, pool: list, depth: int) -> list:
        count = int(self.rng.integers(2, 4))
        shape = f"({ARRAY}, {ARRAY})"
        argument = b.tuple(*self.some(pool, 2))
        arguments, branches = [], []
        for _ in range(count):
            f = b.computation("branch")
            p = f.parameter(shape)
            inner = [f.get_tuple_element(p, index=k) for k in range(2)]
            inner = self.grow(f, inner, int(self.rng.integers(0, 4)), depth + 1)
            branches.append(f.finish(f.tuple(*self.some(inner, 2))))
            own = self.rng.random() < 0.5
            arguments.append(argument if own else b.tuple(*self.some(pool, 2)))
        which = b.slice(self.one(pool), slice=slices(0, 1))
        which = b.convert(b.reshape(which, shape="f32[]"), shape="s32[]")
        which = b.remainder(which, b.constant(np.int32(count)))
        made = b.conditional(which, *arguments, branch_computations=tuple(branches))
        return [b.get_tuple_element(made, index=k) for k in range(2)]

    def call(self, b: Builder, pool: list, depth: int) -> list:
        f = b.computation("called")
        inner = [f.parameter(ARRAY), f.parameter(ARRAY)]
        inner = self.grow(f, inner, int(self.rng.integers(0, 4)), depth + 1)
        callee: Computation = f.finish(self.one(inner))
        made = [b.call(*self.some(pool, 2), to_apply=callee)]
        if self.rng.random() < 0.3:
            made.append(b.call(*self.some(pool, 2), to_apply=callee))
        return made


def padding(low: int, high: int) -> Padding:
    return Padding((PaddingDimension(low, high),))


def slices(start: int, limit: int) -> Slices:
    return Slices((SliceDimension(start, limit),))
