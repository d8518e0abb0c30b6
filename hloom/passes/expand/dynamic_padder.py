"""Programs on arrays of run-time size as programs on arrays of their bounds.

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
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.mixed_precision import unify
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import FORWARDS
from hloom.passes.computation_pass import settle
from hloom.passes.control.call_inliner import CallInliner
from hloom.passes.control.flatten_call_graph import FlattenCallGraph
from hloom.passes.expand import (
    dynamic_collectives,
    dynamic_folds,
    dynamic_indexing,
    dynamic_reshape,
)
from hloom.passes.expand.dynamic_rules import RULES, again, pointwise
from hloom.passes.expand.dynamic_values import (
    Masks,
    Sized,
    actual,
    at_boundary,
    bounded,
    common,
    erase_replaced,
    is_boundary,
    is_dynamic,
    joined,
    leaves,
    static_shape,
)
from hloom.passes.expand.expansion import (
    Combiners,
    Expansion,
    move_control_edges,
    refuse,
)
from hloom.passes.expand.map_inliner import BY_ELEMENT
from hloom.passes.facts import fact, without
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.passes.simplify.dce import remove_dead_computations
from hloom.rewrite.driver import Trace
from hloom.types.dtype import S32
from hloom.types.shape import Shape, shape, tuple_shape

TUPLES = frozenset(["tuple", "get-tuple-element"])
PASSED_ON = opcodes(FORWARDS)
assert RULES is dynamic_collectives.RULES is dynamic_folds.RULES
assert RULES is dynamic_indexing.RULES is dynamic_reshape.RULES


@fact
def static_shapes(module) -> bool:
    """Only parameters of the entry, what pads them, and what makes its results are dynamic."""
    return all(i.shape.is_static or at_boundary(i) for i in module.instructions())


class _Padding:
    """One computation being made static; `new_for_old` has the new value of every instruction."""

    def __init__(self, c: Computation, combiners: Combiners) -> None:
        self.computation = c
        self.b = Expansion(c, combiners)
        self.masks = Masks(self.b)
        self.new_for_old: dict[Instruction, Sized] = {}
        self.before = c.in_order()
        self.old_root = c.root
        self.old_shape = c.root.shape

    # -- from values to Sized and back

    def known(self, i: Instruction) -> Sized:
        """What stands for an instruction; itself where nothing in it is dynamic."""
        sized = self.new_for_old.get(i)
        if sized is None:
            sized = self.new_for_old[i] = Sized(i)
        return sized

    def fitted(self, x: Sized, of: Shape) -> Sized:
        """The value with sizes for exactly the dynamic dimensions of a shape."""
        if of.is_tuple:
            parts = self.parts(x, len(of.elements))
            fitted_parts = [self.fitted(p, s) for p, s in zip(parts, of.elements, strict=True)]
            return Sized(x.value, {}, fitted_parts)
        if not of.is_array:
            return x
        dynamic = [d for d in range(of.rank) if of.is_dynamic_dim(d)]
        return Sized(x.value, {d: self.masks.size(x, d) for d in dynamic})

    def parts(self, x: Sized, count: int) -> list[Sized]:
        if x.parts is None:
            parts_ = [self.b.element(x.value, k) for k in range(count)]
            x.parts = [
                self.boundary(e) if e.shape.is_array and e.shape.is_dynamic else Sized(e)
                for e in parts_
            ]
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

    def whole(self, x: Sized) -> Instruction:
        """A value as one static instruction, tuples made anew."""
        return x.value if x.parts is None else self.b.tuple(*(self.whole(p) for p in x.parts))

    # -- one instruction

    def step(self, i: Instruction) -> Sized | None:
        """What stands for a dynamic instruction, or one that reads what has changed."""
        if i.opcode == "tuple":
            if any(o in self.new_for_old for o in i.operands) or i.shape.is_dynamic:
                return Sized(i, {}, [self.known(o) for o in i.operands])
            return None
        if i.opcode == "get-tuple-element":
            return self.element(i)
        if i.opcode in ("while", "conditional"):
            return self.control(i)
        if i.opcode in PASSED_ON or (i.opcode == "copy" and i.shape.is_tuple):
            return self.known(i.operands[0])
        operands = [self.known(o) for o in i.operands]
        if i.opcode in BY_ELEMENT:
            sized = pointwise(self.masks, i, operands)
        elif i.opcode in RULES:
            sized = RULES[i.opcode](self.masks, i, operands)
        elif not self.is_sized(i) and i.opcode != "custom-call" and not i.has_side_effect:
            sized = Sized(again(self.masks, i, *(x.value for x in operands)))
        else:
            raise refuse(
                i,
                f"no code is made for {i.opcode} on {i.shape.text_without_layout}, an array of "
                "run-time size",
                "dynamic-shape",
                "keep it static, or pad before and set the size after it",
            )
        return self.fitted(sized, self.written_shape(i, operands, sized))

    def written_shape(self, i: Instruction, operands: list[Sized], sized: Sized) -> Shape:
        """The shape of a result: what is written, and each run-time size that values bring.

        A shape may call static what has a run-time size, as programs are valid whose shapes differ
        in that alone. Then the values decide, as in the interpreter.
        """
        if all(not leaf.sizes for leaf in leaves(sized)):
            return i.shape
        if i.opcode in ("broadcast", "set-dimension-size", "clamp") or i.opcode in COLLECTIVES:
            return joined(i.shape, actual(sized))
        if hasattr(i.op.attrs, "check"):
            return i.shape
        shapes = tuple([actual(x) for x in operands])
        called = tuple([c.program_shape for c in i.called])
        return joined(i.shape, common(i.op.infer(i.attrs, shapes, called), actual(sized)))

    def element(self, i: Instruction) -> Sized | None:
        """An element of a tuple; what the tuple holds says whether its sizes are dynamic."""
        whole, index = i.operands[0], i.attrs.index
        x = self.new_for_old.get(whole)
        if x is not None:
            return self.parts(x, len(whole.shape.elements))[index]
        if i.shape is not whole.shape.elements[index]:
            i.shape = whole.shape.elements[index]
        return self.boundary(i) if i.shape.is_dynamic and i.shape.is_array else None

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
        changed = any(o in self.new_for_old for o in operands)
        if not changed and not any(is_dynamic(j) for c in i.called for j in c.instructions):
            return None
        if i.opcode == "while":
            return self.loop(i)
        packed, inner = [self.known(i.operands[0]).value], []
        for o, c in zip(operands, i.called, strict=True):
            parameter_shape = joined(c.parameters[0].shape, actual(self.known(o)))
            packed.append(self.packed(self.known(o), parameter_shape))
            inner.append(_Padding(c, self.b.combiners))
            inner[-1].run_called(parameter_shape, self.flat_shape(i, parameter_shape))
        of = joined(i.shape, *(p.result_shape for p in inner))
        for p in inner:
            p.finish(of)
        return self.replaced(i, packed, of)

    def loop(self, i: Instruction) -> Sized:
        """A loop whose state has run-time sizes: those of its start, and those that it says."""
        x = self.known(i.operands[0])
        condition, body = i.called
        shaped_alike = [i, *body.parameters, body.root, *condition.parameters]
        of = joined(*(j.shape for j in shaped_alike), actual(x))
        packed = self.flat_shape(i, of)
        for c in i.called:
            inner = _Padding(c, self.b.combiners)
            inner.run_called(of, packed)
            if c is body and joined(of, inner.result_shape) is not of:
                raise refuse(
                    i,
                    f"its body makes {inner.result_shape.text_without_layout} of a state that "
                    f"is {of.text_without_layout}",
                    "dynamic-shape",
                    "write in the shape of the state which of its sizes are run-time sizes",
                )
            inner.finish(of if c is body else None)
        return self.replaced(i, [self.packed(x, of)], of)

    def packed(self, x: Sized, of: Shape) -> Instruction:
        """A value with the sizes of a shape, as one tuple."""
        return self.b.tuple(*self.flat(self.fitted(x, of)))

    def replaced(self, i: Instruction, operands: list[Instruction], of: Shape) -> Sized:
        replacement = self.b.like(i, *operands, shape=self.flat_shape(i, of))
        replacement.sharding = None
        return self.unflat(replacement, of)

    # -- a computation

    def run(self) -> None:
        for i in self.before:
            if i.opcode == "parameter":
                if i not in self.new_for_old and i.shape.is_dynamic and i.shape.is_array:
                    self.new_for_old[i] = self.boundary(i)
                continue
            if is_boundary(i):
                continue
            control = i.opcode in ("while", "conditional")
            if not (control or is_dynamic(i) or any(o in self.new_for_old for o in i.operands)):
                continue
            begun = len(self.b.added)
            if control or is_dynamic(i) or i.opcode in TUPLES or self.is_sized(i):
                new = self.step(i)
            else:  # static itself, it reads a static value that was made anew
                operands = [self.whole(self.known(o)) for o in i.operands]
                if operands == list(i.operands):
                    continue
                new = Sized(self.b.like(i, *operands))
            if new is not None:
                self.new_for_old[i] = new
                if i.has_control_edges and (new.value is not i or new.parts is not None):
                    self.keep_order(i, new, self.b.added[begun:])

    def is_sized(self, i: Instruction) -> bool:
        """Whether an operand has a run-time size that no shape says."""
        known = [self.new_for_old[o] for o in i.operands if o in self.new_for_old]
        return any(leaf.sizes for x in known for leaf in leaves(x))

    def keep_order(self, old: Instruction, new: Sized, new_instructions: list[Instruction]) -> None:
        """Let what was made wait for what the old instruction waited for, and the other way."""
        ends = [leaf.value for leaf in leaves(new) if leaf.value is not old]
        before, after = old.control_predecessors, old.control_successors
        move_control_edges(old, ends, new_instructions)
        if not new_instructions:
            for s in (*after, *old.users):
                for p in before:
                    s.add_control_predecessor(p)

    def run_called(self, parameter_shape: Shape, packed: Shape) -> None:
        """Make a body or branch take a packed state; `finish` says what it returns."""
        (parameter,) = self.computation.parameters
        parameter.shape = packed
        parameter.sharding, parameter.extra = None, None
        self.new_for_old[parameter] = self.unflat(parameter, parameter_shape)
        self.run()

    @property
    def result_shape(self) -> Shape:
        """The shape of the root, with the run-time sizes that its value brings."""
        return actual(self.known(self.old_root))

    def finish(self, of: Shape | None) -> None:
        """Return a packed value with the sizes of a shape; None: the one static value."""
        x = self.known(self.old_root)
        self.computation.root = x.value if of is None else self.packed(x, of)
        self.drop()

    def drop(self) -> None:
        """Erase what has been replaced."""
        erase_replaced(self.computation, self.before, self.new_for_old)
        self.computation.sort()

    def run_entry(self) -> None:
        """Make the entry static between its parameters and its result."""
        self.run()
        if self.old_root in self.new_for_old or self.old_root.shape is not self.old_shape:
            root = self.result(self.known(self.old_root), self.old_shape)
            root.shape = self.old_shape
            self.computation.root = root
        self.drop()

    def result(self, x: Sized, of: Shape) -> Instruction:
        """A value in the form that callers know."""
        if of.is_tuple:
            parts = self.parts(x, len(of.elements))
            whole = self.b.tuple(
                *(self.result(p, s) for p, s in zip(parts, of.elements, strict=True))
            )
            whole.shape = of
            return whole
        if of.is_static:
            if x.value.shape is of:
                return x.value
            copied = self.b.copy(x.value)
            copied.shape = of
            return copied
        sizes = [self.masks.size(x, d) for d in range(of.rank)]
        value, fields = x.value, {}
        if of.layout is not None and not of.layout.is_default:
            if value.shape.layout is not of.layout:
                value = self.b.copy(value)
                value.shape = static_shape(of)
            constraints = (value.shape, *(size.shape for size in sizes))
            fields = {"operand_layout_constraints": constraints}
        call = self.b.emit(
            "custom-call", value, *sizes, custom_call_target="SliceToDynamic", shape=of, **fields
        )
        call.shape = of
        return call


@register
class DynamicPadder(Pass):
    """Write programs on arrays of run-time size with static arrays, sizes and masks.

    Calls are inlined first, and computations with several callers cloned.
    """

    name = "dynamic-padder"
    gives = (static_shapes, without("set-dimension-size", "get-dimension-size", "dynamic-reshape"))

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        if not any(is_dynamic(i) and not at_boundary(i) for i in module.instructions()):
            return PassResult()
        unify(module, threads)
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
