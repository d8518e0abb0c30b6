"""The fields of a module beside its computations: aliases, donors, shardings, stack frames."""

from typing import Any

from hloom.ir.module import Module
from hloom.ir.proto import carried
from hloom.ir.proto.annotations import AnnotationReader, read_config, write_config
from hloom.ir.proto.codec import Context
from hloom.ir.proto.metadata import read_frontend_attributes, write_frontend_attributes
from hloom.ir.proto.sharding import write_sharding
from hloom.ir.values.aliasing import AliasEntry, BufferDonors, InputOutputAlias
from hloom.ir.values.stack_frames import FileLocation, StackFrame, StackFrameIndex

MAY, MUST = 1, 2
_PLACE = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")


def read_module_fields(
    message: Any, module: Module, context: Context, annotations: AnnotationReader
) -> None:
    """Put on the module what its message says beside computations and schedule."""
    if message.input_output_alias.entries:
        module.input_output_alias = _read_aliases(message.input_output_alias)
    if message.buffer_donor.entries:
        module.buffer_donors = BufferDonors(
            tuple(
                sorted(
                    (e.parameter_number, tuple(e.parameter_shape_index))
                    for e in message.buffer_donor.entries
                )
            )
        )
    module.is_dynamic = message.is_dynamic
    module.use_auto_spmd_partitioning = message.use_auto_spmd_partitioning
    module.backend_config = read_config(message)
    module.frontend_attributes = annotations.once(
        message.frontend_attributes, read_frontend_attributes
    )
    if message.HasField("spmd_output_sharding"):
        module.spmd_output_sharding = context.shardings.sharding(message.spmd_output_sharding)
    module.spmd_parameters_shardings = tuple(
        [context.shardings.sharding(s) for s in message.spmd_parameters_shardings]
    )
    if message.HasField("stack_frame_index"):
        module.stack_frames = _read_stack_frames(message.stack_frame_index) or None
    carried.keep_module(message, module)


def write_module_fields(module: Module, message: Any) -> None:
    """Say in the message what the module has beside computations and schedule."""
    carried.give_back_module(module, message)
    message.input_output_alias.SetInParent()
    for entry in module.input_output_alias.entries if module.input_output_alias else ():
        message.input_output_alias.entries.add(
            output_shape_index=entry.output_shape_index,
            parameter_number=entry.parameter_number,
            parameter_shape_index=entry.parameter_shape_index,
            kind=MUST if entry.kind == "must-alias" else MAY,
        )
    message.buffer_donor.SetInParent()
    for number, index in module.buffer_donors.entries if module.buffer_donors else ():
        message.buffer_donor.entries.add(parameter_number=number, parameter_shape_index=index)
    message.is_dynamic = module.is_dynamic
    message.use_auto_spmd_partitioning = module.use_auto_spmd_partitioning
    write_config(module.backend_config, message)
    if module.frontend_attributes:
        write_frontend_attributes(module.frontend_attributes, message.frontend_attributes)
    if module.spmd_output_sharding is not None:
        write_sharding(module.spmd_output_sharding, message.spmd_output_sharding)
    for sharding in module.spmd_parameters_shardings:
        write_sharding(sharding, message.spmd_parameters_shardings.add())
    if module.stack_frames is not None:
        _write_stack_frames(module.stack_frames, message.stack_frame_index)


def _read_aliases(message: Any) -> InputOutputAlias:
    entries = [
        AliasEntry(
            tuple(e.output_shape_index),
            e.parameter_number,
            tuple(e.parameter_shape_index),
            "must-alias" if e.kind == MUST else "may-alias",
        )
        for e in message.entries
    ]
    return InputOutputAlias(tuple(sorted(entries, key=lambda e: e.output_shape_index)))


def _read_stack_frames(message: Any) -> StackFrameIndex:
    return StackFrameIndex(
        tuple(message.file_names),
        tuple(message.function_names),
        tuple(
            [FileLocation(*[getattr(p, name) for name in _PLACE]) for p in message.file_locations]
        ),
        tuple([StackFrame(f.file_location_id, f.parent_frame_id) for f in message.stack_frames]),
    )


def _write_stack_frames(value: StackFrameIndex, message: Any) -> None:
    message.file_names.extend(value.file_names)
    message.function_names.extend(value.function_names)
    for place in value.file_locations:
        message.file_locations.add(**{name: getattr(place, name) for name in _PLACE})
    for frame in value.stack_frames:
        message.stack_frames.add(
            file_location_id=frame.file_location_id, parent_frame_id=frame.parent_frame_id
        )
