"""What a program says of memory spaces, taken out of its shapes before passes, put back after.

`S(n)` in a layout says where a value lives. Passes rewrite values, and would have to keep what is
said of each; so `take_spaces` turns it into moves that no pass looks into (custom calls,
`analysis/alias_spaces.py`), and into what it says of the caller's arrays. Buffer assignment finds
out where everything is, and `tell_spaces` writes that into the shapes.

A move stands where

* something is computed whose layout has a space;
* a copy leads from one space into another, one to the default space too; one in two halves stays so
  where an engine of the device makes it;
* a custom call asks for it: MoveToHost, MoveToDevice, annotate_device_placement.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from hloom.analysis.alias_spaces import MOVE, NO_SPACES, EntrySpaces, moved_to
from hloom.base.diagnostics import HloError, UsageError
from hloom.device.device import Device
from hloom.device.timing import copy_engine
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS, opcodes_where
from hloom.ir.traits import ASYNC, CONTROL_FLOW, FORWARDS, PLUMBING
from hloom.ir.values.backend_config import BackendConfig
from hloom.memory.flat import laid_out
from hloom.plan.buffer_assignment import BufferAssignment, SliceTree
from hloom.program.slice import BufferSlice
from hloom.types.memory_space import DEFAULT_MEMORY_SPACE, HOST_MEMORY_SPACE
from hloom.types.shape import Shape, tuple_shape
from hloom.types.sizes import packed_bits

HANDED_ON = opcodes_where(
    lambda op: (
        op.name == "bitcast"
        or (
            bool(op.traits & {PLUMBING, CONTROL_FLOW, FORWARDS, ASYNC})
            and op.done_of is None
            and op.name != "constant"
        )
    )
)
"""What these give is where their operands are, or their caller has it. Asynchronous operations
give their result when they are done."""
PLACEMENTS = {"pinned_host": HOST_MEMORY_SPACE, "unpinned_host": 6, "device": DEFAULT_MEMORY_SPACE}
"""Kinds of memory that JAX names, by the numbers that layouts have for them."""
_CALLS = {"MoveToHost": HOST_MEMORY_SPACE, "MoveToDevice": DEFAULT_MEMORY_SPACE}


def forget_foreign_spaces(module: Module, device: Device) -> dict[int, Instruction]:
    """Take the spaces that a device lacks out of a module that was written for another machine, so
    that their values are in its default memory. Each such space, and who first spoke of it.
    """
    here = {space.id for space in device.memory_spaces}
    foreign = {s: i for s, i in _named_spaces(module).items() if s not in here}
    if foreign:
        for i in module.instructions():
            i.shape = _plain(i.shape, foreign)
        _map_entry_layout(module, lambda s: _plain(s, foreign))
    return foreign


def take_spaces(module: Module, device: Device) -> EntrySpaces:
    """Turn what shapes say of memory spaces into moves; the spaces of the caller's arrays.

    Raises `HloError` for a space that the device does not have.
    """
    by_space = _named_spaces(module)
    for i in module.instructions():
        if i.opcode == "copy-start":
            i.backend_config = None  # a space will stand there
    if not by_space and not _requests_space(module):
        return NO_SPACES
    for space, i in by_space.items():
        _check_space(device, space, i)
    entry = _entry_spaces(module)
    for space in {*entry.parameters.values(), *entry.results.values()}:
        _check_space(device, space, module.entry.root)
    walked = laid_out(module)
    for c in walked:
        for i in list(c.in_order()):
            _take(c, i, device)
    for c in module.computations:
        for i in c.instructions:
            i.shape = _plain(i.shape)
    _map_entry_layout(module, _plain)
    return entry


def _map_entry_layout(module: Module, one: Callable[[Shape], Shape]) -> None:
    if (layout := module.entry_layout) is not None:
        parts = tuple([one(s) for s in layout.parameters])
        module.entry_layout = replace(layout, parameters=parts, result=one(layout.result))


def tell_spaces(module: Module, assignment: BufferAssignment) -> None:
    """Write where values are into their shapes, and moves as copies, for those who look."""
    if not any(a.space for a in assignment.allocations):
        return
    for i, tree in assignment.trees.items():
        i.shape = _placed(i.shape, tree)
        if moved_to(i) is None:
            continue
        i.backend_config = None
        if i.opcode == "custom-call":
            i.opcode, i.attrs = "copy", OPS["copy"].empty
    if module.entry_layout is not None:
        parameters = [p.shape for p in module.entry.parameters]
        result = module.entry.root.shape
        module.entry_layout = replace(
            module.entry_layout, parameters=tuple(parameters), result=result
        )


def _named_spaces(module: Module) -> dict[int, Instruction]:
    """Each space that a shape speaks of, and who does first."""
    by_space: dict[int, Instruction] = {}
    known: set[Shape] = set()
    for i in module.instructions():
        if i.shape in known:
            continue
        known.add(i.shape)
        for space in _spaces(i.shape):
            by_space.setdefault(space, i)
    if module.entry_layout is not None:
        for s in (*module.entry_layout.parameters, module.entry_layout.result):
            for space in _spaces(s):
                by_space.setdefault(space, module.entry.root)
    return by_space


def _spaces(s: Shape) -> Iterable[int]:
    """The spaces other than the default one that a shape speaks of."""
    if s.is_array:
        return (s.layout.memory_space,) if s.layout and s.layout.memory_space else ()
    if not s.elements:
        return ()
    return [x for leaf in s.leaves() if leaf.is_array for x in _spaces(leaf)]


def _requests_space(module: Module) -> bool:
    """Whether a custom call asks for a space."""
    return any(
        i.opcode == "custom-call" and _requested_space(i) is not None for i in module.instructions()
    )


def _requested_space(i: Instruction) -> int | None:
    """The space that a custom call asks its operand to be in."""
    target = i.attrs.custom_call_target
    if len(i.operands) != 1 or not i.shape.is_array or not i.operands[0].shape.is_array:
        return None
    if target != "annotate_device_placement":
        return _CALLS.get(target)
    pairs = dict(i.frontend_attributes.pairs) if i.frontend_attributes else {}
    return PLACEMENTS.get(pairs.get("_xla_buffer_placement", ""))


def _check_space(device: Device, space: int, i: Instruction) -> None:
    try:
        device.memory_space(space)
    except UsageError as error:
        error.instruction = f"%{i.parent.name}/%{i.name}"
        error.hint = f"{error.hint}; compile for a device with that space, or leave S({space}) out"
        raise


def _entry_spaces(module: Module) -> EntrySpaces:
    """Where the caller's arrays are: what the layout of the entry says, else the shapes."""
    spaces_ = EntrySpaces()
    layout = module.entry_layout
    for p in module.entry.parameters:
        shapes = [p.shape] if layout is None else [layout.parameters[p.attrs.number], p.shape]
        for s in shapes:
            for index, space in _leaf_spaces(s):
                spaces_.parameters.setdefault((p.attrs.number, index), space)
    shapes = (
        [module.entry.root.shape] if layout is None else [layout.result, module.entry.root.shape]
    )
    for s in shapes:
        for index, space in _leaf_spaces(s):
            spaces_.results.setdefault(index, space)
    for e in module.input_output_alias.entries if module.input_output_alias else ():
        one = spaces_.parameters.get((e.parameter_number, e.parameter_shape_index), 0)
        other = spaces_.results.get(e.output_shape_index, 0)
        if one != other:
            raise HloError(
                f"parameter {e.parameter_number} is in S({one}), and is to be returned as output "
                f"{list(e.output_shape_index)}, which is in S({other})",
                rule="memory-space",
                hint="an array that is returned in place stays in its memory space",
            )
    return spaces_


