"""Floats of different precision in one instruction: what it computes, and the same without them.

HLO admits a bf16 `add` of an f32 and an f16, a bf16 `reshape` of an f32, an f32 reducer over bf16.
What they mean is said once, here, by converts:

    bf16 add(f32 x, f16 y)           =>  bf16 convert(f32 add(x, f32 convert(y)))
    bf16 reshape(f32 x)              =>  bf16 convert(f32 reshape(x))
    f32 concatenate(f32 x, bf16 y)   =>  f32 concatenate(x, f32 convert(y))
    bf16 reduce(bf16 x), f32 reducer =>  bf16 convert(f32 reduce(f32 convert(x)))

Arithmetic is done in one type that holds all of the operands' and the result's values, and rounded
once to the result's type. What only moves elements keeps their type, or has that of the result
where several arrays meet. Folds are computed in their reducer's type. What is computed in an
operand's own type (fft, sort) is converted afterwards. Products and converts are never mixed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from hloom.base.diagnostics import HloError
from hloom.ir.computation import Computation
from hloom.ir.copy import copy_computation, copy_instructions
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS, ShapeError, opcodes, opcodes_where
from hloom.ir.order import repair_schedules
from hloom.ir.traits import ANY_PRECISION, ELEMENTWISE, JOINS, MOVES
from hloom.types.casts import preserves_values
from hloom.types.dtype import F32, F64, DType
from hloom.types.shape import Shape, shape, tuple_shape


class Signature(NamedTuple):
    """The element types that a called computation takes and returns."""

    parameters: tuple[DType, ...]
    returned: tuple[DType, ...]


class Uniform(NamedTuple):
    """In which types an instruction is computed: operands and result are converted to and from
    these, and so are values around what it calls; None for a callee that stays as it is."""

    operands: tuple[Shape, ...]
    result: Shape
    called: tuple[Signature | None, ...] = ()


def uniform(i: Instruction) -> Uniform | None:
    """How a mixed instruction is computed; None for one that is not mixed."""
    if i.opcode in _NEVER or _has_one_float(i):
        return None
    rule = _RULES.get(i.opcode)
    if rule is None:
        rule = next((r for opcodes_, r in _BY_TRAIT if i.opcode in opcodes_), _in_its_own_type)
    types = rule(i)
    if types.result is i.shape and not any(types.called) and types.operands == _shapes(i.operands):
        return None
    return types


def is_mixed(module: Module) -> bool:
    """Whether any instruction of a module mixes precisions."""
    return any(uniform(i) is not None for c in module.computations for i in c.instructions)


_NEVER = opcodes(ANY_PRECISION)


def _has_one_float(i: Instruction) -> bool:
    """Whether there is one float type in an instruction at most: the usual case, told quickly."""
    if i.shape.is_array and not i.called and all(x.shape is i.shape for x in i.operands):
        return True
    dtype: DType | None = None
    shapes = [i.shape, *(x.shape for x in i.operands)]
    for c in i.called:
        shapes += [*(p.shape for p in c.parameters), c.root.shape]
    for s in shapes:
        for leaf in (s,) if s.is_array else s.leaves():
            t = leaf.dtype.component if leaf.dtype.is_complex else leaf.dtype
            if t.is_floating and t is not dtype:
                if dtype is not None:
                    return False
                dtype = t
    return True


def holding(types: Iterable[DType]) -> DType:
    """The narrowest float type that holds every value of these."""
    distinct = list(dict.fromkeys(types))
    for t in (*distinct, F32):
        if all(preserves_values(other, t) for other in distinct):
            return t
    return F64


# -- the rules -------------------------------------------------------------------------------


def _in_one_type(i: Instruction) -> Uniform:
    """Arithmetic: in a type that holds the values of all operands and of the result."""
    if any(x.shape.is_array and x.shape.dtype.is_complex for x in i.operands):
        return _in_its_own_type(i)  # abs, real, imag of a complex number
    return _all_in(i, holding(_floats([*(x.shape for x in i.operands), i.shape])))


def _of_result(i: Instruction) -> Uniform:
    """Arrays that are put into one: each becomes what the result is."""
    return _all_in(i, next(_floats([i.shape])))


def _of_operand(i: Instruction) -> Uniform:
    """Elements that are moved: as they are, and then converted."""
    t = next(_floats([i.operands[0].shape]))
    return Uniform(_shapes(i.operands), _retyped(i.shape, t))


def _in_its_own_type(i: Instruction) -> Uniform:
    """What follows from the operands, and then converted."""
    operands = _shapes(i.operands)
    if not OPS[i.opcode].infers:
        raise _no_meaning(i)
    try:
        inferred = OPS[i.opcode].infer(i.attrs, operands, tuple(c.program_shape for c in i.called))
    except ShapeError as error:  # of a module that nobody verified
        raise _no_meaning(i) from error
    return Uniform(operands, _typed_as(i.shape, inferred))


def _of_its_operand(i: Instruction) -> Uniform:
    """Collectives that move elements: each result has the type of its operand."""
    if len(i.operands) != (len(i.shape.elements) if i.shape.is_tuple else 1):
        return _of_result(i)  # in place: what is written into is the result
    operands = _shapes(i.operands)
    return Uniform(operands, _results(i.shape, [s.dtype for s in operands]))


def _of_its_start(i: Instruction) -> Uniform:
    """A start that moves elements: what it gives, operands and results, is for its done alone."""
    operands = _shapes(i.operands)
    data = operands[:2] if getattr(i.attrs, "slice_sizes", ()) else operands * 2
    if list(_floats(data)) == list(_floats(i.shape.elements[:2])):
        return Uniform(operands, i.shape)
    raise _no_meaning(i)


def _fold(i: Instruction) -> Uniform:
    """reduce and reduce-window: in the types of the reducer."""
    n = len(i.operands) // 2
    types = _reducer_types(i.called[0], n)
    operands = tuple([_retyped(x.shape, types[k % n]) for k, x in enumerate(i.operands)])
    return Uniform(operands, _results(i.shape, types), (_reducer(i.called[0], types),))


def _all_reduce(i: Instruction) -> Uniform:
    """In the type of the reducer; run-time roots are no data."""
    types = _reducer_types(i.called[0], 1)
    count = len(i.operands) - getattr(i.attrs, "has_dynamic_root", False)
    data = tuple([_retyped(x.shape, types[0]) for x in i.operands[:count]])
    operands = data + _shapes(i.operands[count:])
    return Uniform(operands, _retyped(i.shape, types[0]), (_reducer(i.called[0], types),))


def _all_reduce_start(i: Instruction) -> Uniform:
    """In the operands' type: what the start gives is for its done alone."""
    types = _in_its_own_type(i)
    dtypes = {x.shape.dtype for x in i.operands}
    if types.result.bare is not i.shape.bare or len(dtypes) > 1:
        raise _no_meaning(i)
    return types._replace(called=(_reducer(i.called[0], tuple(dtypes)),))


