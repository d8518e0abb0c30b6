"""Programs on arrays of run-time size as programs on arrays of their bounds (PS-24).

Every value becomes an array of static shape and a scalar for each run-time size. Operations that
fold over garbage mask it with their neutral element first, those that move elements along such a
dimension compute where to (`dynamic_rules.py`, `dynamic_indexing.py`). Loops and conditionals carry
the sizes as further elements of their state.

What is left for a code generator are two custom calls at the boundary. `PadToStatic(x)` gives (x
padded to its bounds, one s32 size for each dimension): the parameter's memory holds its elements
densely by run-time sizes, and the sizes behind the bytes of the bound.
`SliceToDynamic(x, sizes...)` writes a result in that form. Everything between them is static.
"""

from __future__ import annotations

from collections import Counter

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.passes.control.call_inliner import CallInliner
from hloom.passes.control.flatten_call_graph import FlattenCallGraph
from hloom.passes.expand import dynamic_indexing
from hloom.passes.expand.dynamic_rules import RULES, pointwise
from hloom.passes.expand.dynamic_values import Masks, Sized, bounded
from hloom.passes.expand.expansion import Combiners, Expansion, refuse, settle
from hloom.passes.expand.map_inliner import ELEMENTWISE
from hloom.passes.facts import fact
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.passes.simplify.dce import remove_dead_computations, remove_dead_instructions
from hloom.rewrite.driver import Trace
from hloom.types.dtype import S32
from hloom.types.shape import Shape, shape, tuple_shape

BOUNDARY = frozenset(["PadToStatic", "SliceToDynamic"])
SIZES = frozenset(["set-dimension-size", "get-dimension-size", "dynamic-reshape"])
assert dynamic_indexing.RULES is RULES


def _is_boundary(i: Instruction) -> bool:
    return i.opcode == "custom-call" and i.attrs.custom_call_target in BOUNDARY


def is_dynamic(i: Instruction) -> bool:
    """Whether an instruction has, makes or asks for a run-time size."""
    return i.opcode in SIZES or i.shape.is_dynamic or any(o.shape.is_dynamic for o in i.operands)


@fact
def static_shapes(module) -> bool:
    """Only parameters of the entry, what pads them, and what makes its results are dynamic."""
    entry = module.entry
    return all(
        i.shape.is_static
        or _is_boundary(i)
        or (i.parent is entry and (i.opcode == "parameter" or i.is_root))
        or (i.opcode == "get-tuple-element" and i.operands[0].opcode == "parameter")
        for i in module.instructions()
    )


def leaves(x: Sized) -> list[Sized]:
    """The arrays in a value, in order."""
    return [x] if x.parts is None else [leaf for p in x.parts for leaf in leaves(p)]


