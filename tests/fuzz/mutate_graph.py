"""Breaks graphs behind the parser: edits of shapes, attributes, operands, calls, orders, headers.

What no text can say can still be built by a pass or through the API, so the verifier meets it. An
edit works in place and may make the graph as wrong as it likes; only Python's types are kept: an
attribute that is a tuple of integers stays one.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

from hloom.base.diagnostics import HloError
from hloom.ir.instruction import Instruction
from hloom.ir.kinds import Dims
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.types.shape import Shape
from tests.fuzz.odd_values import HUGE, NAMES, SMALL, TYPES, odd_integer, odd_shape, odd_value


def mutate(module: Module, rng: random.Random) -> list[str]:
    """One to three edits in place; their names, for whoever looks at what broke."""
    made: list[str] = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        edit = rng.choice(EDITS)
        try:
            edit(module, rng)
        except (HloError, ValueError, TypeError, AttributeError, IndexError, KeyError) as error:
            # The API itself refused to build this; the next edit may fare better.
            made.append(f"{edit.__name__} refused: {type(error).__name__}")
            continue
        made.append(edit.__name__)
    return made


# -- what an edit works on


def some_instruction(module: Module, rng: random.Random) -> Instruction:
    """One of the entry as often as one of any other computation."""
    c = module.entry if rng.random() < 0.5 else rng.choice(list(module.computations))
    inside = list(c.instructions)
    rare = [i for i in inside if i.opcode not in ("parameter", "constant", "tuple")]
    return rng.choice(rare if rare and rng.random() < 0.6 else inside)


def change_shape(module: Module, rng: random.Random) -> None:
    i = some_instruction(module, rng)
    i.shape = odd_shape(i.shape, rng)


def change_shape_everywhere(module: Module, rng: random.Random) -> None:
    """A parameter and the entry layout alike, so that more than the header is wrong."""
    p = rng.choice(module.entry.parameters)
    p.shape = odd_shape(p.shape, rng)
    module.entry_layout = None


def rename_type_everywhere(module: Module, rng: random.Random) -> None:
    """One element type becomes another in the whole module, which often stays legal."""
    old = some_instruction(module, rng).shape
    new = rng.choice(TYPES)
    for i in module.instructions():
        if i.opcode != "constant":
            i.shape = i.shape.map_leaves(lambda s: s.with_dtype(new) if s.dtype is old.dtype else s)
    module.entry_layout = None


def resize_everywhere(module: Module, rng: random.Random) -> None:
    """One size becomes another in the whole module."""
    sizes = [d for i in module.instructions() for d in i.shape.dims]
    old = rng.choice(sizes)
    new = rng.choice((0, 1, 2, old + 1, 1000, *HUGE))

    def resized(s: Shape) -> Shape:
        return s.with_dims([new if d == old else d for d in s.dims], s.dynamic)

    for i in module.instructions():
        if i.opcode != "constant":
            i.shape = i.shape.map_leaves(resized)
    module.entry_layout = None


def change_attribute(module: Module, rng: random.Random) -> None:
    i = some_instruction(module, rng)
    names = [f.name for f in i.op.fields]
    if names:
        name = rng.choice(names)
        old = getattr(i.attrs, name)
        value = (
            (rng.choice(SMALL),)
            if old == () and i.op.field_by_name[name].kind is Dims
            else (odd_value(old, rng))
        )
        i.attrs = dataclasses.replace(i.attrs, **{name: value})


def change_opcode(module: Module, rng: random.Random) -> None:
    """Another opcode with the same attributes, or with none of its own."""
    i = some_instruction(module, rng)
    fit = [op for op in OPS.values() if op.attrs is i.op.attrs or op.empty is not None]
    op = rng.choice(fit)
    i.opcode, i.attrs = op.name, op.empty if op.empty is not None else i.attrs


def replace_operand(module: Module, rng: random.Random) -> None:
    """Any value of the computation, so that cycles come as well."""
    i = some_instruction(module, rng)
    operands = list(i.operands)
    others = list(i.parent.instructions)
    operands[rng.randrange(len(operands))] = rng.choice(others)
    i.set_operands(tuple(operands))


def replace_all_uses(module: Module, rng: random.Random) -> None:
    i = some_instruction(module, rng)
    i.parent.replace(i, rng.choice(list(i.parent.instructions)))


def change_operands(module: Module, rng: random.Random) -> None:
    i = some_instruction(module, rng)
    i.set_operands(odd_operands(i.operands, rng))


def odd_operands(old: tuple[Instruction, ...], rng: random.Random) -> tuple[Instruction, ...]:
    parts = list(old)
    kind = rng.random()
    if kind < 0.4:
        rng.shuffle(parts)
    elif kind < 0.6:
        del parts[rng.randrange(len(parts))]
    else:
        parts.insert(rng.randrange(len(parts) + 1), rng.choice(parts))
    return tuple(parts)


def steal_operand(module: Module, rng: random.Random) -> None:
    """A value of another computation."""
    i, other = some_instruction(module, rng), some_instruction(module, rng)
    i.set_operands((*i.operands[1:], other))


def change_called(module: Module, rng: random.Random) -> None:
    """Another computation of any signature, itself included; or one more, or one less."""
    callers = [i for i in module.instructions() if i.called]
    i = rng.choice(callers)
    called = list(i.called)
    kind = rng.random()
    if kind < 0.7:
        called[rng.randrange(len(called))] = rng.choice(list(module.computations))
    elif kind < 0.85:
        called.append(called[0])
    else:
        called.pop()
    i.set_called(tuple(called))


def change_root(module: Module, rng: random.Random) -> None:
    c = rng.choice(list(module.computations))
    c.root = rng.choice(list(c.instructions))
    if rng.random() < 0.7:
        module.entry_layout = None


def renumber_parameter(module: Module, rng: random.Random) -> None:
    c = rng.choice(list(module.computations))
    p = rng.choice(c.parameters)
    p.attrs = dataclasses.replace(p.attrs, number=odd_integer(p.attrs.number, rng))


def swap_parameters(module: Module, rng: random.Random) -> None:
    c = rng.choice(list(module.computations))
    a, b = rng.choice(c.parameters), rng.choice(c.parameters)
    a.attrs, b.attrs = b.attrs, a.attrs
    c.parameters.sort(key=lambda p: p.attrs.number)
    module.entry_layout = None


def remove_instruction(module: Module, rng: random.Random) -> None:
    """Whether or not it is read."""
    i = some_instruction(module, rng)
    for x in i.operands:
        x.users.pop(i, None)
    del i.parent.instructions[i]
    if rng.random() < 0.8:
        i.parent.names.pop(i.name, None)
        if i in i.parent.parameters:
            i.parent.parameters.remove(i)


def add_control(module: Module, rng: random.Random) -> None:
    i = some_instruction(module, rng)
    before = rng.choice(list(i.parent.instructions))
    i.add_control_predecessor(before)
    if rng.random() < 0.1:
        before.control_successors = ()


def break_tables(module: Module, rng: random.Random) -> None:
    """Users, callers, owners and names that are not true."""
    i = some_instruction(module, rng)
    kind = rng.randrange(6)
    if kind == 0:
        i.users.clear()
    elif kind == 1:
        i.users[some_instruction(module, rng)] = None
    elif kind == 2:
        i.parent.callers[i] = 1
    elif kind == 3:
        i.parent = rng.choice(list(module.computations))
    elif kind == 4:
        i.name = rng.choice(NAMES)
    else:
        i.parent.rename(i, rng.choice(("x", "p0", "a.1", "add")))


def change_schedule(module: Module, rng: random.Random) -> None:
    if module.schedule is None:
        module.schedule = {c: c.in_order() for c in module.computations}
        if rng.random() < 0.5:
            return
    c = rng.choice(list(module.schedule))
    order = module.schedule[c]
    kind = rng.randrange(5)
    if kind == 0:
        del order[rng.randrange(len(order))]
    elif kind == 1:
        rng.shuffle(order)
    elif kind == 2:
        order.append(rng.choice(order))
    elif kind == 3:
        order[0] = some_instruction(module, rng)
    else:
        del module.schedule[c]


def change_header(module: Module, rng: random.Random) -> None:
    """Aliases, donors, layouts, counts: whatever the module itself says."""
    from hloom.ir.values.aliasing import AliasEntry, BufferDonors, InputOutputAlias

    kind = rng.randrange(6)
    if kind == 0:
        index = rng.choice(((), (0,), (1,), (0, 0), (-1,)))
        entry = AliasEntry(index, rng.choice((0, 1, -1, 99)), rng.choice(((), (0,))))
        module.input_output_alias = InputOutputAlias((entry,) * rng.choice((1, 2)))
    elif kind == 1:
        module.buffer_donors = BufferDonors(((rng.choice((0, 1, -1, 99)), ()),))
    elif kind == 2:
        module.replica_count = odd_integer(module.replica_count, rng)
    elif kind == 3:
        module.num_partitions = odd_integer(module.num_partitions, rng)
    elif kind == 4:
        given = module.entry_layout or module.entry.program_shape
        parts = tuple(odd_shape(s, rng) for s in given.parameters)
        module.entry_layout = dataclasses.replace(given, parameters=parts)
    else:
        module.entry = rng.choice(list(module.computations))


def add_sharding(module: Module, rng: random.Random) -> None:
    from hloom.ir.text.cursor import Cursor
    from hloom.ir.values.sharding import parse_sharding

    i = some_instruction(module, rng)
    i.sharding = parse_sharding(Cursor(rng.choice(SHARDINGS)))
    if rng.random() < 0.3:
        i.sharding = odd_value(i.sharding, rng)


SHARDINGS = (
    "{replicated}",
    "{maximal device=7}",
    "{devices=[2,2]<=[4]}",
    "{devices=[1]0}",
    "{devices=[2,2,2]<=[8] last_tile_dim_replicate}",
    "{{replicated}, {maximal device=0}}",
    "{manual}",
)

EDITS: tuple[Callable[[Module, random.Random], None], ...] = (
    *(change_shape, change_attribute, change_attribute, change_attribute, change_attribute),
    *(replace_operand, replace_operand, change_operands, change_root, change_called),
    *(change_shape_everywhere, rename_type_everywhere, resize_everywhere, change_opcode),
    *(replace_all_uses, steal_operand, renumber_parameter, swap_parameters, remove_instruction),
    *(add_control, break_tables, change_schedule, change_header, add_sharding),
)
