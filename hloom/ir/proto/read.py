"""From `HloModuleProto` to a module.

Computations and instructions refer to one another by id. Ids are kept when no two instructions
have the same one. Everything that a broken message can say is a `ProtoError` that names the
instruction: missing parts, ids of nothing, readers before what they read, cycles of calls.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from hloom.base.diagnostics import HloError, ProtoError
from hloom.ir.computation import MAIN_THREAD, Computation
from hloom.ir.infer.compare import compatible
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import ShapeError
from hloom.ir.proto import carried
from hloom.ir.proto.annotations import AnnotationReader, read_config
from hloom.ir.proto.attributes import OpCodec, op_codec
from hloom.ir.proto.codec import Context
from hloom.ir.proto.module_fields import read_module_fields
from hloom.ir.proto.note import apply_note, read_note
from hloom.types.literal import Literal
from hloom.types.shape import ProgramShape

LOCAL = 2**32 - 1
"""The part of an id that counts inside a computation."""


def module_from_proto(message: Any) -> Module:
    """The module that an `HloModuleProto` describes; `ProtoError` where it is broken."""
    try:
        return MessageReader(message).read()
    except ProtoError:
        raise
    except HloError as error:
        raise ProtoError(error.message, instruction=error.instruction, rule=error.rule) from None
    except (ShapeError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ProtoError(f"the module cannot be read: {error}") from None


class MessageReader:
    """Reads one message into one module."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self.module = Module(message.name)
        self.context = Context()
        self.annotations = AnnotationReader(self.context, message.payloads)
        self.note = read_note(message)
        self.carries_unknown = carried.has_unknown(message)
        self.newer: list[Instruction] = []
        self.plans: dict[str, OpCodec] = {}
        self.computations: dict[int, Computation] = {}
        self.instructions: dict[int, dict[int, Instruction]] = {}
        self.ids_are_unique = True
        self.used_ids: set[int] = set()

    def read(self) -> Module:
        """The whole module."""
        message, module = self.message, self.module
        if not message.computations:
            raise ProtoError("the module has no computations")
        for written in message.computations:
            self.add_computation(written)
        for number, written in enumerate(message.computations):
            self.read_computation(number, written, self.computations[written.id])
        self.check_calls()
        entry = self.computations.get(message.entry_computation_id)
        if entry is None:
            raise ProtoError(f"the entry computation {message.entry_computation_id} does not exist")
        module.entry = entry
        self.settle_ids()
        self.read_entry_layout(entry)
        self.read_schedule()
        read_module_fields(message, module, self.context, self.annotations)
        apply_note(self.note, module)
        if self.newer:
            carried.warn_of_newer(module, self.newer)
        return module

    # -- computations

    def add_computation(self, written: Any) -> None:
        """Make the computation, still empty, so that calls may refer to it."""
        if not written.name:
            raise ProtoError(f"computation {written.id} has no name")
        if written.id in self.computations:
            raise ProtoError(f"computation %{written.name}: id {written.id} is taken")
        computation = Computation(written.name, self.module)
        computation.id = written.id
        computation.execution_thread = written.execution_thread or MAIN_THREAD
        computation.backend_config = read_config(written)
        self.computations[written.id] = computation
        self.module.computations[computation] = None

    def read_computation(self, number: int, written: Any, into: Computation) -> None:
        """Fill a computation; `number` is its place in the message, for errors."""
        by_id: dict[int, Instruction] = {}
        self.instructions[into.id] = by_id
        name = f"computation {number}"
        try:
            for number_inside, instruction in enumerate(written.instructions):
                name = f"instruction {number_inside}"
                self.read_instruction(instruction, into, by_id)
            name = ""
            self.connect_control(written.instructions, by_id)
            self.finish(written, into, by_id)
        except HloError as error:
            place = f"{into.name}/%{instruction.name or name}" if name else into.name
            raise ProtoError(
                error.message, instruction=error.instruction or place, rule=error.rule
            ) from None
        except (ShapeError, ValueError, TypeError, OverflowError, RecursionError) as error:
            place = f"{into.name}/%{instruction.name or name}" if name else into.name
            raise ProtoError(str(error), instruction=place) from None

    def finish(self, written: Any, into: Computation, by_id: dict[int, Instruction]) -> None:
        root = by_id.get(written.root_id)
        if root is None:
            raise ProtoError(f"the root {written.root_id} does not exist")
        into.root = root
        numbers = [p.attrs.number for p in into.parameters]
        if numbers != list(range(len(numbers))):
            raise ProtoError(f"the parameters have the numbers {numbers[:20]}")
        if self.carries_unknown:
            carried.keep_unknown(written, self.module, into.name)

    # -- instructions

    def read_instruction(self, m: Any, into: Computation, by_id: dict[int, Instruction]) -> None:
        """One instruction, appended to its computation."""
        opcode = m.opcode
        plan = self.plans.get(opcode)
        if plan is None:
            plan = self.plans[opcode] = op_codec(opcode)
        id, name = m.id, m.name
        if not name:
            raise ProtoError(f"instruction {id} has no name")
        if name in into.names:
            raise ProtoError("another instruction of the computation has this name")
        if id in by_id:
            raise ProtoError(f"another instruction of the computation has the id {id}")
        if not m.HasField("shape"):
            raise ProtoError("the instruction has no shape")
        try:
            operands = tuple([by_id[k] for k in m.operand_ids])
        except KeyError as error:
            raise self.dangling(error.args[0]) from None
        op, context = plan.op, self.context
        op.check_operand_count(len(operands))
        for needed in plan.needed:
            if not m.HasField(needed):
                raise ProtoError(f"{opcode} without {needed}")
        shape = context.shapes.shape(m.shape)
        if plan.codecs:
            context.operands = operands
            values = {field: codec.read(m, context) for field, codec in plan.codecs}
            if opcode == "constant":
                values["literal"] = _fitted(values["literal"], shape)
            attrs = op.attrs(**values)
        else:
            attrs = op.empty
        called = self.callees(m, plan) if m.called_computation_ids or op.called else ()
        instruction = into.append(opcode, attrs, operands, shape, name, called, id)
        by_id[id] = instruction
        if self.ids_are_unique:
            self.ids_are_unique = id not in self.used_ids
            self.used_ids.add(id)
        self.annotations.read(m, instruction)
        if self.carries_unknown:
            if carried.keep_unknown_of_instruction(m, instruction):
                self.newer.append(instruction)

    def dangling(self, id: int) -> ProtoError:
        """What to say of an operand id that names nothing read so far."""
        for written in self.message.computations:
            for other in written.instructions:
                if other.id == id:
                    return ProtoError(
                        f"operand {id} is %{other.name}, which is not before it in its computation",
                        rule="operand-defined",
                        hint="instructions must stand in an order without cycles",
                    )
        return ProtoError(f"operand {id} does not exist", rule="operand-defined")

    def callees(self, m: Any, codec: OpCodec) -> tuple[Computation, ...]:
        """The computations that an instruction calls, in the order of its declaration."""
        op = codec.op
        if op.name in ("async-update", "async-done"):
            return ()  # old files repeat what the start calls
        called = []
        for id in m.called_computation_ids:
            computation = self.computations.get(id) or self.computations.get(id & LOCAL)
            if computation is None:
                raise ProtoError(f"computation {id} does not exist", rule="callee-defined")
            called.append(computation)
        if not op.called_variadic and len(called) != len(op.called):
            raise ProtoError(f"{op.name} calls {len(op.called)} computations, not {len(called)}")
        if op.name == "while":
            called.reverse()  # the message has the body first
        return tuple(called)

    def connect_control(self, messages: Iterable[Any], by_id: dict[int, Instruction]) -> None:
        """Add the control edges, and refuse those that close a cycle."""
        seen: set[int] = set()
        backwards = False
        for m in messages:
            seen.add(m.id)
            for id in m.control_predecessor_ids:
                before = by_id.get(id)
                if before is None:
                    raise ProtoError(
                        f"control predecessor {id} does not exist", instruction=f"%{m.name}"
                    )
                backwards = backwards or id not in seen or id == m.id
                by_id[m.id].add_control_predecessor(before)
        if backwards:
            next(iter(by_id.values())).parent.in_order()

    # -- the whole

    def check_calls(self) -> None:
        try:
            self.module.computations_in_order()
        except ValueError as error:
            raise ProtoError(str(error), rule="call-cycle") from None

    def settle_ids(self) -> None:
        """Restore what the note says by id; give fresh ids where two instructions share one."""
        renamed = dict(self.noted("names"))
        for i in renamed:
            del i.parent.names[i.name]
        for i, name in renamed.items():
            i.name = i.parent.unique_name(name)
            i.parent.names[i.name] = i
        for i, mode in self.noted("modes"):
            if "mode" in i.op.field_by_name:
                i.attrs = replace(i.attrs, mode=mode)
        highest = max((id for by_id in self.instructions.values() for id in by_id), default=0)
        self.module.reserve_id(max(highest, *self.computations))
        if not self.ids_are_unique:
            for i in self.module.instructions():
                i.id = self.module.new_id()

    def noted(self, what: str) -> Iterator[tuple[Instruction, str]]:
        """Each instruction that a part of the note speaks of, and what it says."""
        named_fields = {
            int(id): text
            for id, text in self.note.get(what, {}).items()
            if text and id.removeprefix("-").isdecimal()
        }
        if not named_fields:
            return
        for by_id in self.instructions.values():
            for id, i in by_id.items():
                if id in named_fields:
                    yield i, named_fields[id]

    def read_entry_layout(self, entry: Computation) -> None:
        """The program shape with the layouts that the file gives, never the default."""
        if not self.message.HasField("host_program_shape"):
            return
        layout = self.context.shapes.program_shape(self.message.host_program_shape)
        own = entry.program_shape
        if len(layout.parameters) != len(own.parameters) or not all(
            compatible(a, b)
            for a, b in zip((*layout.parameters, layout.result), (*own.parameters, own.result))
        ):
            raise ProtoError(f"the program shape {layout} is not that of the entry, {own}")
        self.module.entry_layout = ProgramShape(
            tuple([p.with_default_layouts() for p in layout.parameters]),
            (),
            layout.result.with_default_layouts(),
        )

    def read_schedule(self) -> None:
        if not self.message.HasField("schedule"):
            return
        schedule: dict[Computation, list[Instruction]] = {}
        for id, sequence in self.message.schedule.sequences.items():
            computation = self.computations.get(id) or self.computations.get(id & LOCAL)
            if computation is None:
                raise ProtoError(f"the schedule has the computation {id}, which does not exist")
            by_id = self.instructions[computation.id]
            try:
                order = [by_id[k] for k in sequence.instruction_ids]
            except KeyError as error:
                raise ProtoError(
                    f"the schedule has the instruction {error.args[0]}, which does not exist",
                    instruction=computation.name,
                ) from None
            if len(set(order)) != len(by_id) or len(order) != len(by_id):
                raise ProtoError(
                    "the schedule does not name each instruction once",
                    instruction=computation.name,
                )
            schedule[computation] = order
        self.module.schedule = {c: schedule[c] for c in self.module.computations if c in schedule}


def _fitted(literal: Literal | None, shape: Any) -> Literal:
    """The value of a constant; one whose value was left out is elided."""
    if literal is None:
        return Literal.elided(shape)
    if not compatible(literal.shape, shape):
        raise ProtoError(f"a constant of {shape} has a value of {literal.shape}")
    return literal.with_shape(shape) if literal.shape.compatible(shape) else literal
