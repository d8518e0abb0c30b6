"""Elements below a byte: packed where the outside sees them, a byte each inside.

Parameters and results of the entry hold `s4`, `u2`, `f4e2m1fn` and the like packed, two or four in
a byte, as XLA's CPU has them; their layouts say so (`E(4)`). Inside a program they take a byte
each, which kernels can address, and layouts say nothing of it. Between the two stands the same
memory as bytes: a bitcast says that the parameter is `u8`, a bitcast-convert takes the elements
out, which readers do in their own kernels, so that weights of four bits are read at four bits.
Results go the other way. Where the minor dimension in memory is no multiple of what a byte holds,
elements are counted through all dimensions, and the last byte is filled up with zeros.

Custom calls take and give a byte for each element, but for those that are programs themselves: the
runtime packs what it hands to handlers that are written for XLA.
Arrays of run-time size stay at a byte each everywhere.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod

from hloom.ir.computation import Computation
from hloom.ir.entry_layout import with_own_sizes
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS, opcodes
from hloom.ir.values.padding import Padding
from hloom.ir.verify.pairs import FOLLOWED_BY
from hloom.passes.computation_pass import settle
from hloom.passes.expand.bitcast_expander import BitcastExpander, bitcasts_of_bytes
from hloom.passes.expand.expansion import Expansion
from hloom.passes.facts import fact, no_dead_code
from hloom.passes.layout.layout_normalization import physical_order
from hloom.passes.layout.tiled_bitcasts import untiled
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.passes.simplify.dce import remove_dead_computations
from hloom.rewrite.driver import Trace
from hloom.types.dtype import U8
from hloom.types.shape import Shape, shape, tuple_shape
from hloom.types.sizes import packed_bits, packed_form

_SEEN = opcodes(also=("bitcast", "get-tuple-element", "tuple", "custom-call"))
"""What reads packed arrays, or makes them of bytes."""


@fact
def bytes_inside(module: Module) -> bool:
    """Every element below a byte has a byte of its own, but in parameters and results of the
    entry and of programs that are called: those are read and made through bitcasts."""
    known: dict[Shape, bool] = {}
    for i in module.instructions():
        if i.shape not in known:
            known[i.shape] = _has_packed(i.shape)
        if known[i.shape] and not (
            (i.opcode in _SEEN or (i.opcode == "parameter" and i.parent.is_entry))
            and all(u.opcode in _SEEN for u in i.users)
        ):
            return False
    return True


@register
class SubByteNormalization(Pass):
    """Pack elements below a byte in parameters and results of the entry, and nowhere else."""

    name = "sub-byte-normalization"
    needs = (bitcasts_of_bytes,)
    gives = (bytes_inside,)
    breaks = (no_dead_code,)

    packed_calls: frozenset[str] = frozenset()
    """Targets of custom calls that take and give packed arrays."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        entry, layouts = module.entry, module.entry_layout
        if entry.callers:  # by computations that nothing reaches: they would read other shapes
            remove_dead_computations(module)
        outside, result = [p.shape for p in entry.parameters], entry.root.shape
        if layouts is not None:
            outside = [with_own_sizes(s, own) for s, own in zip(layouts.parameters, outside)]
            result = with_own_sizes(layouts.result, result)
        parameters = tuple([_packed(s) for s in outside])
        # A chain that the program leaves open has one reader: no element of it can be packed.
        is_open = entry.root.opcode in FOLLOWED_BY
        result = _bare(result) if is_open else _packed(result)
        if _is_normal(module, (*parameters, result)):
            return PassResult()
        # While layouts still say what bitcasts read, which those of packed arrays may not outlive.
        written_out = BitcastExpander().run(module, threads=threads)
        fired["bitcasts"] += written_out.fired.total()
        changed = dict.fromkeys(self.forget_sizes(module, fired))
        boundary = _Boundary(Expansion(entry, {}))
        for p, s in zip(entry.parameters, parameters):
            boundary.read(p, s)
        if not is_open:
            boundary.write(result)
        if layouts is not None:
            said = replace(layouts, parameters=parameters, result=result)
            if said != layouts:
                module.entry_layout = said
                fired["entry layout"] += 1
        if boundary.b.added:
            fired["packed"] += boundary.count
            changed[entry] = None
        settle(module, changed)
        return PassResult.of(+fired)

    def forget_sizes(self, module: Module, fired: Counter[str]) -> list[Computation]:
        """Drop what layouts say of the size of elements, and pack them for calls that want it; the
        computations in which there are any."""
        known: dict[Shape, Shape] = {}
        calls: list[Instruction] = []
        for i in module.instructions():
            if i.opcode == "custom-call" and i.attrs.custom_call_target in self.packed_calls:
                calls.append(i)
            bare = known.get(i.shape)
            if bare is None:
                bare = known[i.shape] = _bare(i.shape)
            if bare is i.shape:
                continue
            i.shape = bare
            fired["element sizes"] += 1
            if i.opcode == "constant":
                i.attrs = OPS["constant"].attrs(literal=i.attrs.literal.with_shape(bare))
        changed = [c.parent for c in calls if _Boundary(Expansion(c.parent, {})).call(c)]
        fired["custom calls"] += len(changed)
        return changed


