"""A module: computations, which of them is the entry, and what is said of the whole program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hloom.base.diagnostics import GraphError, UsageError
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.types.shape import ProgramShape

if TYPE_CHECKING:
    from hloom.types.literal import Literal


class Module:
    """One HLO program.

    `computations` is an ordered set, callees before callers when it was read or built so.
    Computations may be shared between callers (the call graph need not be a tree).
    `schedule` maps a computation to its instructions in the order they run, None when the
    module is not scheduled. `entry_layout` is the program shape that callers see, with layouts
    (None: that of the entry). `carried` keeps what a file held and the graph has no place for.
    """

    def __init__(self, name: str = "module") -> None:
        self.name = name
        self.computations: dict[Computation, None] = {}
        self.entry_or_none: Computation | None = None
        self.schedule: dict[Computation, list[Instruction]] | None = None
        self.entry_layout: ProgramShape | None = None
        self.input_output_alias: Any = None
        self.buffer_donors: Any = None
        self.alias_passthrough_parameters = False
        self.origin_recovery_table: str | None = None
        self.debug_attributes: str | None = None
        """What is logged of which values of the old program, as text."""
        self.backend_config: Any = None
        self.replica_count = 1
        self.num_partitions = 1
        self.use_spmd_partitioning = False
        self.use_auto_spmd_partitioning = False
        self.is_dynamic = False
        self.frontend_attributes: Any = None
        self.allow_spmd_sharding_propagation_to_parameters: tuple[bool, ...] = ()
        self.allow_spmd_sharding_propagation_to_output: tuple[bool, ...] = ()
        self.spmd_parameters_shardings: tuple[Any, ...] = ()
        self.spmd_output_sharding: Any = None
        self.stack_frames: Any = None
        self.carried: dict[str, Any] = {}
        self._next_id = 0
        self._names: dict[str, int] = {}
        """Computation names given out, and the last number tried behind each."""

    @property
    def entry(self) -> Computation:
        """The computation that runs when the module runs."""
        if self.entry_or_none is None:
            raise GraphError(f"module {self.name} has no entry computation")
        return self.entry_or_none

    @entry.setter
    def entry(self, computation: Computation) -> None:
        self.entry_or_none = computation

    @property
    def is_scheduled(self) -> bool:
        return self.schedule is not None

    @property
    def program_shape(self) -> ProgramShape:
        """What callers see: the entry layout if there is one, else the entry's own shapes."""
        return self.entry_layout or self.entry.program_shape

    @property
    def instruction_count(self) -> int:
        return sum(len(c.instructions) for c in self.computations)

    def new_id(self) -> int:
        """An id no instruction or computation of this module has."""
        self._next_id += 1
        return self._next_id

    def become(self, other: Module) -> None:
        """Take over all of another module, which is not used any more."""
        for c in other.computations:
            c.module = self
        vars(self).update(vars(other))

    def reserve_id(self, id: int) -> None:
        """Never hand out this id or a lower one: for readers that keep the ids they find."""
        self._next_id = max(self._next_id, id)

    def with_constants(self, values: Mapping[int, Literal]) -> Module:
        """A copy whose parameters of these numbers are constants (see `bind.py`)."""
        from hloom.ir.bind import bound

        return bound(self, values)

    def instructions(self) -> Iterator[Instruction]:
        """Every instruction of every computation."""
        for c in self.computations:
            yield from c.instructions

    def __getitem__(self, name: str) -> Computation:
        """The computation of this name, with or without `%`."""
        bare_name = name.removeprefix("%")
        for c in self.computations:
            if c.name == bare_name:
                return c
        raise KeyError(name)

    def unique_computation_name(self, base: str) -> str:
        """`wanted`, or it with the first free `.N` behind it; a name is given out once only."""
        used_names = self._names
        if base not in used_names:
            used_names[base] = 0
            return base
        while True:
            used_names[base] += 1
            name = f"{base}.{used_names[base]}"
            if name not in used_names:
                used_names[name] = 0
                return name

    def add_computation(
        self, name: str, *, entry: bool = False, thread: str | None = None
    ) -> Computation:
        """Add an empty computation; its name is made unique."""
        computation = Computation(self.unique_computation_name(name), self)
        computation.id = self.new_id()
        if thread is not None:
            computation.execution_thread = thread
        self.computations[computation] = None
        if entry:
            self.entry_or_none = computation
        return computation

    def remove_computation(self, dead: Computation) -> None:
        """Remove a computation nobody calls, and its calls with it."""
        if dead.callers or dead is self.entry_or_none:
            raise GraphError(f"computation %{dead.name} is still called")
        for i in dead.instructions:
            for c in i.called:
                c.forget_caller(i)
        del self.computations[dead]
        if self.schedule is not None:
            self.schedule.pop(dead, None)

    def replace_computations(self, new_for_old: dict[Computation, Computation]) -> None:
        """Make every caller of an old computation call the new one instead.

        Cost is that of the callers, not of the module.
        """
        callers: dict[Instruction, None] = {}
        for old in new_for_old:
            callers.update(dict.fromkeys(old.callers))
        for caller in callers:
            caller.set_called(tuple(new_for_old.get(c, c) for c in caller.called))
        if self.entry_or_none in new_for_old:
            self.entry_or_none = new_for_old[self.entry_or_none]

    def computations_in_order(
        self, roots: Iterable[Computation] | None = None
    ) -> list[Computation]:
        """Callees before callers; stable. A cycle of calls raises `GraphError`."""
        done: dict[Computation, None] = {}
        open_: set[Computation] = set()
        for start in self.computations if roots is None else roots:
            stack = [start]
            while stack:
                c = stack[-1]
                if c in done:
                    stack.pop()
                    continue
                waiting = [x for i in c.instructions if i.called for x in i.called if x not in done]
                if not waiting:
                    done[c] = None
                    open_.discard(c)
                    stack.pop()
                    continue
                if c in open_:
                    raise GraphError(f"computation %{c.name} calls itself")
                open_.add(c)
                stack.extend(reversed(dict.fromkeys(waiting)))
        return list(done)

    def __repr__(self) -> str:
        return f"<module {self.name}, {self.instruction_count} instructions>"

    def __str__(self) -> str:
        from hloom.ir.text.show import show_module

        return show_module(self)

    def _repr_html_(self) -> str:
        """What a notebook shows: the program for people, in functions that fold."""
        from hloom.ir.text.html import module_html

        return module_html(self)


def expect_module(x: object, what: str) -> None:
    """Raise `UsageError` where something else than a module came, a path or a text, say."""
    if not isinstance(x, Module):
        raise UsageError(
            f"{what} takes a module, not {type(x).__name__}",
            rule="module",
            hint="hloom.load(path), or hloom.load_text(text).module",
        )
