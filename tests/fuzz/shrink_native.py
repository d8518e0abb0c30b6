"""Making a program smaller while something stays true of it: that it is compiled wrongly, say."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hloom.base.diagnostics import HloError
from hloom.ir.computation import Computation
from hloom.ir.copy import copy_module
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.text import PrintOptions, parse_module, show_module
from hloom.ir.verify import verify
from hloom.passes import pass_named
from hloom.types.literal import Literal
from tests.fuzz.programs_native import with_aliases

WHOLE = PrintOptions(large_constants=True)
MOST_CONSTANT_ELEMENTS = 4


def shrunk(module: Module, still: Callable[[Module], bool], patience: int = 150) -> Module:
    """The smallest program found of which `still` holds, by at most `patience` tries.

    Results are dropped; values give way to an operand, a constant or a new argument; calls and
    branches are inlined.
    """
    best, again = module, True
    while again and patience > 0:
        again = False
        for candidate in _candidates(best):
            if _size(candidate) >= _size(best) or not _valid(candidate):
                continue
            patience -= 1
            if still(candidate):
                best, again = candidate, True
                break
            if patience <= 0:
                break
    return best


def _size(module: Module) -> tuple[int, int]:
    """Instructions that compute something, then all."""
    rest = [i for i in module.instructions() if i.opcode not in ("parameter", "constant")]
    return len(rest), sum(1 for _ in module.instructions())


def _valid(module: Module) -> bool:
    try:
        verify(module)
    except HloError:
        return False
    return True


def _candidates(module: Module) -> Iterator[Module]:
    """Smaller programs, the boldest first."""
    entry = module.entry
    inside = list(entry.instructions)
    for k in range(len(inside)):
        yield from _edited(module, lambda m, k=k: _return(m, k))
    yield from _edited(module, _inline)
    for c in range(len(module.computations)):
        body = list(module.computations)[c]
        for k in reversed(range(len(body.instructions))):
            for way in (_to_argument, _to_constant, _to_operand):
                yield from _edited(module, lambda m, c=c, k=k, way=way: way(m, c, k))
        if body.is_entry and body.root.opcode == "tuple":
            for part in range(len(body.root.operands)):
                yield from _edited(module, lambda m, part=part: _drop_result(m, part))


def _edited(module: Module, edit: Callable[[Module], bool]) -> Iterator[Module]:
    try:
        made = copy_module(module)
        aliased = made.input_output_alias is not None
        made.schedule = made.input_output_alias = None
        if not edit(made):
            return
        made.entry_layout = None
        pass_named("dce").run(made)
        _renumbered(made.entry)
        if aliased:
            with_aliases(made)
        yield parse_module(show_module(made, WHOLE))
    except Exception:  # what cannot be edited so is left as it is
        return


def _at(module: Module, c: int, k: int) -> tuple[Computation, Instruction]:
    body = list(module.computations)[c]
    return body, list(body.instructions)[k]


def _return(module: Module, k: int) -> bool:
    i = list(module.entry.instructions)[k]
    if i is module.entry.root or i.opcode in ("parameter", "constant"):
        return False
    if i.shape.is_token:
        return False
    module.entry.root = i
    return True


def _inline(module: Module) -> bool:
    return bool(pass_named("call-inliner").run(module).changed)


def _plain(i: Instruction) -> bool:
    return i.shape.is_array and i.opcode not in ("parameter", "constant")


def _to_argument(module: Module, c: int, k: int) -> bool:
    body, i = _at(module, c, k)
    if not body.is_entry or not _plain(i):
        return False
    number = len(body.parameters)
    new = body.add("parameter", shape=i.shape, number=number, name=f"q{number}")
    body.replace(i, new)
    return True


def _to_constant(module: Module, c: int, k: int) -> bool:
    body, i = _at(module, c, k)
    if not _plain(i) or i.shape.size > MOST_CONSTANT_ELEMENTS or body.is_fusion:
        return False
    value = np.ones(i.shape.dims, np.float32).astype(i.shape.dtype.numpy)
    new = body.add("constant", shape=i.shape, literal=Literal.of(value, i.shape))
    body.replace(i, new)
    return True


def _to_operand(module: Module, c: int, k: int) -> bool:
    body, i = _at(module, c, k)
    for x in i.operands:
        if x.shape is i.shape and i.opcode != "parameter":
            body.replace(i, x)
            return True
    return False


def _drop_result(module: Module, part: int) -> bool:
    root = module.entry.root
    rest = [x for k, x in enumerate(root.operands) if k != part]
    if not rest:
        return False
    module.entry.root = rest[0] if len(rest) == 1 else module.entry.add("tuple", *rest)
    return True


def _renumbered(entry: Computation) -> None:
    """Arguments nobody reads are gone; the others count from 0."""
    for p in list(entry.parameters):
        if not p.users and p is not entry.root:
            entry.erase(p)
    for number, p in enumerate(entry.parameters):
        p.attrs = type(p.attrs)(**{**_fields(p), "number": number})


def _fields(p: Instruction) -> dict[str, object]:
    return {name: getattr(p.attrs, name) for name in type(p.attrs).__dataclass_fields__}
