"""Indexed reads and writes."""

from __future__ import annotations

from hloom.frontends.stablehlo.export.reduce import plain
from hloom.frontends.stablehlo.export.registry import export
from hloom.frontends.stablehlo.export.text import boolean, ints
from hloom.frontends.stablehlo.export.writer import Writer
from hloom.ir.instruction import Instruction


@export(
    "gather",
    handles="offset_dims collapsed_slice_dims start_index_map operand_batching_dims "
    "start_indices_batching_dims index_vector_dim slice_sizes indices_are_sorted",
)
def gather(w: Writer, i: Instruction) -> None:
    a = i.attrs
    numbers = (
        f"#stablehlo.gather<offset_dims = {list(a.offset_dims)}, "
        f"collapsed_slice_dims = {list(a.collapsed_slice_dims)}, "
        f"operand_batching_dims = {list(a.operand_batching_dims)}, "
        f"start_indices_batching_dims = {list(a.start_indices_batching_dims)}, "
        f"start_index_map = {list(a.start_index_map)}, index_vector_dim = {a.index_vector_dim}>"
    )
    fields = {
        "dimension_numbers": numbers,
        "slice_sizes": ints(a.slice_sizes),
        "indices_are_sorted": boolean(a.indices_are_sorted),
    }
    w.simple(i, "stablehlo.gather", fields)


@export(
    "scatter",
    handles="update_window_dims inserted_window_dims scatter_dims_to_operand_dims "
    "input_batching_dims scatter_indices_batching_dims index_vector_dim indices_are_sorted "
    "unique_indices",
)
def scatter(w: Writer, i: Instruction) -> None:
    plain(i)
    a = i.attrs
    numbers = (
        f"#stablehlo.scatter<update_window_dims = {list(a.update_window_dims)}, "
        f"inserted_window_dims = {list(a.inserted_window_dims)}, "
        f"input_batching_dims = {list(a.input_batching_dims)}, "
        f"scatter_indices_batching_dims = {list(a.scatter_indices_batching_dims)}, "
        f"scatter_dims_to_operand_dims = {list(a.scatter_dims_to_operand_dims)}, "
        f"index_vector_dim = {a.index_vector_dim}>"
    )
    fields = {
        "scatter_dimension_numbers": numbers,
        "indices_are_sorted": boolean(a.indices_are_sorted),
        "unique_indices": boolean(a.unique_indices),
    }
    w.simple(i, "stablehlo.scatter", fields, w.region(i.called[0]))
