"""Prints the attributes of an operation: `, dimensions={0}, direction=LT`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hloom.ir.op import Field
from hloom.ir.text.options import PrintOptions
from hloom.ir.values.groups import MeshReplicaGroups
from hloom.types.literal import Literal
from hloom.types.literal_text import show_literal
from hloom.types.shape import Shape

ALWAYS = frozenset(
    "dimensions replica_groups source_target_pairs offset_dims collapsed_slice_dims "
    "start_index_map update_window_dims inserted_window_dims scatter_dims_to_operand_dims "
    "lhs_contracting_dims rhs_contracting_dims largest transpose_a is_associative "
    "parameter_number outfeed_shape".split()
)
"""Attributes that are written even where they have their default."""
NONE: frozenset[str] = frozenset()
ALSO = {"CollectiveReduce": frozenset(["has_dynamic_root"])}
"""The same of single operations, by the name of their attributes' class."""


def fields_text(
    fields: Iterable[Field], attrs: Any, options: PrintOptions, shape_text: Callable[[Shape], str]
) -> str:
    """`, name=value` of every attribute that is to be written."""
    if not options.extra_attributes:
        return ""
    out = ""
    for field in fields:
        name = field.name
        value = getattr(attrs, name)
        if value is None or name == "number":
            continue
        if name == "literal":
            if type(attrs).__name__ != "Constant":
                out += f", literal={_literal_text(value, shape_text)}"
            continue
        if value == field.default and name not in ALWAYS | ALSO.get(type(attrs).__name__, NONE):
            continue
        if name == "channel_id" and not options.channel_id:
            continue
        if name in ("infeed_config", "outfeed_config") and not options.infeed_outfeed_config:
            continue
        if name == "replica_groups":
            out += f", replica_groups={_groups_text(value, options)}"
        else:
            out += f", {name}={field.kind.show(value)}"
    return out


def _literal_text(literal: Literal, shape_text: Callable[[Shape], str]) -> str:
    """A shape and a literal; of a tuple the same of each element between parentheses."""
    if not literal.is_tuple:
        return f"{shape_text(literal.shape)} {show_literal(literal)}"
    return "(" + ", ".join(_literal_text(x, shape_text) for x in literal.elements) + ")"


def _groups_text(groups: Any, options: PrintOptions) -> str:
    if options.replica_groups_full:
        return groups.full_text
    if not options.replica_groups_subaxes and isinstance(groups, MeshReplicaGroups):
        if any(axis.size is not None for axis in groups.axes):
            return groups.full_text
    return groups.text