class _Padding:
    """One computation being made static; `made` has the new value of every instruction."""

    def __init__(self, c: Computation, combiners: Combiners) -> None:
        self.computation = c
        self.b = Expansion(c, combiners)
        self.masks = Masks(self.b)
        self.made: dict[Instruction, Sized] = {}
        self.before = c.in_order()

    # -- from values to Sized and back

    def known(self, i: Instruction) -> Sized:
        """What stands for an instruction; itself where nothing in it is dynamic."""
        found = self.made.get(i)
        if found is None:
            found = self.made[i] = Sized(i)
        return found

    def fitted(self, x: Sized, of: Shape) -> Sized:
        """The value with sizes for exactly the dynamic dimensions of a shape."""
        if of.is_tuple:
            parts = self.parts(x, len(of.elements))
            made = [self.fitted(p, s) for p, s in zip(parts, of.elements, strict=True)]
            return Sized(x.value, {}, made)
        if not of.is_array:
            return x
        dynamic = [d for d in range(of.rank) if of.is_dynamic_dim(d)]
        return Sized(x.value, {d: self.masks.size(x, d) for d in dynamic})

    def parts(self, x: Sized, count: int) -> list[Sized]:
        if x.parts is None:
            x.parts = [Sized(self.b.element(x.value, k)) for k in range(count)]
        return x.parts

    def flat(self, x: Sized) -> list[Instruction]:
        """All arrays of a value, then all their sizes."""
        arrays = leaves(x)
        return [a.value for a in arrays] + [a.sizes[d] for a in arrays for d in sorted(a.sizes)]

    def flat_shape(self, i: Instruction, of: Shape) -> Shape:
        """The shape of `flat` as one tuple."""
        arrays = list(of.leaves())
        scalars = [shape(S32)] * sum(sum(a.dynamic) for a in arrays if a.is_array)
        return tuple_shape([*(bounded(i, a) for a in arrays), *scalars])

    def unflat(self, packed: Instruction, of: Shape) -> Sized:
        """A value of shape `of` of the elements of a tuple made by `flat`."""
        arrays = list(of.leaves())
        values = [Sized(self.b.element(packed, k)) for k in range(len(arrays))]
        k = len(arrays)
        for x, a in zip(values, arrays, strict=True):
            for d in range(a.rank if a.is_array else 0):
                if a.is_dynamic_dim(d):
                    x.sizes[d] = self.b.element(packed, k)
                    k += 1
        rest = iter(values)

        def grouped(s: Shape) -> Sized:
            if not s.is_tuple:
                return next(rest)
            return Sized(packed, {}, [grouped(e) for e in s.elements])

        return grouped(of)

    def whole(self, x: Sized, of: Shape) -> Instruction:
        """A value as one static instruction, tuples made anew."""
        if not of.is_tuple:
            return x.value
        parts = self.parts(x, len(of.elements))
        return self.b.tuple(*(self.whole(p, s) for p, s in zip(parts, of.elements, strict=True)))

    # -- one instruction

    def step(self, i: Instruction) -> Sized | None:
        """What stands for a dynamic instruction, or one that reads what has changed."""
        if i.opcode == "tuple":
            if any(o in self.made for o in i.operands) or i.shape.is_dynamic:
                return Sized(i, {}, [self.known(o) for o in i.operands])
            return None
        if i.opcode == "get-tuple-element":
            x = self.made.get(i.operands[0])
            if x is None or x.parts is None:
                return self.boundary(i) if i.shape.is_dynamic and i.shape.is_array else None
            return x.parts[i.attrs.index]
        if i.opcode in ("while", "conditional"):
            return self.control(i)
        if i.opcode in ("opt-barrier", "domain", "add-dependency") and i.shape.is_dynamic:
            return self.known(i.operands[0])
        operands = [self.known(o) for o in i.operands]
        if i.opcode in ELEMENTWISE:
            made = pointwise(self.masks, i, operands)
        elif i.opcode in RULES:
            made = RULES[i.opcode](self.masks, i, operands)
        else:
            raise refuse(
                i,
                f"no code is made for {i.opcode} on {i.shape.text_without_layout}, an array of "
                "run-time size",
                "dynamic-shape",
                "keep it static, or pad before and set the size after it",
            )
        return self.fitted(made, i.shape)

    def boundary(self, x: Instruction) -> Sized:
        """An array that comes from outside: padded, with its sizes read."""
        rank = x.shape.rank
        of = tuple_shape([bounded(x, x.shape), *[shape(S32)] * rank])
        call = self.b.emit("custom-call", x, custom_call_target="PadToStatic", shape=of)
        sizes = {d: self.b.element(call, d + 1) for d in range(rank) if x.shape.is_dynamic_dim(d)}
        return Sized(self.b.element(call, 0), sizes)

    def control(self, i: Instruction) -> Sized | None:
        """A loop or conditional whose state or result has run-time sizes."""
        operands = i.operands if i.opcode == "while" else i.operands[1:]
        changed = any(o in self.made for o in operands)
        if not changed and not any(is_dynamic(j) for c in i.called for j in c.instructions):
            return None
        packed = []
        for o in operands:
            x = self.fitted(self.known(o), o.shape)
            packed.append(self.b.tuple(*self.flat(x)))
        for k, c in enumerate(i.called):
            given = operands[0] if i.opcode == "while" else operands[k]
            condition = i.opcode == "while" and k == 0
            inner = _Padding(c, self.b.combiners)
            inner.run_called(given.shape, self.flat_shape(i, given.shape), not condition)
        of = self.flat_shape(i, i.shape)
        if i.opcode == "conditional":
            packed.insert(0, self.known(i.operands[0]).value)
        made = self.b.like(i, *packed, shape=of)
        made.sharding = None
        return self.unflat(made, i.shape)

    # -- a computation

    def run(self) -> None:
        for i in self.before:
            if i.opcode == "parameter":
                if i not in self.made and i.shape.is_dynamic and i.shape.is_array:
                    self.made[i] = self.boundary(i)
                continue
            if _is_boundary(i):
                continue
            control = i.opcode in ("while", "conditional")
            if not (control or is_dynamic(i) or any(o in self.made for o in i.operands)):
                continue
            if control or is_dynamic(i) or i.opcode in ("tuple", "get-tuple-element"):
                new = self.step(i)
            else:  # static itself, it reads a static value that was made anew
                operands = [self.whole(self.known(o), o.shape) for o in i.operands]
                if operands == list(i.operands):
                    continue
                new = Sized(self.b.like(i, *operands))
            if new is not None:
                self.made[i] = new

    def run_called(self, given: Shape, packed: Shape, packs_root: bool) -> None:
        """Make a body or branch take a packed state, and return one if `packs_root`."""
        c = self.computation
        (parameter,) = c.parameters
        old_root = c.root
        parameter.shape = packed
        parameter.sharding, parameter.extra = None, None
        self.made[parameter] = self.unflat(parameter, given)
        self.run()
        x = self.known(old_root)
        if packs_root:
            c.root = self.b.tuple(*self.flat(self.fitted(x, old_root.shape)))
        else:
            c.root = x.value
        self.drop()

    def drop(self) -> None:
        """Erase what has been replaced."""
        remove_dead_instructions(self.computation)
        self.computation.reorder(self.computation.in_order())

    def run_entry(self) -> None:
        """Make the entry static between its parameters and its result."""
        c = self.computation
        old_root = c.root
        self.run()
        if old_root in self.made:
            root = self.result(self.made[old_root], old_root.shape)
            root.shape = old_root.shape
            c.root = root
        self.drop()

    def result(self, x: Sized, of: Shape) -> Instruction:
        """A value in the form that callers know."""
        if of.is_tuple:
            parts = self.parts(x, len(of.elements))
            made = self.b.tuple(
                *(self.result(p, s) for p, s in zip(parts, of.elements, strict=True))
            )
            made.shape = of
            return made
        if of.is_static:
            if x.value.shape is of:
                return x.value
            copied = self.b.copy(x.value)
            copied.shape = of
            return copied
        sizes = [self.masks.size(x, d) for d in range(of.rank)]
        call = self.b.emit(
            "custom-call", x.value, *sizes, custom_call_target="SliceToDynamic", shape=of
        )
        call.shape = of
        return call