def _is_normal(module: Module, outside: tuple[Shape, ...]) -> bool:
    """Whether elements have bytes inside, and the entry takes and gives these shapes."""
    entry = module.entry
    said = (*[p.shape for p in entry.parameters], entry.root.shape)
    return said == outside and bytes_inside.holds(module)


def _packed(s: Shape) -> Shape:
    """The shape as callers see it, whose packed arrays lie in no tiles."""
    return packed_form(s).map_leaves(lambda leaf: untiled(leaf) if packed_bits(leaf) else leaf)


def _bare(s: Shape) -> Shape:
    """The shape without what its layouts say of the size of elements."""
    if s.is_tuple:
        parts = [_bare(part) for part in s.elements]
        return s if all(a is b for a, b in zip(parts, s.elements)) else tuple_shape(parts)
    if s.layout is None or not s.layout.element_size_in_bits:
        return s
    return s.with_layout(s.layout.replace(element_size_in_bits=0))


class _Boundary:
    """Takes elements out of what the outside gives a computation, and packs what it is given."""

    def __init__(self, b: Expansion) -> None:
        self.b = b
        self.count = 0
        self.packed: dict[Instruction, Instruction] = {}
        """What was taken out of a parameter, and what that was taken out of."""

    def read(self, p: Instruction, outside: Shape) -> None:
        """Give a parameter its shape outside; its readers read what is taken out of it."""
        if not _has_packed(outside):
            return
        p.shape = outside
        entry = self.b.computation
        readers, is_root = list(p.users), entry.root is p
        elements = self.unpacked(p)
        for u in readers:
            u.replace_operand(p, elements)
        if is_root:
            entry.root = elements

    def unpacked(self, x: Instruction) -> Instruction:
        """What callers hand in, with a byte for each element."""
        if x.shape.is_tuple:
            if not _has_packed(x.shape):
                return x
            parts = enumerate(x.shape.elements)
            return self.tuple([self.unpacked(self.element(x, k, s)) for k, s in parts])
        if not packed_bits(x.shape):
            return x
        elements = _taken_out(self.b, x)
        self.packed[elements] = x
        self.count += 1
        return elements

    def write(self, outside: Shape) -> None:
        """Give the result of the entry its shape outside."""
        entry = self.b.computation
        if _has_packed(outside):
            old = entry.root
            entry.root = self.written(old, outside)
            if old.opcode == "tuple" and not old.users and old is not entry.root:
                entry.erase(old)

    def written(self, x: Instruction, outside: Shape) -> Instruction:
        """The value with the shape that callers get."""
        if not _has_packed(outside):
            return x
        if outside.is_tuple:
            parts = enumerate(zip(x.shape.elements, outside.elements))
            return self.tuple([self.written(self.element(x, k, s), o) for k, (s, o) in parts])
        came_from = self.packed.get(x)
        if came_from is not None and came_from.shape is outside:
            return came_from
        self.count += 1
        return _put_together(self.b, x, outside)

    def call(self, i: Instruction) -> bool:
        """Give a custom call packed operands, and its readers what is taken out of its result;
        whether it has any."""
        stated = i.attrs.operand_layout_constraints or [x.shape for x in i.operands]
        outside = [packed_form(s) for s in stated]
        if not any(map(_has_packed, (*outside, packed_form(i.shape)))):
            return False
        i.set_operands(tuple([self.written(x, s) for x, s in zip(i.operands, outside)]))
        if i.attrs.operand_layout_constraints:
            i.attrs = replace(i.attrs, operand_layout_constraints=tuple(outside))
        self.read(i, packed_form(i.shape))
        return True

    def element(self, x: Instruction, k: int, s: Shape) -> Instruction:
        if x.opcode == "tuple":
            return x.operands[k]
        return self.b.emit("get-tuple-element", x, index=k, shape=s)

    def tuple(self, parts: list[Instruction]) -> Instruction:
        return self.b.emit("tuple", *parts, shape=tuple_shape([p.shape for p in parts]))


