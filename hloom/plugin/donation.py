"""Which arguments the caller gives up.

JAX names the result that an argument becomes, or says only that an argument may become any of
them. Such a donor is given up where there is a result of its size that no other argument becomes,
and stays the caller's where there is none.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hloom.api import AliasEntry, InputOutputAlias, Module, Shape, size_bytes


def donated_parameters(module: Module) -> frozenset[int]:
    """Numbers of the parameters that the caller gives up."""
    aliases = module.input_output_alias.entries if module.input_output_alias is not None else ()
    donors = {e.parameter_number for e in aliases}
    if module.buffer_donors is None:
        return frozenset(donors)
    aliased_outputs = {e.output_shape_index for e in aliases}
    free = Counter(
        size_bytes(leaf)
        for index, leaf in _leaves(module.entry.root.shape)
        if index not in aliased_outputs and leaf.is_array
    )
    for number, _ in sorted(module.buffer_donors.entries):
        shape = module.entry.parameters[number].shape
        size = size_bytes(shape) if shape.is_array else -1
        if number in donors or (size >= 0 and not free[size]):
            continue
        free[size] -= 1
        donors.add(number)
    return frozenset(donors)


def pair_donors(module: Module) -> None:
    """Let each donor become a result of its shape, if there is one that no argument becomes yet."""
    alias, donors = module.input_output_alias, module.buffer_donors
    if not donors:
        return
    entries = list(alias.entries) if alias else []
    aliased_outputs = {e.output_shape_index for e in entries}
    free = [
        (k, s)
        for k, s in _leaves(module.entry.root.shape)
        if k not in aliased_outputs and s.is_array
    ]
    left = []
    for number, index in sorted(donors.entries):
        part = module.entry.parameters[number].shape.subshape(index)
        at = next((n for n, (_, s) in enumerate(free) if s.compatible(part)), None)
        if at is None:
            left.append((number, index))
        else:
            entries.append(AliasEntry(free.pop(at)[0], number, index))
    entries.sort(key=lambda e: e.output_shape_index)
    module.input_output_alias = InputOutputAlias(tuple(entries))
    module.buffer_donors = replace(donors, entries=tuple(left)) if left else None


def _leaves(result: Shape) -> list[tuple[tuple[int, ...], Shape]]:
    return [(index, s) for index, s in result.subshapes() if not s.is_tuple]