def _scatter(i: Instruction) -> Uniform:
    """In types that hold the arrays' values too: most elements are not combined with anything."""
    n = len(i.operands) // 2
    own = _reducer_types(i.called[0], n)
    arrays = [x.shape.dtype for x in i.operands[:n]]
    types = tuple([_wide(t, x) for t, x in zip(own, arrays, strict=True)])
    operands = [
        x.shape if k == n else _retyped(x.shape, types[k if k < n else k - n - 1])
        for k, x in enumerate(i.operands)
    ]
    called = (_reducer(i.called[0], types),)
    return Uniform(tuple(operands), _results(i.shape, types), called)


def _select_and_scatter(i: Instruction) -> Uniform:
    """In a type that holds the values of the array and of both computations."""
    select, reducer = i.called
    types = [p.shape.dtype for c in i.called for p in c.parameters]
    t = holding([i.operands[0].shape.dtype, *types])
    operands = tuple([_retyped(x.shape, t) for x in i.operands])
    called = (_predicate(select, (t, t)), _reducer(reducer, (t,)))
    return Uniform(operands, _retyped(i.shape, t), called)


def _map(i: Instruction) -> Uniform:
    """In the types of the mapped function."""
    callee = i.called[0]
    pairs = zip(i.operands, callee.parameters, strict=True)
    operands = tuple([x.shape.with_dtype(p.shape.dtype) for x, p in pairs])
    return Uniform(operands, i.shape.with_dtype(callee.root.shape.dtype))


