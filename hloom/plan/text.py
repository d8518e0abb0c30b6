"""The text of a buffer assignment, both ways.

    allocation 0: parameter 36 bytes, number 0 {}, donated, output {1}
    allocation 1: constant 4 bytes, hex 0000803f
    allocation 2: temp 128 bytes
    allocation 3: temp 64 bytes in S(1)
    %main/%add{}: 2 [64:100] alive [12,20) [30,35) "in the buffer of %x"
    live 128

One line for each allocation and each value, in order. The slices of what only stands for other
values (tuples, loop results) are lines that begin with `at`.
"""

from __future__ import annotations

import re
from typing import Any

from hloom.base.diagnostics import UsageError
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.plan.buffer_assignment import AssignedValue, BufferAssignment, Index, SliceTree
from hloom.program.slice import Allocation, BufferSlice

_ALLOCATION = re.compile(
    r"allocation (\d+): (parameter|constant|output|temp) (\d+) bytes"
    r"(?: in S\((\d+)\))?"
    r"(?:, number (\d+))?(?: \{([\d,]*)\})?(, donated)?(?:, output \{([\d,]*)\})?"
    r"(?:, hex ([0-9a-f]*))?"
)
_VALUE = re.compile(
    r"%([^/]+)/%(\S+?)\{([\d,]*)\}: (\d+) \[(\d+):(\d+)\] alive((?: \S+)*?) "
    r'"(.*)"(?: in S\((\d+)\))?'
)
_AT = re.compile(r"at %([^/]+)/%(\S+): (.*)")
_INTERVAL = re.compile(r"\[(\d+),(\d+)\)")
_TOKEN = re.compile(r"[()]|-|(\d+)\[(\d+):(\d+)\]")


def show_buffer_assignment(assignment: BufferAssignment) -> str:
    """The text of an assignment."""
    lines = [_show_allocation(a) for a in assignment.allocations]
    for v in assignment.values:
        i, assigned = v.instruction, v.slice
        alive = "".join(f" [{start},{end})" for start, end in v.alive)
        where = f"{assigned.allocation.index} [{assigned.offset}:{assigned.end}]"
        name = f"%{i.parent.name}/%{i.name}{_braced(v.index)}"
        space = f" in S({v.space})" if v.space else ""
        lines.append(f'{name}: {where} alive{alive} "{v.note}"{space}')
    for i, tree in assignment.trees.items():
        lines.append(f"at %{i.parent.name}/%{i.name}: {_show_tree(tree)}")
    lines.append(f"live {assignment.live_bytes}")
    return "\n".join(lines) + "\n"


def parse_buffer_assignment(text: str, module: Module) -> BufferAssignment:
    """The buffer assignment that a text describes; `UsageError` names the line that is wrong."""
    allocations: list[Allocation] = []
    values: list[AssignedValue] = []
    trees: dict[Instruction, SliceTree] = {}
    live = 0
    computations = {c.name: c for c in module.computations}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            if m := _ALLOCATION.fullmatch(line):
                allocations.append(_allocation(m.groups()))
            elif m := _AT.fullmatch(line):
                tokens = [(t[0], t.groups()) for t in _TOKEN.finditer(m[3])]
                trees[computations[m[1]][m[2]]] = _tree(tokens, allocations)
            elif m := _VALUE.fullmatch(line):
                start = int(m[5])
                assigned = BufferSlice(allocations[int(m[4])], start, int(m[6]) - start)
                alive = tuple((int(a), int(b)) for a, b in _INTERVAL.findall(m[7]))
                i = computations[m[1]][m[2]]
                values.append(AssignedValue(i, _index(m[3]), alive, assigned, m[8], int(m[9] or 0)))
            elif line.startswith("live "):
                live = int(line.removeprefix("live "))
            elif line.strip():
                raise ValueError("neither an allocation nor a value")
        except (KeyError, IndexError, ValueError) as error:
            raise UsageError(f"line {number}: {error}: {line[:80]}", rule="plan-text") from None
    return BufferAssignment(allocations, trees, values, live)


def _show_allocation(a: Allocation) -> str:
    line = f"allocation {a.index}: {a.kind} {a.size_bytes} bytes"
    if a.space:
        line += f" in S({a.space})"
    if a.parameter_number is not None:
        line += f", number {a.parameter_number}"
    if a.kind in ("parameter", "output"):
        line += f" {_braced(a.shape_index)}"
    if a.is_donated:
        line += ", donated"
    if a.output_index is not None:
        line += f", output {_braced(a.output_index)}"
    if a.data is not None:
        line += f", hex {a.data.hex()}"
    return line


def _allocation(fields: tuple[Any, ...]) -> Allocation:
    index, kind, size, space, number, shape_index, donated, output, data = fields
    return Allocation(
        int(index),
        int(size),
        kind,
        None if number is None else int(number),
        _index(shape_index or ""),
        None if output is None else _index(output),
        donated is not None,
        None if data is None else bytes.fromhex(data),
        int(space or 0),
    )


def _show_tree(tree: SliceTree) -> str:
    if tree is None:
        return "-"
    if isinstance(tree, BufferSlice):
        return str(tree)
    return "(" + " ".join(map(_show_tree, tree)) + ")"


def _tree(tokens: list[Any], allocations: list[Allocation]) -> SliceTree:
    stack: list[list[SliceTree]] = [[]]
    for token, (index, start, end) in tokens:
        if token == "(":
            stack.append([])
        elif token == ")":
            parts = tuple(stack.pop())
            stack[-1].append(parts)
        elif token == "-":
            stack[-1].append(None)
        else:
            offset = int(start)
            stack[-1].append(BufferSlice(allocations[int(index)], offset, int(end) - offset))
    ((tree,),) = stack
    return tree


def _braced(index: Index) -> str:
    return "{" + ",".join(map(str, index)) + "}"


def _index(text: str) -> Index:
    return tuple(int(k) for k in text.split(",") if k)
