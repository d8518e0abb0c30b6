"""Functions and the module around them."""

from __future__ import annotations

from hloom.base.diagnostics import UsageError
from hloom.frontends.stablehlo.export.text import (
    attributes,
    dictionary,
    location,
    order,
    quoted,
    type_text,
)
from hloom.frontends.stablehlo.export.writer import Writer, is_placed, result_shapes
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module


def module_text(module: Module) -> str:
    """The module in MLIR's generic form."""
    w = Writer(module)
    w.function(module.entry)
    written: set[Computation] = set()
    while missing := [c for c in w.functions if c not in written]:
        for c in missing:
            written.add(c)
            _function(w, c)
    body = "\n".join(w.lines)
    words = attributes({"sym_name": quoted(module.name), **_module_attributes(module)})
    return f'"builtin.module"() ({{\n{body}\n}}) {words} : () -> ()'


def _function(w: Writer, c: Computation) -> None:
    is_entry = c is w.module.entry
    outer, w.lines = w.lines, []
    arguments = []
    for p in c.parameters:
        w.names[p] = w.fresh()
        where = location(p.metadata, w.module.stack_frames) if p.metadata else ""
        where = where or f" loc({quoted(p.name)})"
        arguments.append(f"{w.names[p]}: {type_text(p.shape)}{where}")
    w.body(c)
    w.terminator(c, "func.return")
    inside = "\n".join(w.lines)
    w.lines = outer
    takes = ", ".join(type_text(p.shape) for p in c.parameters)
    gives = ", ".join(map(type_text, result_shapes(c.root.shape)))
    fields = {
        "sym_name": w.function(c).removeprefix("@"),
        "function_type": f"({takes}) -> ({gives})",
        "sym_visibility": quoted("public" if is_entry else "private"),
    }
    argument_attributes = [_argument(w.module, c, k, is_entry) for k in range(len(c.parameters))]
    if any(argument_attributes):
        fields["arg_attrs"] = f"[{', '.join(attributes(g) for g in argument_attributes)}]"
    if results := _results(c.root) if is_entry else []:
        fields["res_attrs"] = f"[{', '.join(results)}]"
    head = ", ".join(arguments)
    w.lines.append(
        f'  "func.func"() ({{\n  ^bb0({head}):\n{inside}\n  }}) {attributes(fields)} : () -> ()'
    )


def _argument(module: Module, c: Computation, number: int, is_entry: bool) -> dict[str, str]:
    """What is said of one argument."""
    p = c.parameters[number]
    fields: dict[str, str] = {}
    if p.sharding is not None:
        fields["mhlo.sharding"] = quoted(p.sharding.text)
    if p.frontend_attributes:
        fields["mhlo.frontend_attributes"] = dictionary(p.frontend_attributes)
    if is_placed(p.shape):
        fields["mhlo.xla_shape"] = quoted(p.shape.text)
    if not is_entry:
        return fields
    for entry in module.input_output_alias.entries if module.input_output_alias else ():
        if entry.parameter_number == number:
            index = entry.output_shape_index
            if entry.parameter_shape_index or len(index) > 1 or entry.kind != "may-alias":
                raise UsageError(
                    f"the alias {entry.text} is one that StableHLO cannot say", rule="aliasing"
                )
            fields["tf.aliasing_output"] = f"{index[0] if index else 0} : i32"
    for parameter, index in module.buffer_donors.entries if module.buffer_donors else ():
        if parameter == number:
            if index:
                raise UsageError("StableHLO donates whole arguments only", rule="aliasing")
            fields["jax.buffer_donor"] = "true"
    return fields


def _results(root: Instruction) -> list[str]:
    """What is said of each result: how a tuple of them is spread over devices."""
    if root.opcode != "tuple" or root.sharding is None or not root.sharding.is_tuple:
        return []
    shapes = result_shapes(root.shape)
    if len(shapes) != len(root.sharding.elements):
        return []
    return [attributes({"mhlo.sharding": quoted(s.text)}) for s in root.sharding.elements]


def _module_attributes(module: Module) -> dict[str, str]:
    fields = {
        "mhlo.num_replicas": f"{module.replica_count} : i32",
        "mhlo.num_partitions": f"{module.num_partitions} : i32",
    }
    if module.use_auto_spmd_partitioning:
        fields["mhlo.use_auto_spmd_partitioning"] = "true"
    if module.is_dynamic:
        fields["mhlo.is_dynamic"] = "true"
    if module.frontend_attributes:
        fields["mhlo.frontend_attributes"] = dictionary(module.frontend_attributes)
    if module.spmd_output_sharding is not None:
        fields["mhlo.spmd_output_sharding"] = quoted(module.spmd_output_sharding.text)
    if module.spmd_parameters_shardings:
        words = ", ".join(quoted(s.text) for s in module.spmd_parameters_shardings)
        fields["mhlo.spmd_parameters_shardings"] = f"[{words}]"
    return fields | _layouts(module)


def _layouts(module: Module) -> dict[str, str]:
    """The layouts that callers see, where one is not row-major."""
    shape = module.entry_layout
    if shape is None:
        return {}
    leaves = [s for x in (*shape.parameters, shape.result) for s in x.leaves() if s.is_array]
    if all(s.layout is None or s.layout.is_default for s in leaves):
        return {}
    if any(not s.is_array for s in shape.parameters):
        raise UsageError("StableHLO has no layouts for arguments that are tuples", rule="layout")
    orders = [order(s.layout.minor_to_major if s.layout else ()) for s in shape.parameters]
    results = result_shapes(shape.result)
    order_texts = [
        order(s.layout.minor_to_major if s.layout else ()) for s in results if s.is_array
    ]
    return {
        "mhlo.xla_entry_computation_parameter_layouts": f"[{', '.join(orders)}]",
        "mhlo.xla_entry_computation_result_layout": (
            f"[{', '.join(order_texts)}]" if shape.result.is_tuple else order_texts[0]
        ),
    }
