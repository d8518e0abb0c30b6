"""The sizes at which the compiler changes its mind, as tests see them.

Each is a named value of the code that decides by it. `unit` says what is compared with it, so that
a program can be drawn just below, at and above: `elements` of an array or of a row, `bytes` of an
array, a `dimension`, `flops` of a product. A test holds this list to the code
(`test_thresholds.py`): a new value stands here, or in `NO_SIZES` with what it is instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

from hloom.codegen.crosswise import BLOCK_LINES
from hloom.codegen.llvm.thunks.copy import INLINE_VECTORS
from hloom.device.device import Device
from hloom.kernel.kernel import STACK_LIMIT
from hloom.targets.cpu.device import host_device

NO_SIZES: dict[str, str] = {
    "analysis.alias_tree": "FOREVER",
    "analysis.alias_values": "NEST_LIMIT",
    "analysis.attention": "MOST",
    "analysis.device_values": "MOST_STEPS MOST_TABLE",
    "analysis.fusion_form": "MAX_MAPS",
    "analysis.replication": "MOST_ROUNDS",
    "analysis.trip_count": "MOST_STEPS",
    "codegen.attention_tiling": "STEPS_PER_UNIT BESIDE TILE_ROWS",
    "codegen.branches": "MOST_GROUPS",
    "codegen.crosswise": "SHUFFLED WORD_BYTES",
    "codegen.blocked_fold": "RUN DEEP_RUN FEW_RUN TILE_RUN",
    "codegen.cumulative": "ALONG_RUN DEAR_WORK",
    "codegen.lines_ahead": "LEAST_TILE ROWS_AHEAD",
    "codegen.elements_select": "DEAR_SIDE MOST_APART MOST_CONDITIONS",
    "codegen.depthwise": "LINE_RUN",
    "codegen.packing": "BIAS",
    "codegen.extreme_keys": "PLAIN_WEIGHT",
    "codegen.gemm_candidates": "FEW MOST_HEIGHT",
    "codegen.gemm_skinny": "ALONG_RUN ALONG_FEW_RUN FEW_SUMS MOST_FINISHED",
    "passes.expand.async_simplifier": "FUNCTION_OPERATIONS",
    "passes.expand.conv_forms": "MOST_CONVOLUTIONS MOST_TERMS",
    "passes.expand.dot_decomposer": "PARTED",
    "passes.expand.dynamic_values": "MOST",
    "passes.expand.grouped_rows": "LEAST_TILE MOST_COMPARED MOST_ROWS",
    "passes.expand.ragged_dot_expander": "MOST_LOOPED MOST_WRITTEN",
    "passes.expand.dot_algorithm_rewriter": "_UPPER_HALF",
    "codegen.columns": "MODERATE",
    "codegen.depthwise_shape": "MOST_REPEATED MOST_SCRATCH_SHARE MOST_TAPS STEPS_PER_UNIT",
    "codegen.grouped": "WRITTEN_OUT",
    "codegen.grouped_shape": "LEAST_SHARED_ROWS MOST_ALONE_VECTORS SUM_REGISTERS_SHARE",
    "codegen.elements_concatenate": "MANY_IN_TURN",
    "codegen.pieces": "MANY_PARTS",
    "codegen.narrow_convolution": "LEAST_FILLED MOST_NEIGHBOURS MOST_OUTPUTS MOST_OF_GROUPS GROUP",
    "codegen.gemm_steps": "DIRECT_STEPS_PER_UNIT STEPS_PER_UNIT",
    "codegen.gemm_tiling": "ALONG_COLUMNS",
    "codegen.scratch_sums": "BLOCK_TERMS COPIES",
    "codegen.short_rows": "MOST_AFTER",
    "codegen.walk": "WIDE_WORK FUNCTION_WORK MOST_CHAINED LONG_STEP STEPS_PER_UNIT",
    "codegen.row_tiles": "MOST_VECTORS MOST_WRITTEN ROW_WORK ONE_AT_A_TIME LANE_WORK FAR_LANE_WORK",
    "passes.expand.scan_expander": "MOST_STEPS",
    "passes.normalize.topk_rewriter": "MOST_ELEMENTS",
    "passes.expand.stochastic_convert_decomposer": "_BIAS _MANTISSA",
    "passes.expand.zero_sized_hlo_elimination": "MOST_BESIDE_ZERO",
    "passes.expand.reduce_window_rewriter": "BLOCK MOST_OPERATIONS TRIALS",
    "passes.expand.random_bits": "PHILOX_ROUNDS THREEFRY_PARITY THREEFRY_ROUNDS",
    "passes.expand.rng_bit_generator_expander": "MOST_STATE_WORDS",
    "passes.expand.rng_expander": "SEED _WORDS",
    "passes.expand.tree_reduction_rewriter": "WANTED MOST",
    "passes.fuse.cost": "MOST_LOOKED_AT",
    "codegen.llvm.lower_crosswise": "MOST_PICKED MOST_PICKED_ODD MOST_PICKED_NARROW",
    "passes.fuse.group": "MOST_BEHIND TURNED",
    "passes.fuse.overwritten": "SHARE MOST_READERS MOST_BEHIND",
    "passes.fuse.merge": "MOST_RESULTS MOST_READERS MOST_OPEN",
    "passes.fuse.order": "BUDGET",
    "passes.layout.dimension_orders": "MOST_REMEMBERED",
    "passes.layout.joined_dimensions": "MOST",
    "passes.layout.order_choice": "CHAINS SWEEPS",
    "passes.layout.order_graph": "TRIPS",
    "passes.layout.order_rules": "PACKED NEAR",
    "passes.layout.tiled_bitcasts": "MOST_ASKED",
    "passes.normalize.reshape_mover": "MOST_RESHAPES",
    "passes.normalize.while_loop_invariant_code_motion": "FEW",
    "passes.normalize.while_loop_unroller": "FEW",
    "passes.simplify.algebra.folds": "MOST_PIECES",
    "targets.cpu.lower.carried_rows": "LEAST_BITS",
    "targets.cpu.lower.element_loop": "LEAST_TRIPS CHEAP_WORK CARRIED_VECTORS MOST_VECTORS"
    " MOST_REPEATED STEPS_PER_UNIT",
    "targets.cpu.lower.sort": "MOST_OPERANDS",
    "targets.cpu.lower.views": "MOST_PARTS",
    "targets.cpu.lower.loop_steps": "LONG_NS LEAST_STEPS MOST_STEPS MOST_INSTRUCTIONS",
}
"""Numbers that are no sizes of arrays: times, counts of instructions or steps, bits, rates."""

_SIZES: dict[str, dict[str, str]] = {
    "analysis.attention_form": {"MOST_WIDE": "dimension"},
    "analysis.fusible": {"MOST_CONSTANT_ELEMENTS": "elements"},
    "codegen.attention_tiling": {
        "KEYS_SHARE": "share of keys",
        "LEAST_ROWS": "dimension",
        "MOST_ROWS": "dimension",
    },
    "codegen.columns": {
        "BLOCK_SHARE": "nearest bytes",
        "LEAST_VECTORS": "dimension",
        "MANY_ROWS": "dimension",
    },
    "codegen.crosswise": {
        "FEW_ACROSS": "dimension",
        "NARROW_TILE": "dimension",
        "SMALL_SHARE": "nearest bytes",
        "STREAMED_SHARE": "last bytes",
    },
    "codegen.depthwise_shape": {
        "SCRATCH_SHARE": "share",
        "LEAST_CHANNELS": "dimension",
        "MOST_COLUMNS": "dimension",
    },
    "codegen.elements_fold": {"SHORT_ROW": "dimension"},
    "codegen.gemm_groups": {"ACROSS": "dimension", "DEEP": "dimension"},
    "codegen.matrix_tiling": {
        "FEW_ROW_TILES": "dimension",
        "LONG_ROW_BYTES": "dimension",
        "PACKED_DEPTH_BYTES": "dimension",
    },
    "codegen.packing": {
        "TILE_LINES": "dimension",
        "FEWEST_ROWS": "dimension",
        "FEWEST_NARROW_ROWS": "dimension",
    },
    "codegen.window_rows": {"COMMON_HEIGHT": "dimension"},
    "codegen.gemm_pack": {"SQUARE": "dimension"},
    "codegen.narrow_convolution": {"MOST_WEIGHTS_SHARE": "share", "ROWS_SHARE": "share"},
    "codegen.gemm_tiling": {
        "ACROSS_SHARE": "share",
        "DEEP_ALONG": "dimension",
        "LEAST_DEPTH": "dimension",
        "LONG_K": "dimension",
        "PANEL_SHARE": "share",
        "PARTIAL_SHARE": "share",
        "SUMS_SHARE": "share",
    },
    "codegen.column_form": {"LEAST_ROWS": "dimension"},
    "passes.layout.indexed_orders": {"ROW": "dimension"},
    "passes.layout.order_rules": {
        "LEAST_THIN": "elements",
        "LEAST_POINTS": "dimension",
        "LONG_FOLD": "dimension",
        "THIN": "dimension",
        "SHORT_ROW": "dimension",
        "THIN_OF_PAIRS": "dimension",
    },
    "codegen.gemm_skinny": {"DEEP": "dimension", "MOST_SUMS_SHARE": "share"},
    "codegen.pieces": {"FEW_ROWS": "dimension", "MANY_ELEMENTS": "elements"},
    "codegen.product": {"FEW_COLUMNS": "dimension"},
    "codegen.product_convolution": {
        "FEW_ROWS": "dimension",
        "FILTER_FEATURES": "dimension",
        "FILTER_LONG_ROW": "dimension",
        "FILTER_OUTPUTS": "dimension",
        "FILTER_PAIRS": "dimension",
        "FILTER_ROW": "dimension",
        "FILTER_STRIDE": "dimension",
        "LEAST_OUTPUTS": "dimension",
    },
    "codegen.select_and_scatter": {"LEAST_ROW": "dimension"},
    "codegen.scratch_sums": {"LEAST_TERMS": "dimension", "MOST_SHARE": "share"},
    "codegen.walk": {"BLOCK_SHARE": "nearest elements"},
    "codegen.loops": {"SINGLE_TILE": "elements"},
    "passes.expand.conv_forms": {"LEAST_FEATURES": "dimension"},
    "passes.expand.reduce_window_rewriter": {"LEAST_LENGTH": "dimension"},
    "passes.expand.select_and_scatter_expander": {
        "MOST_WINDOWS": "dimension",
        "LONG_SUM": "dimension",
    },
    "passes.expand.sliding_window_rewriter": {
        "LONG": "dimension",
        "LONG_DILATED": "dimension",
        "LEAST_PLACES": "dimension",
    },
    "passes.expand.split_k_rewriter": {
        "MOST_VECTORS": "dimension",
        "LEAST_DEPTH": "dimension",
        "MOST_NARROW": "dimension",
        "MOST_RESULTS": "elements",
    },
    "passes.fuse.cost": {
        "FEW_ROWS": "dimension",
        "BLOCK_LINES": "dimension",
        "FEW_IN_ROW": "dimension",
        "LEAST_PACKED": "dimension",
    },
    "passes.fuse.group": {
        "FEW_WIDE": "dimension",
        "SHORT_ROW": "dimension",
    },
    "passes.normalize.dot_result_order": {"MANY_ROWS": "dimension"},
    "passes.normalize.reshape_mover": {"MOST_CONSTANT_ELEMENTS": "elements"},
    "passes.simplify.cse": {"MOST_CONSTANT_ELEMENTS": "elements"},
    "targets.cpu.lower.carried_rows": {"ROW_VECTORS": "dimension"},
    "targets.cpu.lower.families": {"TINY_SIZE": "dimension"},
}

_FIELDS: dict[str, dict[str, str]] = {
    "device.costs:Costs": {
        "along_depth_rows": "dimension",
        "along_long_depth_rows": "dimension",
        "direct_columns": "dimension",
        "direct_rows": "dimension",
        "few_direct_rows": "dimension",
        "grouped_rows": "dimension",
        "inner_product_flops": "flops",
        "loop_product_flops": "flops",
        "parallel_bytes": "bytes",
        "parallel_row": "elements",
    },
    "passes.fuse.attention_fusion:AttentionFusion": {
        "min_rows": "dimension",
        "min_scores": "elements",
    },
    "passes.expand.split_k_rewriter:SplitKRewriter": {"enough_steps": "dimension"},
    "passes.expand.tree_reduction_rewriter:TreeReductionRewriter": {
        "block_bytes": "bytes",
        "enough_steps": "dimension",
        "least_columns_bytes": "bytes",
        "least_row": "elements",
    },
    "passes.expand.weight_gradient_splitter:WeightGradientSplitter": {
        "most_channels": "dimension",
        "most_parts": "dimension",
    },
    "passes.fuse.group:Limits": {
        "cached_bytes": "bytes",
        "least_rows": "dimension",
        "row_bytes": "bytes",
        "row_parallel": "elements",
        "sequence_elements": "elements",
        "vector_floats": "elements",
    },
}
"""Costs and options of passes that are sizes."""


@dataclass(frozen=True)
class Threshold:
    """One size: where it stands, its value, and what is compared with it."""

    name: str
    value: int
    unit: str

    def elements(self, element_bytes: int) -> int:
        """How many elements reach it."""
        return max(1, self.value // element_bytes if self.unit == "bytes" else self.value)


def thresholds() -> list[Threshold]:
    """All of them; shares of a cache in bytes of this machine's."""
    found = []
    device = host_device()
    near = min(device.near_bytes, STACK_LIMIT)
    for room, names in _SIZES.items():
        module = import_module(f"hloom.{room}")
        for n, unit in names.items():
            value = getattr(module, n)
            if unit == "share":
                unit, value = "bytes", int(value * near)
            elif unit.startswith("nearest "):
                unit, value = unit.removeprefix("nearest "), int(value * device.nearest_bytes)
            elif unit.startswith("last "):
                unit, value = unit.removeprefix("last "), int(value * device.last_bytes)
            elif unit == "share of keys":
                unit, value = "dimension", int(value * near)
            found.append(Threshold(f"{room}.{n}", value, unit))
    for place, names in _FIELDS.items():
        room, _, owner = place.partition(":")
        made: Any = getattr(import_module(f"hloom.{room}"), owner)()
        found += [Threshold(f"{room}.{n}", getattr(made, n), u) for n, u in names.items()]
    return [*found, *_of_compute(device)]


def _of_compute(device: Device) -> list[Threshold]:
    """Sizes that follow from what a device computes with."""
    step = device.costs.least_step_cycles * device.compute.operations_each_cycle("f32")
    copied = INLINE_VECTORS * device.compute.vector_bytes
    block = BLOCK_LINES * device.line_bytes
    return [
        Threshold("device.compute.vector_floats", device.compute.vector_floats, "dimension"),
        Threshold("codegen.crosswise.BLOCK_LINES", block, "bytes"),
        Threshold("codegen.llvm.thunks.copy.INLINE_VECTORS", copied, "bytes"),
        Threshold("device.costs.Costs.least_step_cycles", int(step), "flops"),
    ]
