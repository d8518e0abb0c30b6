# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""What is said of the whole program: counts of devices, aliasing, donation, layouts, shardings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hloom.base.diagnostics import ParseError, SourceLocation
from hloom.frontends.stablehlo.attributes import boolean, integer, plain_ints, word
from hloom.frontends.stablehlo.bindings import ir
from hloom.frontends.stablehlo.shardings import keep_priorities
from hloom.ir.values.aliasing import AliasEntry, BufferDonors, InputOutputAlias
from hloom.ir.values.frontend import FrontendAttributes
from hloom.types.layout import layout
from hloom.types.shape import ProgramShape, Shape, tuple_shape

if TYPE_CHECKING:
    from hloom.frontends.stablehlo.program import ImportedProgram


def module_attributes(program: ImportedProgram, op: Any) -> None:
    """Take over the attributes of the module itself."""
    module = program.module
    module.replica_count = integer(op, "mhlo.num_replicas", 1)
    module.num_partitions = integer(op, "mhlo.num_partitions", 1)
    module.use_auto_spmd_partitioning = boolean(op, "mhlo.use_auto_spmd_partitioning")
    module.is_dynamic = boolean(op, "mhlo.is_dynamic")
    attributes = op.attributes
    if module.num_partitions > 1:
        module.use_spmd_partitioning = True
    if "mhlo.spmd_output_sharding" in attributes:
        text = word(attributes["mhlo.spmd_output_sharding"])
        module.spmd_output_sharding = program.shardings.of_text(text)
    if "mhlo.spmd_parameters_shardings" in attributes:
        module.spmd_parameters_shardings = tuple(
            program.shardings.of_text(word(x)) for x in attributes["mhlo.spmd_parameters_shardings"]
        )
    if "mhlo.xla_entry_computation_parameter_layouts" in attributes:
        _layouts(program, attributes)
    if "mhlo.frontend_attributes" in attributes:
        pairs = {x.name: word(x.attr) for x in attributes["mhlo.frontend_attributes"]}
        module.frontend_attributes = FrontendAttributes.of(pairs)


def _layouts(program: ImportedProgram, attributes: Any) -> None:
    """The layouts in which callers give arguments and get results."""
    shape = program.module.entry_layout
    assert shape is not None
    orders = attributes["mhlo.xla_entry_computation_parameter_layouts"]
    parameters = tuple(map(_placed, shape.parameters, orders))
    result = shape.result
    if "mhlo.xla_entry_computation_result_layout" in attributes:
        order = attributes["mhlo.xla_entry_computation_result_layout"]
        if result.is_tuple:
            result = tuple_shape(map(_placed, result.elements, order))
        else:
            result = _placed(result, order[0] if isinstance(order, ir.ArrayAttr) else order)
    program.module.entry_layout = ProgramShape(parameters, (), result)


def _placed(shape: Shape, order: Any) -> Shape:
    return shape.with_layout(layout(plain_ints(order))) if shape.is_array else shape


def argument_attributes(program: ImportedProgram, function: Any) -> None:
    """Aliasing and donation, as JAX says them at the arguments of the entry."""
    if "arg_attrs" not in function.attributes:
        return
    module = program.module
    is_tuple = module.entry.root.shape.is_tuple
    aliases: list[AliasEntry] = []
    donors: list[tuple[int, tuple[int, ...]]] = []
    for number, fields in enumerate(function.attributes["arg_attrs"]):
        if "tf.aliasing_output" in fields:
            output = int(fields["tf.aliasing_output"].value)
            if not is_tuple and output != 0:
                raise ParseError(
                    f"tf.aliasing_output: argument {number} is for result {output} of one",
                    location=SourceLocation(program.file),
                    rule="aliasing",
                )
            index = (output,) if is_tuple else ()
            aliases.append(AliasEntry(index, number, (), "may-alias"))
        if "jax.buffer_donor" in fields and fields["jax.buffer_donor"].value:
            donors.append((number, ()))
        if "mhlo.frontend_attributes" in fields:
            pairs = {x.name: word(x.attr) for x in fields["mhlo.frontend_attributes"]}
            parameter = module.entry.parameters[number]
            parameter.frontend_attributes = FrontendAttributes.of(pairs)
        if "sdy.sharding" in fields:
            keep_priorities(module.entry.parameters[number], fields["sdy.sharding"])
    if aliases:
        aliases.sort(key=lambda e: e.output_shape_index)
        module.input_output_alias = InputOutputAlias(tuple(aliases))
        shape = module.entry.program_shape
        if wrong := module.input_output_alias.check(shape.parameters, shape.result):
            raise ParseError(
                f"tf.aliasing_output: {wrong}",
                location=SourceLocation(program.file),
                rule="aliasing",
            )
    if donors:
        module.buffer_donors = BufferDonors(tuple(donors))