def _leaf_spaces(s: Shape) -> list[tuple[tuple[int, ...], int]]:
    return [
        (index, leaf.layout.memory_space)
        for index, leaf in s.subshapes()
        if leaf.is_array and leaf.layout is not None and leaf.layout.memory_space
    ]


# -- moves


def _take(c: Computation, i: Instruction, device: Device) -> None:
    """Put the moves behind an instruction that its shape, or what it does, asks for."""
    if i.opcode == "custom-call" and (space := _requested_space(i)) is not None:
        _check_space(device, space, i)
        _replace(c, i, i.operands[0], space)
        return
    if i.opcode in HANDED_ON:
        return
    spaces = dict(_leaf_spaces(i.shape))
    if i.opcode in ("copy", "copy-done"):
        source = i.operands[0].shape
        source = source.elements[1] if i.opcode == "copy-done" else source
        before = dict(_leaf_spaces(source))
        spaces = {**dict.fromkeys(before, 0), **spaces}
        if spaces == before:
            return
    if spaces and i.opcode in ("copy", "copy-done") and i.shape.is_array:
        source = i.operands[0]
        source = source.operands[0] if i.opcode == "copy-done" else source
        if source.shape.same(i.shape, ignore_memory_space=True):
            if i.opcode == "copy-done" and _has_engine(device, i, before.get((), 0), spaces[()]):
                i.operands[0].backend_config = BackendConfig(str(spaces[()]))
            else:
                _replace(c, i, source, spaces[()])
            return
    if spaces:
        users = list(i.users)
        is_root = c.root is i
        moved = _with_moves(c, i, i.shape, (), spaces)
        for u in users:
            u.replace_operand(i, moved)
        if is_root:
            c.root = moved


