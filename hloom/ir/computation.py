"""A computation: a pure function of its parameters, as a graph of instructions."""

from __future__ import annotations

import re
from bisect import insort
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hloom.base.diagnostics import GraphError
from hloom.ir.instruction import NOTHING, Instruction
from hloom.ir.op import OPS, ShapeError
from hloom.types.shape import ProgramShape, Shape

if TYPE_CHECKING:
    from hloom.ir.module import Module

_SUFFIX = re.compile(r"\.\d+$")
MAIN_THREAD = "main"


class Computation:
    """Parameters in, `root` out.

    `instructions` is an ordered set in program order: appended order, which after edits need not
    be topological (`in_order` is; it remembers what it found until `forget_order`, which every
    method calls that could change it). `callers` maps each calling instruction to how many times it
    names this computation; it is kept true by every editing method.
    """

    __slots__ = (
        "_next_suffix",
        "_order",
        "_root",
        "backend_config",
        "callers",
        "execution_thread",
        "id",
        "instructions",
        "is_sorted",
        "module",
        "name",
        "names",
        "parameters",
    )

    def __init__(self, name: str, module: Module | None = None) -> None:
        self.name = name
        self.module = module
        self.id = -1
        self.instructions: dict[Instruction, None] = {}
        self.is_sorted = True
        self._order: list[Instruction] | None = None
        """The post order that `in_order` found, where program order is not topological."""
        self.names: dict[str, Instruction] = {}
        self.parameters: list[Instruction] = []
        self.callers: dict[Instruction, int] = {}
        self.execution_thread = MAIN_THREAD
        self.backend_config: Any = None
        self._root: Instruction | None = None
        self._next_suffix: dict[str, int] = {}

    # -- reading ---------------------------------------------------------------------------

    @property
    def root(self) -> Instruction:
        """The value the computation returns."""
        if self._root is None:
            raise GraphError(f"computation %{self.name} has no root")
        return self._root

    @root.setter
    def root(self, value: Instruction) -> None:
        if value.parent is not self:
            raise GraphError(f"%{value.name} is not in computation %{self.name}")
        self._root = value

    @property
    def is_entry(self) -> bool:
        return self.module is not None and self.module.entry_or_none is self

    @property
    def is_fusion(self) -> bool:
        """Whether it is the body of a fusion."""
        return any(i.opcode == "fusion" for i in self.callers)

    @property
    def program_shape(self) -> ProgramShape:
        return ProgramShape(
            tuple(p.shape for p in self.parameters),
            tuple(p.name for p in self.parameters),
            self.root.shape,
        )

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def __len__(self) -> int:
        return len(self.instructions)

    def __getitem__(self, name: str) -> Instruction:
        """The instruction of this name, with or without `%`."""
        return self.names[name.removeprefix("%")]

    def __repr__(self) -> str:
        return f"<computation %{self.name}, {len(self.instructions)} instructions>"

    def __str__(self) -> str:
        from hloom.ir.text.show import show_computation

        return show_computation(self)

    def in_order(self) -> list[Instruction]:
        """Every instruction, operands and control predecessors before readers.

        Program order when that is already topological (no work is done then but one scan, after
        an edit), else a stable depth-first post order. A cycle raises `GraphError` naming an
        instruction on it.
        """
        if self.is_sorted:
            return list(self.instructions)
        if self._order is not None:
            return list(self._order)
        seen: set[Instruction] = set()
        holds, add = seen.issuperset, seen.add
        for i in self.instructions:
            if (i.operands and not holds(i.operands)) or (
                i.control_predecessors and not holds(i.control_predecessors)
            ):
                self._order = self._post_order()
                return list(self._order)
            add(i)
        self.is_sorted = True
        return list(self.instructions)

    def forget_order(self) -> None:
        """Look for an order again: what must run before what has changed."""
        self.is_sorted, self._order = False, None

    def _post_order(self) -> list[Instruction]:
        done: dict[Instruction, None] = {}
        open_: set[Instruction] = set()
        for start in self.instructions:
            if start in done:
                continue
            stack = [start]
            while stack:
                i = stack[-1]
                if i in done:
                    stack.pop()
                    continue
                before = i.operands
                if i.control_predecessors:
                    before = i.control_predecessors + before
                waiting = [x for x in before if x not in done]
                if not waiting:
                    open_.discard(i)
                    done[i] = None
                    stack.pop()
                    continue
                if i in open_:
                    raise GraphError(f"%{i.name} in computation %{self.name} depends on itself")
                open_.add(i)
                stack.extend(reversed(waiting))
        return list(done)

    # -- editing ---------------------------------------------------------------------------

    def unique_name(self, base: str) -> str:
        """`wanted`, or it with the first free `.N` behind it."""
        names = self.names
        if base not in names:
            return base
        stem = _SUFFIX.sub("", base)
        n = self._next_suffix.get(stem, 0)
        while True:
            n += 1
            name = f"{stem}.{n}"
            if name not in names:
                self._next_suffix[stem] = n
                return name

    def add(
        self,
        opcode: str,
        *operands: Instruction,
        name: str | None = None,
        shape: Shape | None = None,
        called: tuple[Computation, ...] = NOTHING,
        **attributes: Any,
    ) -> Instruction:
        """Append an instruction of this opcode and return it.

        The shape is inferred, and must be given where it cannot be. Raises `ShapeError` when a
        rule is broken, `TypeError` for a missing or unknown attribute.
        """
        op = OPS[opcode]
        if not attributes and op.empty is not None:
            attrs = op.empty
        else:
            attrs = op.attrs(**attributes)
        shapes = tuple([x.shape for x in operands])
        signatures = tuple([c.program_shape for c in called]) if called else NOTHING
        if shape is None:
            if not op.infers:
                raise ShapeError(
                    f"the shape of {opcode} does not follow from its operands: give it"
                )
            shape = op.infer(attrs, shapes, signatures).with_default_layouts()
        elif not op.infers:
            op.check(attrs, shape, shapes, signatures)
        return self.append(opcode, attrs, operands, shape, name, called)

    def append(
        self,
        opcode: str,
        attrs: Any,
        operands: tuple[Instruction, ...],
        shape: Shape,
        name: str | None = None,
        called: tuple[Computation, ...] = NOTHING,
        id: int | None = None,
    ) -> Instruction:
        """Append an instruction without inferring or checking anything: for readers and rules
        that know the shape. The name is made unique."""
        if id is None:
            id = self.module.new_id() if self.module is not None else len(self.instructions)
        name = self.unique_name(opcode if name is None else name)
        instruction = Instruction(id, name, opcode, attrs, operands, shape, self, called)
        self.names[name] = instruction
        self.instructions[instruction] = None
        if self._order is not None:
            self._order.append(instruction)
        for x in operands:
            x.users[instruction] = None
        for c in called:
            c.callers[instruction] = c.callers.get(instruction, 0) + 1
        if opcode == "parameter":
            self._place_parameter(instruction)
        return instruction

    def _place_parameter(self, parameter: Instruction) -> None:
        insort(self.parameters, parameter, key=lambda p: p.attrs.number)

    def rename(self, i: Instruction, base: str) -> None:
        """Give an instruction a name, made unique."""
        del self.names[i.name]
        i.name = self.unique_name(base)
        self.names[i.name] = i

    def replace(self, old: Instruction, new: Instruction) -> list[Instruction]:
        """Make every reader of `old` (and the root) use `new`; return those readers.

        `old` stays, unread. Control edges stay with `old`.
        """
        if old is new:
            return []
        readers = list(old.users)
        new_users = new.users
        if readers:
            self.forget_order()
        for reader in readers:
            reader.operands = tuple([new if x is old else x for x in reader.operands])
            new_users[reader] = None
        old.users.clear()
        if self._root is old:
            self._root = new
        return readers

    def replace_all(self, new_for_old: Mapping[Instruction, Instruction]) -> None:
        """`replace` for many at once, none of which is new for another: a reader of many of them
        gets its operands once (a tuple of n results took n times n before)."""
        readers: dict[Instruction, None] = {}
        for old, new in new_for_old.items():
            readers.update(old.users)
            new.users.update(old.users)
            old.users.clear()
            if self._root is old:
                self._root = new
        for reader in readers:
            reader.operands = tuple([new_for_old.get(x, x) for x in reader.operands])
        if readers:
            self.forget_order()

    def erase(self, dead: Instruction) -> tuple[Instruction, ...]:
        """Remove an unread instruction that is not the root; return the operands it released."""
        if dead.users or dead is self._root:
            raise GraphError(f"%{dead.name} is still in use")
        if dead.control_predecessors or dead.control_successors:
            dead.drop_control_edges()
        del self.instructions[dead]
        self._order = None
        del self.names[dead.name]
        for x in dead.operands:
            x.users.pop(dead, None)
        for c in dead.called:
            c.forget_caller(dead)
        if dead.opcode == "parameter":
            self.parameters.remove(dead)
        return dead.operands

    def forget_caller(self, caller: Instruction) -> None:
        """One call less from this instruction."""
        count = self.callers.get(caller, 0) - 1
        if count > 0:
            self.callers[caller] = count
        else:
            self.callers.pop(caller, None)

    def reorder(self, order: Iterable[Instruction]) -> None:
        """Make this the program order; it must hold exactly the present instructions."""
        reordered = dict.fromkeys(order)
        if reordered.keys() != self.instructions.keys():
            raise GraphError(f"the new order of %{self.name} has other instructions")
        self.instructions = reordered
        self.forget_order()

    def sort(self) -> None:
        """Make `in_order` the program order."""
        order = self.in_order()
        if not self.is_sorted:
            self.reorder(order)
            self.is_sorted = True
