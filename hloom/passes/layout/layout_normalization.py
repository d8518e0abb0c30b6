"""Make every value row-major, so that layouts stand only where the outside sees them.

What a value means does not depend on how it lies in memory, so layouts inside a program are free:
they are simply forgotten. The exceptions are kept by moving data, as a transpose that a fusion can
take in, and a bitcast that says the same bytes are seen in another order:

* parameters and the result of the entry, whose layouts the caller knows;
* custom calls with stated operand layouts, and what they return (without those, XLA takes all that
  they take and return for row-major, whatever shapes say);
* bitcasts between other layouts, which become the transposes and reshapes they stand for;
* arrays of run-time size, which lie as the caller has them: what pads them keeps their layout.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod

from hloom.base.diagnostics import UnsupportedError
from hloom.ir.computation import Computation
from hloom.ir.entry_layout import with_own_sizes
from hloom.ir.instruction import Instruction
from hloom.ir.lapack_calls import LIBRARY
from hloom.ir.meaning import without_meaning
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.values.slices import Slices
from hloom.passes.expand.bitcast_expander import bitcasts_of_bytes
from hloom.passes.facts import fact, no_dead_code
from hloom.passes.layout.tiled_bitcasts import mean_the_same, untiled
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.rewrite.driver import Trace
from hloom.types.layout import default_layout
from hloom.types.shape import Shape, shape, tuple_shape
from hloom.types.sizes import packed_bits
from hloom.types.tiles import is_tiled

PINNED = frozenset(("custom-call", "infeed", "recv", "recv-done"))
"""What these give has the layout they say; custom calls, where they say those of operands too."""


@fact
def row_major_inside(module: Module) -> bool:
    """Every array of static shape is row-major, but where the outside says its layout: parameters
    and results of the entry, custom calls, the host, and the bitcasts and copies beside those."""
    return all(
        i.opcode in _SEEN_OUTSIDE or i.is_root or row_major(i.shape) is i.shape
        for i in module.instructions()
        if i.shape.is_array and i.shape.is_static and i.shape.has_layout
    )


_SEEN_OUTSIDE = frozenset((*PINNED, "parameter", "get-tuple-element", "bitcast", "copy"))


@register
class LayoutNormalization(Pass):
    """Row-major layouts inside; the entry's own layouts are kept by transposes."""

    name = "layout-normalization"
    needs = (bitcasts_of_bytes,)
    gives = (row_major_inside,)
    breaks = (no_dead_code,)

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        if module.schedule is not None:
            return PassResult()
        for c in on_threads(module, threads):
            if all(_is_plain(i) for i in c.instructions) and not c.is_entry:
                continue
            _Normalizer(c, fired).run()
        return PassResult.of(+fired)


def _is_plain(i: Instruction) -> bool:
    return row_major(i.shape) is i.shape and i.opcode != "custom-call"


def _is_pinned(i: Instruction) -> bool:
    """Whether what an instruction gives has the layout it says."""
    if i.opcode != "custom-call" or i.attrs.operand_layout_constraints is not None:
        return i.opcode in PINNED
    return not (i.shape.is_static and all(x.shape.is_static for x in i.operands))


def row_major(s: Shape) -> Shape:
    """The shape with every array in the default order; tiled and packed arrays and other memories
    stay."""
    if s.elements:
        if not s.is_tuple:
            return s
        parts = [row_major(part) for part in s.elements]
        same = all(a is b for a, b in zip(parts, s.elements))
        return s if same else tuple_shape(parts)
    layout = s.layout
    if layout is None or layout.is_default or not s.is_array:
        return s
    if layout.tiles or layout.memory_space or layout.split_configs or packed_bits(s):
        return s
    return s.with_layout(default_layout(len(s.dims)))


def physical_order(s: Shape) -> tuple[int, ...]:
    """The dimensions from outermost to innermost in memory."""
    return tuple(reversed(s.layout.minor_to_major)) if s.layout else tuple(range(len(s.dims)))


def _differs(s: Shape) -> bool:
    """Whether the elements of an array lie in another order than row-major."""
    order = [d for d in physical_order(s) if s.dims[d] > 1]
    return order != sorted(order)