def _has_engine(device: Device, done: Instruction, source: int, target: int) -> bool:
    """Whether an engine copies beside the kernels what a start and its done copy, as it is."""
    start, s = done.operands[0], done.shape
    is_plain = not s.is_dynamic and not packed_bits(s) and _in_order(s) == s
    is_pair = start.opcode == "copy-start" and list(start.users) == [done] and not start.is_root
    return is_plain and is_pair and copy_engine(device, source, target) is not None


def _replace(c: Computation, i: Instruction, x: Instruction, space: int) -> None:
    """Let a move of x stand for an instruction, with its name."""
    name = i.name
    moved = _moved(c, x, space, i)
    c.replace(i, moved)
    c.erase(i)
    c.rename(moved, name)


def _with_moves(
    c: Computation,
    x: Instruction,
    s: Shape,
    index: tuple[int, ...],
    spaces: dict[tuple[int, ...], int],
) -> Instruction:
    """The value with some of its arrays moved."""
    if s.is_tuple:
        if not any(where[: len(index)] == index for where in spaces):
            return x
        parts = []
        for k, part in enumerate(s.elements):
            element = c.add("get-tuple-element", x, index=k)
            element.shape = part
            parts.append(_with_moves(c, element, part, (*index, k), spaces))
        tuple_ = c.add("tuple", *parts)
        tuple_.shape = s
        return tuple_
    return _moved(c, x, spaces[index], x) if index in spaces else x


def _moved(c: Computation, x: Instruction, space: int, site: Instruction) -> Instruction:
    """A move of an array to a memory space."""
    if x.shape.is_dynamic:
        raise HloError(
            f"{x.shape.text_without_layout} has run-time size, and is to be in S({space})",
            instruction=f"%{c.name}/%{site.name}",
            rule="memory-space",
            hint="arrays of run-time size are in the default memory space: leave it out",
        )
    copy = c.add(
        "custom-call",
        x,
        custom_call_target=MOVE,
        shape=_with_space(x.shape.bare.with_default_layouts(), space),
        name=f"{site.name}.S{space}",
    )
    copy.backend_config = BackendConfig(str(space))
    copy.metadata = site.metadata
    return copy


# -- shapes


def _in_order(s: Shape) -> Shape:
    """The array row-major, in the space where it is."""
    space = s.layout.memory_space if s.layout else 0
    return _with_space(s.bare.with_default_layouts(), space)


def _plain(s: Shape, of: Collection[int] | None = None) -> Shape:
    """The shape without memory spaces, or without those."""
    if not any(of is None or space in of for space in _spaces(s)):
        return s
    if s.is_tuple:
        return tuple_shape([_plain(part, of) for part in s.elements])
    return _with_space(s, DEFAULT_MEMORY_SPACE)


def _with_space(s: Shape, space: int) -> Shape:
    """An array in a memory space."""
    if s.layout is None or s.layout.memory_space == space:
        return s
    return s.with_layout(s.layout.replace(memory_space=space))


def _placed(s: Shape, tree: SliceTree) -> Shape:
    """The shape with the spaces of the allocations that its arrays are in."""
    if isinstance(tree, BufferSlice):
        return _with_space(s.with_default_layouts(), tree.allocation.space)
    if tree is None or not s.is_tuple:
        return s
    return tuple_shape([_placed(part, inner) for part, inner in zip(s.elements, tree)])