@register
class DynamicPadder(Pass):
    """Write programs on arrays of run-time size with static arrays, sizes and masks.

    Calls are inlined first, and computations with several callers cloned.
    """

    name = "dynamic-padder"
    gives = (static_shapes,)

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        if not any(is_dynamic(i) and not _at_boundary(i) for i in module.instructions()):
            return PassResult()
        FlattenCallGraph().run(module, threads=threads)
        CallInliner().run(module, threads=threads)
        for i in module.instructions():
            if i.opcode in ("fusion", "call", "async-start") and is_dynamic(i):
                raise refuse(
                    i,
                    f"a {i.opcode} takes or gives arrays of run-time size",
                    "dynamic-shape",
                    "inline it first",
                )
        remove_dead_computations(module)
        combiners: Combiners = {}
        _Padding(module.entry, combiners).run_entry()
        CallInliner().run(module)  # comparators that sorts of fewer elements call
        remove_dead_computations(module)
        settle(module, list(module.computations))
        return PassResult(True, Counter(padded=1))


def _at_boundary(i: Instruction) -> bool:
    """Whether an instruction may stay dynamic: an entry parameter, or what pads and slices."""
    if _is_boundary(i):
        return True
    if i.opcode == "parameter":
        return i.parent.is_entry
    if i.opcode == "get-tuple-element":
        return i.operands[0].opcode == "parameter" and i.parent.is_entry
    if i.opcode == "tuple" and i.is_root:
        return all(_is_boundary(o) or not o.shape.is_dynamic for o in i.operands)
    return False