class _Normalizer:
    """Works on one computation."""

    def __init__(self, c: Computation, fired: Counter[str]) -> None:
        self.c = c
        self.fired = fired
        self.was: dict[Instruction, Shape] = {}
        """The shapes before anything was changed: what bitcasts are about."""

    def run(self) -> None:
        c = self.c
        entry = c.is_entry
        layout = c.module.entry_layout if entry and c.module is not None else None
        order = c.in_order()
        count = self.fired.total()
        if layout is not None:
            for p, said in zip(c.parameters, layout.parameters):
                s = with_own_sizes(said, p.shape)
                if s.has_layout and p.shape is not s:
                    p.shape = s
                    self.fired["parameter layouts"] += 1
        root_shape = c.root.shape
        if layout is not None:
            root_shape = with_own_sizes(layout.result, root_shape)
        self.was = {i: i.shape for i in order}
        if entry:
            self.forget_tiles()
            root_shape = untiled(root_shape)
        for i in order:
            if not (entry and i is c._root and i.opcode == "tuple"):
                self.normalize(i, entry)
        if entry:
            old = c.root
            c.root = self.as_laid_out(old, root_shape)
            if old is not c.root and old.opcode == "tuple" and not old.users:
                c.erase(old)
            if (plain := untiled(c.root.shape)) is not c.root.shape:
                c.root.shape = plain
                self.fired["layouts"] += 1
        if self.fired.total() > count:
            c.sort()

    def forget_tiles(self) -> None:
        """Arrays of callers lie in the order of their dimensions alone, and say so."""
        c, module = self.c, self.c.module
        for p in c.parameters:
            if (plain := untiled(p.shape)) is not p.shape:
                p.shape = plain
                self.fired["parameter layouts"] += 1
        if module is not None and (said := module.entry_layout) is not None:
            plain = tuple([untiled(s) for s in said.parameters]), untiled(said.result)
            if plain != (said.parameters, said.result):
                module.entry_layout = replace(said, parameters=plain[0], result=plain[1])
                self.fired["entry layout"] += 1

    def normalize(self, i: Instruction, entry: bool) -> None:
        plain = row_major(i.shape)
        if i.opcode == "bitcast":
            self.bitcast(i)
            return
        if i.opcode == "custom-call" and i.attrs.custom_call_target in LIBRARY:
            self.forget_stated(i)
        if i.opcode == "custom-call" and i.attrs.operand_layout_constraints:
            layouts = i.attrs.operand_layout_constraints
            operands = tuple([self.as_laid_out(x, w) for x, w in zip(i.operands, layouts)])
            if operands != i.operands:
                i.set_operands(operands)
        if plain is i.shape:
            return
        if (entry and i.opcode == "parameter") or _is_pinned(i):
            self.read_pinned(i)
            return
        self.fired["layouts"] += 1
        i.shape = plain
        if i.opcode == "copy":
            self.read_copied(i)
        elif i.opcode == "constant":
            literal = i.attrs.literal.with_shape(plain)
            i.attrs = OPS["constant"].attrs(literal=literal)

    def forget_stated(self, i: Instruction) -> None:
        """Let a routine that reads matrices row by row have them so: XLA, which writes out what
        it does, asks for no layout."""
        if i.attrs.operand_layout_constraints is not None:
            i.attrs = replace(i.attrs, operand_layout_constraints=None)
            self.fired["stated layouts"] += 1

    def read_copied(self, i: Instruction) -> None:
        """Let readers of a copy into another layout read what was copied, but bitcasts, which are
        about that layout."""
        x = i.operands[0]
        for u in list(i.users):
            if u.opcode != "bitcast":
                u.replace_operand(i, x)
        if self.c._root is i:
            self.c.root = x

    def read_pinned(self, i: Instruction) -> None:
        """Let readers of a value that keeps its layout read a row-major one."""
        readers = [u for u in i.users if u.opcode != "bitcast" or row_major(u.shape) is not u.shape]
        if not readers and self.c._root is not i:
            return
        holder = self.as_row_major(i)
        self.was.setdefault(holder, self.was[i])  # bitcasts among the readers still mean that
        for u in readers:
            u.replace_operand(i, holder)
        if self.c._root is i:
            self.c.root = holder

    def bitcast(self, i: Instruction) -> None:
        """Say what a bitcast between layouts does by a transpose, a reshape and a transpose."""
        x = i.operands[0]
        before, after = self.was.get(x, x.shape), i.shape
        if packed_bits(before) or packed_bits(after):
            return  # the bytes of packed elements, as they lie
        if (is_tiled(before) or is_tiled(after)) and not mean_the_same(before, after):
            raise UnsupportedError(
                f"a bitcast from {before} to {after} is about tiles, in which no array lies here",
                instruction=f"%{i.name}",
                rule="layout-normalization",
                hint="write it as a reshape and a transpose",
            )
        if row_major(x.shape) is not x.shape and row_major(after) is after:
            return  # reads a pinned value as it lies
        if not (_differs(before) or _differs(after)):
            if row_major(after) is not after:
                i.shape = row_major(after)
                self.fired["layouts"] += 1
            return
        if row_major(before) is before and self.is_final(i):
            return
        if before.dtype is not after.dtype:
            raise UnsupportedError(
                f"a bitcast from {before} to {after} changes type and layout at once",
                instruction=f"%{i.name}",
                rule="layout-normalization",
                hint="write it as a bitcast-convert and a transpose",
            )
        if (error := without_meaning(i)) is not None:
            raise error
        order = physical_order(after)
        turned = self.turned(x, physical_order(before))
        dims = [after.dims[d] for d in order]
        if prod(dims) < prod(before.dims):
            turned = self.first_elements(turned, prod(dims))
        flat = self.append("reshape", turned, shape(after.dtype, dims).with_default_layouts())
        outside = self.turned(flat, _inverse(order))
        self.was[outside] = after  # bitcasts among the readers still mean that
        self.c.replace(i, outside)
        self.c.erase(i)

    def first_elements(self, x: Instruction, count: int) -> Instruction:
        """The first elements of a row-major value as they lie, in one dimension."""
        dtype, n = x.shape.dtype, prod(x.shape.dims)
        flat = self.append("reshape", x, shape(dtype, [n]).with_default_layouts())
        s = shape(dtype, [count]).with_default_layouts()
        return self.append("slice", flat, s, slice=Slices.of((0, count, 1)))

    def is_final(self, i: Instruction) -> bool:
        """Whether a bitcast gives a value the layout it leaves the program with."""
        root = self.c._root if self.c.is_entry else None
        if not i.users:
            return i is root
        return all(
            u.opcode == "custom-call" or (u is root and u.opcode == "tuple") for u in i.users
        )

    def append(self, opcode: str, x: Instruction, s: Shape, **attributes: object) -> Instruction:
        op = OPS[opcode]
        attrs = op.attrs(**attributes) if attributes else op.empty
        instruction = self.c.append(opcode, attrs, (x,), s)
        instruction.metadata = x.metadata
        self.fired[opcode] += 1
        return instruction

    def turned(self, x: Instruction, order: tuple[int, ...]) -> Instruction:
        """The row-major transpose of a row-major value."""
        if order == tuple(range(len(order))):
            return x
        s = shape(x.shape.dtype, [x.shape.dims[d] for d in order]).with_default_layouts()
        return self.append("transpose", x, s, dimensions=order)

    def elements(self, x: Instruction) -> list[Instruction]:
        """The elements of a tuple."""
        if x.opcode == "tuple":
            return list(x.operands)
        parts = enumerate(x.shape.elements)
        return [self.append("get-tuple-element", x, s, index=k) for k, s in parts]

    def joined(self, parts: list[Instruction]) -> Instruction:
        """The tuple of some values."""
        tuple_type = tuple_shape([p.shape for p in parts])
        return self.c.append("tuple", OPS["tuple"].empty, tuple(parts), tuple_type)

    def as_row_major(self, x: Instruction) -> Instruction:
        """The value of `x`, row-major."""
        s = x.shape
        if row_major(s) is s or (s.is_array and s.is_dynamic):
            return x
        if s.is_tuple:
            return self.joined([self.as_row_major(part) for part in self.elements(x)])
        if not _differs(s):
            return self.append("bitcast", x, row_major(s))
        order = physical_order(s)
        flat = shape(s.dtype, [s.dims[d] for d in order]).with_default_layouts()
        return self.turned(self.append("bitcast", x, flat), _inverse(order))

    def as_laid_out(self, x: Instruction, result_shape: Shape) -> Instruction:
        """The value of `x` in the wanted layout."""
        if result_shape.is_tuple:
            sources = self.elements(x) if x.opcode == "tuple" or x.shape is not result_shape else []
            parts = [self.as_laid_out(p, w) for p, w in zip(sources, result_shape.elements)]
            if x.opcode == "tuple" and tuple(parts) == x.operands:
                tuple_type = tuple_shape(
                    [_claimed(e, p.shape) for e, p in zip(x.shape.elements, parts)]
                )
                if x.shape is not tuple_type:
                    x.shape = tuple_type
                    self.fired["layouts"] += 1
                return x
            return self.joined(parts) if parts else x
        if x.shape is result_shape or row_major(result_shape) is result_shape or x.shape.is_dynamic:
            return x
        if _differs(result_shape):
            x = self.turned(x, physical_order(result_shape))
        return self.append("bitcast", x, result_shape)


def _claimed(declared: Shape, now: Shape) -> Shape:
    """What a tuple says of an element: its new shape, unless the tuple says more of its sizes."""
    return declared if declared.is_array and declared.is_dynamic and not now.is_dynamic else now


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([order.index(d) for d in range(len(order))])
