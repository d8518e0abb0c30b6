"""Folds."""

from __future__ import annotations

from hloom.frontends.stablehlo.export.registry import Declined, export
from hloom.frontends.stablehlo.export.text import boolean, integer, ints, table
from hloom.frontends.stablehlo.export.writer import Writer
from hloom.ir.instruction import Instruction


@export("reduce", handles="dimensions")
def reduce(w: Writer, i: Instruction) -> None:
    plain(i)
    fields = {"dimensions": ints(i.attrs.dimensions)}
    w.simple(i, "stablehlo.reduce", fields, w.region(i.called[0]))


def plain(i: Instruction) -> None:
    """Decline an instruction whose results are one element of a tuple."""
    if i.shape.is_tuple and len(i.shape.elements) == 1:
        raise Declined


@export("reduce-window", handles="window")
def reduce_window(w: Writer, i: Instruction) -> None:
    plain(i)
    dims = i.attrs.window.dimensions
    if any(d.window_reversal for d in dims) or not dims:
        raise Declined
    fields = {
        "window_dimensions": ints(d.size for d in dims),
        "window_strides": ints(d.stride for d in dims),
        "base_dilations": ints(d.base_dilation for d in dims),
        "window_dilations": ints(d.window_dilation for d in dims),
        "padding": table([(d.padding_low, d.padding_high) for d in dims]),
    }
    w.simple(i, "stablehlo.reduce_window", fields, w.region(i.called[0]))


@export("select-and-scatter", handles="window")
def select_and_scatter(w: Writer, i: Instruction) -> None:
    dims = i.attrs.window.dimensions
    if any(d.window_reversal or d.base_dilation != 1 or d.window_dilation != 1 for d in dims):
        raise Declined
    fields = {
        "window_dimensions": ints(d.size for d in dims),
        "window_strides": ints(d.stride for d in dims),
        "padding": table([(d.padding_low, d.padding_high) for d in dims]),
    }
    if not dims:
        raise Declined
    regions = [w.region(c) for c in i.called]
    w.simple(i, "stablehlo.select_and_scatter", fields, *regions)


@export("map", handles="dimensions")
def map_(w: Writer, i: Instruction) -> None:
    if i.attrs.dimensions != tuple(range(i.shape.rank)):
        raise Declined
    fields = {"dimensions": ints(i.attrs.dimensions)}
    w.simple(i, "stablehlo.map", fields, w.region(i.called[0]))


@export("scan", handles="dimensions num_carries is_reverse is_associative")
def scan(w: Writer, i: Instruction) -> None:
    plain(i)
    a, count = i.attrs, len(i.operands)
    results = len(i.shape.elements) if i.shape.is_tuple else 1
    fields = {
        "dimension": integer(a.dimensions[0]),
        "operandSegmentSizes": f"array<i32: {count - a.num_carries}, {a.num_carries}>",
        "resultSegmentSizes": f"array<i32: {results - a.num_carries}, {a.num_carries}>",
        "is_reverse": boolean(a.is_reverse),
    }
    if a.is_associative:
        fields["is_associative"] = "true"
    if count == a.num_carries:
        raise Declined
    w.simple(i, "chlo.scan", fields, w.region(i.called[0]))


@export(
    "batch-norm-inference",
    "batch-norm-training",
    "batch-norm-grad",
    handles="epsilon feature_index",
)
def batch_norm(w: Writer, i: Instruction) -> None:
    fields = {
        "epsilon": f"{float(i.attrs.epsilon):e} : f32",
        "feature_index": integer(i.attrs.feature_index),
    }
    w.simple(i, f"stablehlo.{i.opcode.replace('-', '_')}", fields)
