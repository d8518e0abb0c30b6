"""Constants, and operations that move data."""

from __future__ import annotations

from hloom.frontends.stablehlo.export.registry import Declined, export
from hloom.frontends.stablehlo.export.text import dense, integer, ints
from hloom.frontends.stablehlo.export.writer import Writer
from hloom.ir.instruction import Instruction


@export("constant", handles="literal")
def constant(w: Writer, i: Instruction) -> None:
    """Values that were elided are written as they are made up everywhere else."""
    if not i.shape.is_array:
        raise Declined
    w.op(i, "stablehlo.constant", [], [], {"value": dense(i.attrs.literal)})


@export("iota", handles="iota_dimension")
def iota(w: Writer, i: Instruction) -> None:
    if i.shape.is_dynamic:
        raise Declined
    w.simple(i, "stablehlo.iota", {"iota_dimension": integer(i.attrs.iota_dimension)})


@export("broadcast", handles="dimensions")
def broadcast(w: Writer, i: Instruction) -> None:
    if i.shape.is_dynamic:
        raise Declined
    w.simple(i, "stablehlo.broadcast_in_dim", {"broadcast_dimensions": ints(i.attrs.dimensions)})


@export("reshape")
def reshape(w: Writer, i: Instruction) -> None:
    if i.shape.is_dynamic:
        raise Declined
    w.simple(i, "stablehlo.reshape")


@export("transpose", handles="dimensions")
def transpose(w: Writer, i: Instruction) -> None:
    w.simple(i, "stablehlo.transpose", {"permutation": ints(i.attrs.dimensions)})


@export("reverse", handles="dimensions")
def reverse(w: Writer, i: Instruction) -> None:
    w.simple(i, "stablehlo.reverse", {"dimensions": ints(i.attrs.dimensions)})


@export("concatenate", handles="dimensions")
def concatenate(w: Writer, i: Instruction) -> None:
    w.simple(i, "stablehlo.concatenate", {"dimension": integer(i.attrs.dimensions[0])})


@export("slice", handles="slice")
def slice_(w: Writer, i: Instruction) -> None:
    ranges = i.attrs.slice
    fields = {
        "start_indices": ints(ranges.starts),
        "limit_indices": ints(ranges.limits),
        "strides": ints(ranges.strides),
    }
    w.simple(i, "stablehlo.slice", fields)


@export("pad", handles="padding")
def pad(w: Writer, i: Instruction) -> None:
    dims = i.attrs.padding.dimensions
    fields = {
        "edge_padding_low": ints(d.edge_padding_low for d in dims),
        "edge_padding_high": ints(d.edge_padding_high for d in dims),
        "interior_padding": ints(d.interior_padding for d in dims),
    }
    w.simple(i, "stablehlo.pad", fields)


@export("dynamic-slice", handles="dynamic_slice_sizes")
def dynamic_slice(w: Writer, i: Instruction) -> None:
    if not i.shape.rank:  # MLIR's short form of it does not read back
        raise Declined
    w.simple(i, "stablehlo.dynamic_slice", {"slice_sizes": ints(i.attrs.dynamic_slice_sizes)})


@export("dynamic-update-slice")
def dynamic_update_slice(w: Writer, i: Instruction) -> None:
    w.simple(i, "stablehlo.dynamic_update_slice")


@export("get-dimension-size", handles="dimensions")
def get_dimension_size(w: Writer, i: Instruction) -> None:
    fields = {"dimension": integer(i.attrs.dimensions[0])}
    w.simple(i, "stablehlo.get_dimension_size", fields)


@export("set-dimension-size", handles="dimensions")
def set_dimension_size(w: Writer, i: Instruction) -> None:
    fields = {"dimension": integer(i.attrs.dimensions[0])}
    w.simple(i, "stablehlo.set_dimension_size", fields)


@export("copy")
def copy(w: Writer, i: Instruction) -> None:
    """Nothing where it leads out of the layout of a custom call: StableHLO has no layouts."""
    (x,) = i.operands
    source = x.operands[0] if x.opcode == "get-tuple-element" else x
    layouts = [v.shape.layout for v in (x, i)]
    is_usual = [layout is None or layout.is_default for layout in layouts]
    if source.opcode != "custom-call" or is_usual != [False, True] or w.annotations(i):
        raise Declined
    w.names[i] = w.value(x)


@export("tuple")
def tuple_(w: Writer, i: Instruction) -> None:
    """Written where it is read as one value; its elements are known anyway."""
    values = [w.value(x) for x in i.operands]
    if w.annotations(i) or not values:
        w.op(i, "stablehlo.tuple", values, [x.shape for x in i.operands], results=[i.shape])
    w.parts[i] = values


@export("get-tuple-element", handles="index")
def get_tuple_element(w: Writer, i: Instruction) -> None:
    """A result of an operation with several, or an element of a tuple."""
    (x,) = i.operands
    parts = w.parts.get(x)
    if parts is not None:
        w.names[i] = parts[i.attrs.index]
        return
    w.simple(i, "stablehlo.get_tuple_element", {"index": f"{i.attrs.index} : i32"})
