"""One value of a computation: an operation, its attributes and the values it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hloom.base.diagnostics import GraphError
from hloom.ir.op import OPS, OpDef, opcodes, opcodes_where
from hloom.ir.traits import COLLECTIVE, SIDE_EFFECT
from hloom.types.shape import Shape

if TYPE_CHECKING:
    from hloom.ir.computation import Computation

NOTHING: tuple = ()


class Instruction:
    """One value. Made by `Computation.add`, never directly.

    `attrs` is the frozen attribute record of the opcode (`OPS[opcode].attrs`); `called` are the
    computations it calls, in the order of the opcode's declaration. `users` maps each reader to
    None: a set that keeps its order. What few instructions have (statistics, original value,
    parameter replication) lives in `extra`, None when empty.
    """

    __slots__ = (
        "attrs",
        "backend_config",
        "called",
        "control_predecessors",
        "control_successors",
        "extra",
        "frontend_attributes",
        "id",
        "metadata",
        "name",
        "opcode",
        "operands",
        "parent",
        "shape",
        "sharding",
        "users",
    )

    def __init__(
        self,
        id: int,
        name: str,
        opcode: str,
        attrs: Any,
        operands: tuple[Instruction, ...],
        shape: Shape,
        parent: Computation,
        called: tuple[Computation, ...] = NOTHING,
    ) -> None:
        self.id = id
        self.name = name
        self.opcode = opcode
        self.attrs: Any = attrs
        self.operands = operands
        self.shape = shape
        self.users: dict[Instruction, None] = {}
        self.parent = parent
        self.called = called
        self.metadata: Any = None
        self.sharding: Any = None
        self.frontend_attributes: Any = None
        self.backend_config: Any = None
        self.control_predecessors: tuple[Instruction, ...] = NOTHING
        self.control_successors: tuple[Instruction, ...] = NOTHING
        self.extra: dict[str, Any] | None = None

    @property
    def op(self) -> OpDef:
        """The declaration of its opcode."""
        return OPS[self.opcode]

    @property
    def is_root(self) -> bool:
        return self.parent._root is self

    @property
    def has_side_effect(self) -> bool:
        """Whether it does more than compute its value, itself or in what it calls.

        The instruction and the computations it calls, directly or not, decide. A custom call says
        so by an attribute. A collective has one when it constrains layouts, or when it has a
        channel and the module is not partitioned by SPMD, so that other programs may wait for it.
        The halves of asynchronous collectives have one: a lone half is a program error.
        """
        return has_side_effect(self)

    @property
    def has_control_edges(self) -> bool:
        return bool(self.control_predecessors or self.control_successors)

    def add_control_predecessor(self, before: Instruction) -> None:
        """Make `before` run before this; both must be in the same computation."""
        if before.parent is not self.parent:
            raise GraphError(f"control edge from %{before.name} leaves its computation")
        if before not in self.control_predecessors:
            self.control_predecessors += (before,)
            before.control_successors += (self,)
            self.parent.forget_order()

    def remove_control_predecessor(self, before: Instruction) -> None:
        self.control_predecessors = tuple(x for x in self.control_predecessors if x is not before)
        before.control_successors = tuple(x for x in before.control_successors if x is not self)
        self.parent.forget_order()

    def drop_control_edges(self) -> None:
        """Forget every order but that of the data."""
        for before in self.control_predecessors:
            self.remove_control_predecessor(before)
        for after in self.control_successors:
            after.remove_control_predecessor(self)

    def set_operands(self, operands: tuple[Instruction, ...]) -> None:
        """Read these values instead; keeps the users of old and new operands true."""
        for x in self.operands:
            x.users.pop(self, None)
        self.operands = operands
        self.parent.forget_order()
        for x in operands:
            x.users[self] = None

    def replace_operand(self, old: Instruction, new: Instruction) -> None:
        """Read `new` wherever `old` was read."""
        self.set_operands(tuple(new if x is old else x for x in self.operands))

    def set_called(self, called: tuple[Computation, ...]) -> None:
        """Call these computations instead; keeps the callers of old and new ones true."""
        for c in self.called:
            c.forget_caller(self)
        self.called = called
        for c in called:
            c.callers[self] = c.callers.get(self, 0) + 1

    def copy_annotations(self, source: Instruction) -> None:
        """Take over metadata, sharding, frontend attributes and backend config."""
        self.metadata, self.sharding = source.metadata, source.sharding
        self.frontend_attributes = source.frontend_attributes
        self.backend_config = source.backend_config
        self.extra = dict(source.extra) if source.extra else None

    def __str__(self) -> str:
        from hloom.ir.text.show import show_instruction

        return show_instruction(self)

    def __repr__(self) -> str:
        return f"<%{self.name} = {self.shape} {self.opcode}>"


COLLECTIVES = opcodes_where(lambda op: COLLECTIVE in op.traits and op.start_of is None)
"""The collectives in one step; what begins one has an effect whatever its attributes are."""
EFFECT_FREE = opcodes_where(
    lambda op: not (op.called or SIDE_EFFECT in op.traits or COLLECTIVE in op.traits)
)
"""The opcodes that never have a side effect: a cheap first question."""
_EFFECTS = opcodes(SIDE_EFFECT)


def has_side_effect(i: Instruction) -> bool:
    """See `Instruction.has_side_effect`; iterative, so call chains of any depth are fine."""
    stack, seen = [i], set()
    while stack:
        x = stack.pop()
        if _has_own_effect(x):
            return True
        for c in x.called:
            if c not in seen:
                seen.add(c)
                stack.extend(c.instructions)
    return False


def _has_own_effect(i: Instruction) -> bool:
    if i.opcode == "custom-call":
        return i.attrs.custom_call_has_side_effect
    if i.opcode not in COLLECTIVES:
        return i.opcode in _EFFECTS
    if getattr(i.attrs, "constrain_layout", False):
        return True
    module = i.parent.module
    spmd = module is not None and module.use_spmd_partitioning
    return i.attrs.channel_id is not None and not spmd
