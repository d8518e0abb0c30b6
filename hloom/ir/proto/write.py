"""From a module to `HloModuleProto`.

XLA wants callees before callers, operands before readers, ids whose lower 32 bits are unique in
their computation, and names that are unique in the module. Ids and names are kept where they
are so already; otherwise ids are given anew, and a name that repeats gets a suffix and the true
one goes into the note (`note.py`), from which our reader restores it.
"""

from itertools import count
from typing import Any

from hloom.base.diagnostics import HloError, ProtoError
from hloom.ir import schema
from hloom.ir.computation import MAIN_THREAD, Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.proto import carried
from hloom.ir.proto.annotations import AnnotationWriter, write_config
from hloom.ir.proto.attributes import OpCodec, op_codec
from hloom.ir.proto.codec import Context
from hloom.ir.proto.module_fields import write_module_fields
from hloom.ir.proto.note import note_of, write_note
from hloom.ir.proto.read import LOCAL
from hloom.types.shape import ProgramShape


def module_to_proto(module: Module) -> Any:
    """The `HloModuleProto` of a module; `ProtoError` for one that no message can hold."""
    return ModuleWriter(module).write()


class ModuleWriter:
    """Writes one module into one message."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.message = schema.HloModuleProto()
        self.context = Context()
        self.annotations = AnnotationWriter()
        self.note = note_of(module)
        self.plans: dict[str, OpCodec] = {}
        self.names: dict[str, int] = {}
        """Names given out, and the last number tried behind each."""
        self.ids: dict[Instruction, int] = {}
        self.computation_ids: dict[Computation, int] = {}

    def write(self) -> Any:
        """The whole message."""
        module, message = self.module, self.message
        if module.entry_or_none is None:
            raise ProtoError(f"module {module.name} has no entry computation")
        message.name = module.name
        try:
            computations = module.computations_in_order()
            orders = {c: c.in_order() for c in computations}
        except ValueError as error:
            raise ProtoError(str(error)) from None
        self.number(orders)
        channels = {getattr(i.attrs, "channel_id", 0) for o in orders.values() for i in o}
        self.context.channel_for_zero = next(c for c in count(1) if c not in channels)
        for c, order in orders.items():
            self.write_computation(c, order, message.computations.add())
        entry = module.entry
        message.entry_computation_name = entry.name
        message.entry_computation_id = self.computation_ids[entry]
        shape = module.entry_layout or entry.program_shape
        names = tuple(f"p{k}" for k in range(len(shape.parameters)))
        self.context.shape_messages.program_shape(
            ProgramShape(shape.parameters, names, shape.result), message.host_program_shape
        )
        if module.schedule is not None:
            self.write_schedule(module.schedule, orders)
        write_module_fields(module, message)
        if self.note:
            write_note(self.note, message)
        return message

    def number(self, orders: dict[Computation, list[Instruction]]) -> None:
        """Choose the ids: those of the module where they serve, else new ones."""
        ids = [c.id for c in orders]
        if len({id & LOCAL for id in ids}) == len(ids):
            self.computation_ids = {c: c.id for c in orders}
        else:
            self.computation_ids = {c: k for k, c in enumerate(orders)}
        count = sum(map(len, orders.values()))
        unique = len({i.id for order in orders.values() for i in order}) == count
        if unique and all(len({i.id & LOCAL for i in o}) == len(o) for o in orders.values()):
            self.ids = {i: i.id for order in orders.values() for i in order}
            return
        for number, order in enumerate(orders.values()):
            for k, i in enumerate(order):
                self.ids[i] = number << 32 | k

    def write_computation(self, c: Computation, order: list[Instruction], into: Any) -> None:
        into.name, into.id = c.name, self.computation_ids[c]
        if c._root is None:
            raise ProtoError("the computation has no root", instruction=c.name)
        if c.root not in c.instructions:
            raise ProtoError("the root is not in the computation", instruction=c.name)
        into.root_id = self.ids[c.root]
        into.is_fusion_computation = c.is_fusion
        if c.execution_thread != MAIN_THREAD:
            into.execution_thread = c.execution_thread
        write_config(c.backend_config, into)
        for i in order:
            try:
                self.write_instruction(i, into.instructions.add())
            except HloError as error:
                place = f"{c.name}/%{i.name}"
                raise ProtoError(error.message, instruction=place, rule=error.rule) from None
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise ProtoError(
                    f"{i.opcode} holds a value that no message can say: {error}",
                    instruction=f"{c.name}/%{i.name}",
                ) from None
        self.context.shape_messages.program_shape(c.program_shape, into.program_shape)
        if unknown := self.module.carried.get(carried.COMPUTATIONS, {}).get(c.name):
            into.MergeFromString(unknown)

    def write_instruction(self, i: Instruction, m: Any) -> None:
        """Fill one `HloInstructionProto`."""
        plan = self.plans.get(i.opcode)
        if plan is None:
            plan = self.plans[i.opcode] = op_codec(i.opcode)
        ids, context = self.ids, self.context
        m.name, m.opcode, m.id = self.unique_name(i), i.opcode, ids[i]
        m.shape.CopyFrom(context.shape_messages.message(i.shape))
        if i.operands:
            m.operand_ids.extend([ids[x] for x in i.operands])
        if i.control_predecessors:
            m.control_predecessor_ids.extend([ids[x] for x in i.control_predecessors])
        if i.called:
            called = i.called[::-1] if i.opcode == "while" else i.called
            m.called_computation_ids.extend([self.computation_ids[c] for c in called])
        if plan.codecs:
            context.operands = i.operands
            attrs = i.attrs
            for field, codec in plan.codecs:
                codec.write(getattr(attrs, field), m, context)
            if getattr(attrs, "mode", None) is not None and "mode" in i.op.field_by_name:
                self.note.setdefault("modes", {})[str(ids[i])] = attrs.mode
        self.annotations.write(i, m)

    def unique_name(self, i: Instruction) -> str:
        """The name, with a suffix where another instruction of the module has it."""
        name, names = i.name, self.names
        if name in names:
            n = names[name] + 1
            while f"{name}.{n}" in names:
                n += 1
            names[name] = n
            name = f"{name}.{n}"
            self.note.setdefault("names", {})[str(self.ids[i])] = i.name
        names[name] = 0
        return name

    def write_schedule(
        self,
        schedule: dict[Computation, list[Instruction]],
        orders: dict[Computation, list[Instruction]],
    ) -> None:
        """XLA's readers want an order of all that is no fusion, of what a reduce applies too."""
        self.message.schedule.SetInParent()
        for c, in_order in orders.items():
            if c not in schedule and c.is_fusion:
                continue
            order = schedule.get(c, in_order)
            sequence = self.message.schedule.sequences[self.computation_ids[c]]
            sequence.instruction_ids.extend([self.ids[i] for i in order])