def _has_packed(s: Shape) -> bool:
    return any(packed_bits(leaf) for leaf in s.leaves() if leaf.is_array)


def _rows(sizes: list[int], per_byte: int) -> list[int]:
    """The sizes of the bytes that hold an array of these sizes: its own but for the minor one
    where that fills whole bytes, else one size for all."""
    if sizes and sizes[-1] % per_byte == 0:
        return [*sizes[:-1], sizes[-1] // per_byte]
    return [-(-prod(sizes) // per_byte)]


def _taken_out(b: Expansion, x: Instruction) -> Instruction:
    """The elements of a packed array, a byte each, in the order in memory that its layout says."""
    s, t = x.shape, x.shape.dtype
    order = physical_order(s)
    sizes, per_byte = [s.dims[d] for d in order], 8 // t.bits
    if 0 in sizes:
        return b.emit("bitcast", x, shape=_bare(s))
    rows = _rows(sizes, per_byte)
    in_bytes = b.emit("bitcast", x, shape=shape(U8, rows))
    apart = b.emit("bitcast-convert", in_bytes, shape=shape(t, [*rows, per_byte]))
    if len(rows) != len(sizes) or prod(rows) * per_byte != prod(sizes):
        apart = b.reshaped(apart, (prod(rows) * per_byte,))
        apart = b.sliced(apart, 0, 0, prod(sizes))
    elements = b.reshaped(apart, sizes)
    return elements if elements.shape is _bare(s) else b.emit("bitcast", elements, shape=_bare(s))


def _put_together(b: Expansion, x: Instruction, wanted: Shape) -> Instruction:
    """The elements of a row-major array, packed as `wanted` says."""
    t, order = wanted.dtype, physical_order(wanted)
    sizes, per_byte = [wanted.dims[d] for d in order], 8 // t.bits
    if 0 in sizes:
        return b.emit("bitcast", x, shape=wanted)
    x = b.transposed(x, order)
    rows = _rows(sizes, per_byte)
    if missing := prod(rows) * per_byte - prod(sizes):
        flat = b.reshaped(x, (prod(sizes),))
        x = b.emit("pad", flat, b.scalar(0, t), padding=Padding.of((0, missing)))
    apart = b.reshaped(x, [*rows, per_byte])
    in_bytes = b.emit("bitcast-convert", apart, shape=shape(U8, rows))
    return b.emit("bitcast", in_bytes, shape=wanted)
