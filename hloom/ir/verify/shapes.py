"""Has every instruction the shape that its operation gives, and no operand of a wrong type?"""

from collections.abc import Iterator
from typing import Any

from hloom.base.diagnostics import HloError, UsageError, VerifyError
from hloom.ir.computation import Computation
from hloom.ir.infer.compare import compatible, compatible_ignoring_precision
from hloom.ir.instruction import Instruction
from hloom.ir.mixed_precision import uniform
from hloom.ir.module import Module
from hloom.ir.op import OPS, ShapeError, opcodes
from hloom.ir.traits import CHECKED_TYPE, MIXES_FLOATS, SAME_TYPE
from hloom.ir.verify.rules import VerifyOptions, broken
from hloom.types.layout import checked_layout
from hloom.types.shape import UNBOUNDED, ProgramShape, Shape

_MIXES_FLOATS = opcodes(MIXES_FLOATS)
_SAME_TYPE = opcodes(SAME_TYPE)
_CHECKED_TYPE = opcodes(CHECKED_TYPE)
# Their functions must take elements of exactly the operands' types, unless precision may mix.
TYPED_FUNCTION = frozenset(("reduce", "map", "reduce-window"))
_INT64_MAX = 2**63 - 1


def check_shapes(module: Module, options: VerifyOptions) -> Iterator[VerifyError]:
    """Compare each instruction's shape with the one its operation infers or demands."""
    mixed = options.allow_mixed_precision
    rules = {name: (op, hasattr(op.attrs, "check")) for name, op in OPS.items()}
    signatures: dict[Computation, ProgramShape] = {}
    well_formed: set[Shape] = set()
    for c in module.computations:
        for i in c.instructions:
            op, checks = rules[i.opcode]
            declared = i.shape
            if declared not in well_formed:
                wrong = malformed(declared, options)
                if wrong:
                    yield broken(*wrong, i)
                    continue
                well_formed.add(declared)
            called = _signatures(i, signatures)
            shapes = tuple([x.shape for x in i.operands])
            try:
                if checks:
                    op.check(i.attrs, declared, shapes, called)
                else:
                    inferred = op.infer(i.attrs, shapes, called)
                    if inferred is not declared.bare and not _fits(
                        i.opcode, declared, inferred, mixed
                    ):
                        yield broken(
                            "shape", f"the shape is {declared.bare} but must be {inferred.bare}", i
                        )
                        continue
            except ShapeError as error:
                yield broken("shape", str(error), i)
                continue
            if not mixed and len(shapes) > 1 and i.opcode not in _MIXES_FLOATS:
                if _mixes(shapes):
                    yield _mixture(i)
            if not mixed and i.opcode in _CHECKED_TYPE and not _keeps_type(declared, shapes):
                yield broken(
                    "precision",
                    f"{i.opcode} turns {i.operands[0].shape.bare} into {declared.bare}",
                    i,
                )
            if called and not mixed and i.opcode in TYPED_FUNCTION:
                yield from _check_element_types(i, called[0])
            if mixed and (error := _without_meaning(i)) is not None:
                yield error


def _signatures(i: Instruction, known: dict[Computation, ProgramShape]) -> tuple[ProgramShape, ...]:
    if not i.called:
        return ()
    signatures = []
    for c in i.called:
        signature = known.get(c)
        if signature is None:
            signature = known[c] = c.program_shape
        signatures.append(signature)
    return tuple(signatures)


def _fits(opcode: str, declared: Shape, inferred: Shape, mixed: bool) -> bool:
    if compatible(declared, inferred):
        return True
    return mixed and opcode not in _SAME_TYPE and compatible_ignoring_precision(declared, inferred)


def malformed(declared: Shape, options: VerifyOptions) -> tuple[str, str] | None:
    """The rule that a shape by itself breaks, and how."""
    if declared.is_unbounded and not options.allow_unbounded:
        return "unbounded", f"the size of {declared.bare} has no bound"
    for leaf in declared.leaves():
        array = leaf.elements[0] if leaf.is_buffer else leaf
        if not array.is_array:
            continue
        count = 1
        for size in array.dims:
            if size < 0 and not (size == UNBOUNDED and array.dynamic):
                return "shape", f"{array.bare} has a negative size"
            count *= 1 if size == UNBOUNDED else size
            # Asked at each step, as XLA does: a later zero does not make it right.
            if count * array.dtype.size_bytes > _INT64_MAX:
                return "shape", f"{array.bare} has more bytes than 64 bits can count"
        try:
            if array.layout is not None:
                checked_layout(array.layout, array.rank)
        except UsageError as error:
            return "layout", error.message
    return None


def _mixes(shapes: tuple[Shape, ...]) -> bool:
    """Whether floats of different precision are among the operands' arrays."""
    seen: Any = None
    for s in shapes:
        for leaf in (s,) if s.is_array else s.leaves():
            t = leaf.dtype
            if t.is_floating and t is not seen:
                if seen is not None:
                    return True
                seen = t
    return False


def _keeps_type(declared: Shape, shapes: tuple[Shape, ...]) -> bool:
    """Whether every float type of the result is one of an operand."""
    known = {leaf.dtype for s in shapes for leaf in s.leaves()}
    return all(leaf.dtype in known for leaf in declared.leaves() if leaf.dtype.is_floating)


def _mixture(i: Instruction) -> VerifyError:
    shapes = ", ".join(str(x.shape.bare) for x in i.operands)
    return broken(
        "precision",
        f"{i.opcode} reads floats of different precision: {shapes}",
        i,
        "insert a convert, or allow_mixed_precision",
    )


def _without_meaning(i: Instruction) -> VerifyError | None:
    """What is wrong with floats of different precision that no conversion brings together."""
    try:
        uniform(i)
    except HloError as error:
        return broken("precision", error.message, i, error.hint)
    return None


def _check_element_types(i: Instruction, function: ProgramShape) -> Iterator[VerifyError]:
    for k, (p, x) in enumerate(zip(function.parameters, i.operands)):
        if p.dtype is not x.shape.dtype:
            yield broken(
                "precision",
                f"parameter {k} of the called computation is {p.bare} but the operand is "
                f"{x.shape.bare}",
                i,
            )