def _sort(i: Instruction) -> Uniform:
    """Elements stay what they are; the comparator gets them converted."""
    types = tuple([x.shape.dtype for x in i.operands for _ in range(2)])
    return _in_its_own_type(i)._replace(called=(_predicate(i.called[0], types),))


_RULES: dict[str, Callable[[Instruction], Uniform]] = {
    "reduce-precision": _in_its_own_type,
    "reduce": _fold,
    "reduce-window": _fold,
    "scatter": _scatter,
    "select-and-scatter": _select_and_scatter,
    "map": _map,
    "sort": _sort,
    "rng": _of_operand,
    "batch-norm-training": _in_one_type,
    "batch-norm-inference": _in_one_type,
    "batch-norm-grad": _in_one_type,
    "all-reduce-start": _all_reduce_start,
    "all-gather-start": _of_its_start,
    "collective-permute-start": _of_its_start,
}
_BY_TRAIT = (
    (opcodes(MOVES), _of_operand),
    (opcodes(JOINS), _of_result),
    (opcodes(ELEMENTWISE), _in_one_type),
    (opcodes_where(lambda op: op.name in COLLECTIVES and bool(op.called)), _all_reduce),
    (COLLECTIVES, _of_its_operand),
)
"""The rules of all others: that of the first set which has the opcode."""


def _reducer_types(c: Computation, n: int) -> tuple[DType, ...]:
    """A type for each of n accumulators that its elements fit in too."""
    types = [p.shape.dtype for p in c.parameters]
    return tuple([_wide(a, e) for a, e in zip(types[:n], types[n:], strict=True)])


def _reducer(c: Computation, types: tuple[DType, ...]) -> Signature | None:
    """A reducer on these types; None where it is one."""
    return None if _takes(c) == types * 2 else Signature(types * 2, types)


def _predicate(c: Computation, types: tuple[DType, ...]) -> Signature | None:
    """A comparison of these types; None where it is one."""
    return None if _takes(c) == types else Signature(types, (c.root.shape.dtype,))


def _takes(c: Computation) -> tuple[DType, ...]:
    return tuple([p.shape.dtype for p in c.parameters])


def _no_meaning(i: Instruction) -> HloError:
    operands = ", ".join(x.shape.text_without_layout for x in i.operands)
    result = i.shape.text_without_layout
    return HloError(
        f"{i.opcode} of {operands} gives no {result}: its floats differ in precision",
        instruction=f"{i.parent.name}/%{i.name}",
        rule="precision",
        hint="write a convert before or after it",
    )


def _wide(a: DType, b: DType) -> DType:
    return holding((a, b)) if a.is_floating and b.is_floating else a


def _floats(shapes: Iterable[Shape]):
    """The float types of arrays, in order."""
    return (leaf.dtype for s in shapes for leaf in s.leaves() if leaf.dtype.is_floating)


def _shapes(operands: Sequence[Instruction]) -> tuple[Shape, ...]:
    return tuple([x.shape for x in operands])


def _all_in(i: Instruction, t: DType) -> Uniform:
    operands = tuple([_retyped(x.shape, t) for x in i.operands])
    return Uniform(operands, _retyped(i.shape, t))


def _retyped(of: Shape, t: DType) -> Shape:
    """The shape with another type wherever it has floats."""
    return of.map_leaves(lambda s: s.with_dtype(t) if s.dtype.is_floating else s)


def _results(of: Shape, types: Sequence[DType]) -> Shape:
    """The shape of n results with these types."""
    if of.is_array:
        return of.with_dtype(types[0])
    return tuple_shape(s.with_dtype(t) for s, t in zip(of.elements, types, strict=True))


