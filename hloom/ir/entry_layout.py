"""Where the layout of the entry and the entry itself say different things of sizes.

Text and protos state the shapes of arguments and results twice. They need agree but for layouts,
and, as in XLA, but for which sizes are known at run time only. Of those the entry itself is true:
who compiled for `f32[2]` would read an array of run-time size without its size.
"""

from __future__ import annotations

from hloom.ir.module import Module
from hloom.types.shape import ProgramShape, Shape, tuple_shape


def keep_own_sizes(module: Module) -> None:
    """Let the layout of the entry say of sizes what the entry says."""
    said, entry = module.entry_layout, module.entry
    if said is None or len(said.parameters) != len(entry.parameters):
        return
    parameters = tuple(
        [with_own_sizes(s, p.shape) for s, p in zip(said.parameters, entry.parameters)]
    )
    result = with_own_sizes(said.result, entry.root.shape)
    if parameters != said.parameters or result != said.result:
        module.entry_layout = ProgramShape(parameters, said.parameter_names, result)


def with_own_sizes(said: Shape, own: Shape) -> Shape:
    """The layouts of what the entry's layout says, on the sizes that the entry itself has."""
    if own.is_tuple and len(said.elements) == len(own.elements):
        pairs = list(zip(said.elements, own.elements))
        parts = [with_own_sizes(s, o) for s, o in pairs]
        return said if all(p is s for p, (s, _) in zip(parts, pairs)) else tuple_shape(parts)
    if not (own.is_array and said.is_array) or said.dynamic == own.dynamic:
        return said
    return own.with_layout(said.layout or own.layout)
