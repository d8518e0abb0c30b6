"""What any instruction may carry, and what the header of a module may say: text both ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.kinds import Bools
from hloom.ir.op import ShapeError
from hloom.ir.text.cursor import Cursor
from hloom.ir.values.aliasing import parse_buffer_donors, parse_input_output_alias
from hloom.ir.values.backend_config import parse_backend_config
from hloom.ir.values.frontend import parse_frontend_attributes, parse_statistics
from hloom.ir.values.layouts import parse_entry_layout
from hloom.ir.values.metadata import parse_metadata
from hloom.ir.values.original_value import parse_original_value
from hloom.ir.values.sharding import parse_sharding


@dataclass(frozen=True, eq=False)
class Annotation:
    """How one annotation is read, and how it is put on an instruction."""

    name: str
    parse: Callable[..., Any]
    attach: Callable[[Instruction, Any], None]
    cached: bool = True
    """Whether the value depends on the text alone (control predecessors need the computation)."""


def _control_predecessors(cursor: Cursor, into: Computation) -> tuple[Instruction, ...]:
    cursor.expect("{")
    predecessors: list[Instruction] = []
    while not predecessors or not cursor.eat("}"):
        if predecessors:
            cursor.expect(",", "between instructions")
        cursor.eat("%")
        start = cursor.skip()
        name = cursor.name("the name of an instruction")
        if name not in into.names:
            cursor.fail(f"instruction {name!r} does not exist", start, length=len(name))
        predecessors.append(into.names[name])
    return tuple(predecessors)


def _attach_control(i: Instruction, before: tuple[Instruction, ...]) -> None:
    for x in before:
        i.add_control_predecessor(x)


def _extra(name: str) -> Callable[[Instruction, Any], None]:
    def attach(i: Instruction, value: Any) -> None:
        if i.extra is None:
            i.extra = {}
        i.extra[name] = value

    return attach


def _slot(name: str) -> Callable[[Instruction, Any], None]:
    return lambda i, value: setattr(i, name, value)


def _unless_empty(parse: Callable[[Cursor], Any]) -> Callable[[Cursor], Any]:
    """Nothing said is nothing known: `metadata={}` is no metadata, None."""

    def read(cursor: Cursor) -> Any:
        start = cursor.position
        value = parse(cursor)
        is_short = cursor.position - start < 100  # printing every value again would cost a tenth
        return None if is_short and value.text == "{}" else value

    return read


def _attach_sharding(i: Instruction, value: Any) -> None:
    """A tuple with one plain sharding has it on every leaf."""
    if i.shape.is_tuple and not value.is_tuple:
        value = type(value).tuple_of(*[value] * max(1, i.shape.leaf_count))
    i.sharding = value


def _attach_replication(i: Instruction, value: tuple[bool, ...]) -> None:
    if i.opcode != "parameter":
        raise ShapeError(f"parameter_replication is for parameters, not {i.opcode}")
    leaves = sum(1 for _ in i.shape.leaves())
    if len(value) != leaves:
        raise ShapeError(
            f"parameter_replication has {len(value)} values for the {leaves} leaves of {i.shape}"
        )
    _extra("parameter_replication")(i, value)


ANNOTATIONS: dict[str, Annotation] = {
    a.name: a
    for a in (
        Annotation("sharding", parse_sharding, _attach_sharding),
        Annotation(
            "frontend_attributes",
            _unless_empty(parse_frontend_attributes),
            _slot("frontend_attributes"),
        ),
        Annotation("control-predecessors", _control_predecessors, _attach_control, cached=False),
        Annotation("statistics", parse_statistics, _extra("statistics")),
        Annotation("origin", parse_original_value, _extra("original_value")),
        Annotation("metadata", _unless_empty(parse_metadata), _slot("metadata")),
        Annotation("backend_config", parse_backend_config, _slot("backend_config")),
        Annotation("parameter_replication", Bools.parse, _attach_replication),
    )
}


def _one_or_more_booleans(cursor: Cursor) -> tuple[bool, ...]:
    return Bools.parse(cursor) if cursor.at("{") else (cursor.boolean(),)


HEADER: dict[str, tuple[str, Callable[[Cursor], Any]]] = {
    "is_scheduled": ("is_scheduled", lambda c: c.boolean()),
    "input_output_alias": ("input_output_alias", parse_input_output_alias),
    "buffer_donor": ("buffer_donors", parse_buffer_donors),
    "alias_passthrough_params": ("alias_passthrough_parameters", lambda c: c.boolean()),
    "entry_computation_layout": ("entry_layout", parse_entry_layout),
    "allow_spmd_sharding_propagation_to_parameters": (
        "allow_spmd_sharding_propagation_to_parameters",
        _one_or_more_booleans,
    ),
    "allow_spmd_sharding_propagation_to_output": (
        "allow_spmd_sharding_propagation_to_output",
        _one_or_more_booleans,
    ),
    "replica_count": ("replica_count", lambda c: c.integer()),
    "num_partitions": ("num_partitions", lambda c: c.integer()),
    "frontend_attributes": ("frontend_attributes", parse_frontend_attributes),
    "origin_recovery_table": ("origin_recovery_table", lambda c: c.balanced()),
    "backend_config": ("backend_config", parse_backend_config),
    "debug_attributes": ("debug_attributes", lambda c: c.balanced()),
}
"""Header key -> the module's attribute and how it is read."""


def read_header_attributes(cursor: Cursor) -> dict[str, Any]:
    """The `, key=value` list behind `HloModule name`."""
    attributes: dict[str, Any] = {}
    while cursor.eat(","):
        start = cursor.skip()
        key = cursor.key("a header attribute `name=`")
        if key not in HEADER:
            cursor.fail(
                f"unexpected header attribute {key!r}",
                start,
                length=len(key),
                rule="attribute",
                hint=f"allowed: {', '.join(sorted(HEADER))}",
            )
        name, parse = HEADER[key]
        if name in attributes:
            cursor.fail(f"header attribute {key} is given twice", start)
        attributes[name] = parse(cursor)
    return attributes