def _typed_as(of: Shape, other: Shape) -> Shape:
    """The shape with the types of another one of its form."""
    if of.is_tuple:
        pairs = zip(of.elements, other.elements, strict=True)
        return tuple_shape(_typed_as(a, b) for a, b in pairs)
    return of.with_dtype(other.dtype) if of.is_array else of


# -- without them ----------------------------------------------------------------------------


def unify(module: Module, threads: frozenset[str] = frozenset()) -> int:
    """Write converts wherever an instruction mixes precisions; return how many did.

    Nothing else changes: names, control edges and schedules stay with the instructions. Only
    computations on `threads` (empty: all) are touched.
    """
    count = 0
    for c in list(module.computations):
        if threads and c.execution_thread not in threads:
            continue
        mixed = [(i, types) for i in c.instructions if (types := uniform(i)) is not None]
        if not mixed:
            continue
        count += len(mixed)
        if any(caller.opcode == "async-start" for caller in c.callers):
            _move_into_call(c)
            mixed = [(i, types) for i in _called_body(c) if (types := uniform(i)) is not None]
        for i, types in mixed:
            _unify(i, types)
        for x in dict.fromkeys(i.parent for i, _ in mixed):
            x.sort()
    if count:
        repair_schedules(module)
    return count


def _called_body(c: Computation) -> list[Instruction]:
    return list(c.root.called[0].instructions)


def _move_into_call(c: Computation) -> None:
    """An asynchronous computation holds one operation: make that a call of what it held."""
    assert c.module is not None
    inner, _ = copy_computation(c, c.module)
    old = c.root
    call = c.append("call", OPS["call"].attrs(), tuple(c.parameters), old.shape, None, (inner,))
    c.root = call
    c.erase(old)


def _unify(i: Instruction, types: Uniform) -> None:
    c = i.parent
    operands = [_converted(c, x, of) for x, of in zip(i.operands, types.operands, strict=True)]
    i.set_operands(tuple(operands))
    if any(types.called):
        pairs = zip(i.called, types.called, strict=True)
        i.set_called(tuple([_adapter(c, of) if of else c for c, of in pairs]))
    if types.result is not i.shape:
        declared, readers, was_root = i.shape, list(i.users), i.is_root
        i.shape = types.result
        out = _converted(c, i, declared)
        out.sharding, out.metadata = i.sharding, i.metadata
        for reader in readers:
            reader.replace_operand(i, out)
        if was_root:
            c.root = out


def _converted(c: Computation, x: Instruction, of: Shape) -> Instruction:
    """The value with the types of a shape of its form."""
    if x.shape.is_tuple:
        if x.shape.bare is of.bare:
            return x
        element = OPS["get-tuple-element"].attrs
        parts = [
            c.append("get-tuple-element", element(index=k), (x,), part)
            for k, part in enumerate(x.shape.elements)
        ]
        parts = [_converted(c, p, s) for p, s in zip(parts, of.elements, strict=True)]
        return c.append("tuple", OPS["tuple"].attrs(), tuple(parts), of)
    if x.shape.dtype is of.dtype:
        return x
    return c.append("convert", OPS["convert"].attrs(), (x,), x.shape.with_dtype(of.dtype))


def _adapter(body: Computation, of: Signature) -> Computation:
    """The body as a computation on other types: converts around a copy of it."""
    assert body.module is not None
    adapter = body.module.add_computation(f"{body.name}.converted", thread=body.execution_thread)
    arguments = [
        adapter.append("parameter", OPS["parameter"].attrs(number=k), (), shape(t), p.name)
        for k, (p, t) in enumerate(zip(body.parameters, of.parameters, strict=True))
    ]
    pairs = zip(body.parameters, arguments, strict=True)
    new_for_old = {p: _converted(adapter, x, p.shape) for p, x in pairs}
    copy_instructions([x for x in body.in_order() if x.opcode != "parameter"], adapter, new_for_old)
    root = new_for_old[body.root]
    adapter.root = _converted(adapter, root, _results(root.shape, of.returned))
    return adapter
