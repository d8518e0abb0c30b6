"""Collectives in two halves: between start and done a device computes while data is on its way.

Those with halves of their own become these; others are wrapped in an async-start.
"""

from __future__ import annotations

from hloom.base.diagnostics import UsageError, did_you_mean
from hloom.ir.instruction import COLLECTIVES, Instruction
from hloom.ir.op import OPS, opcodes_where
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.passes.pass_ import register
from hloom.types.shape import Shape, tuple_shape

_STARTS = {OPS[name].start_of: name for name in OPS if OPS[name].start_of in COLLECTIVES}
_DONES = {OPS[name].done_of: name for name in OPS if OPS[name].done_of}


@register
class AsyncCollectiveCreator(Expander):
    """Replace collectives by a start and a done; those that the options name, or all."""

    name = "async-collective-creator"
    opcodes = opcodes_where(lambda op: op.name in COLLECTIVES)

    kinds: frozenset[str] = frozenset()
    """Opcodes to take apart; none: all."""
    least_bytes: int = 0
    """What reads fewer bytes stays in one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for kind in sorted(self.kinds - COLLECTIVES):
            raise UsageError(
                f"{kind!r} is no collective",
                rule="pass-option",
                hint=did_you_mean(kind, COLLECTIVES) or f"known: {', '.join(sorted(COLLECTIVES))}",
            )

    def wants(self, i: Instruction) -> bool:
        """Not what an async-start wraps already."""
        if self.kinds and i.opcode not in self.kinds:
            return False
        if i.shape.is_dynamic or any(c.opcode == "async-start" for c in i.parent.callers):
            return False
        return sum(x.shape.size_bytes for x in i.operands) >= self.least_bytes

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        opcode = _STARTS.get(i.opcode)
        kinds = [x.shape.dtype for x in i.operands], [s.dtype for s in i.shape.leaves()]
        if opcode is None or getattr(i.attrs, "slice_sizes", ()) or kinds[0] != kinds[1]:
            return _wrapped(b, i)  # a start gives floats as it takes them
        named = {f.name: getattr(i.attrs, f.name) for f in OPS[i.opcode].fields}
        if opcode == "all-reduce-start":
            of = i.shape
        else:
            of = tuple_shape((_bundle(i), i.shape))
        start = b.emit(opcode, *i.operands, called=i.called, shape=of, **named)
        start.shape = of
        _annotated(start, i)
        return b.emit(_DONES[opcode], start, shape=i.shape)


def _bundle(i: Instruction) -> Shape:
    shapes = [x.shape for x in i.operands]
    return shapes[0] if len(shapes) == 1 else tuple_shape(shapes)


def _annotated(start: Instruction, i: Instruction) -> None:
    """The start has what was said of the collective, but for its value."""
    start.copy_annotations(i)
    start.sharding = None


def _wrapped(b: Expansion, i: Instruction) -> Instruction:
    """An async-start of a computation that is the collective alone."""
    body = b.module.add_computation(f"async_{i.opcode}", thread=i.parent.execution_thread)
    parameters = [
        body.add("parameter", shape=x.shape, number=k, name=f"param_{k}")
        for k, x in enumerate(i.operands)
    ]
    body.root = body.append(i.opcode, i.attrs, tuple(parameters), i.shape, i.opcode, i.called)
    body.root.copy_annotations(i)
    of = tuple_shape((tuple_shape([x.shape for x in i.operands]), i.shape))
    start = b.emit("async-start", *i.operands, called=(body,), shape=of)
    start.shape = of
    _annotated(start, i)
    return b.emit("async-done", start, shape=i.shape)
