"""The passes that make a module ready for the CPU, in order, with a reason on every line."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from hloom.base.faults import Culprit
from hloom.codegen.columns import BLOCK_SHARE as COLUMN_SHARE
from hloom.codegen.gemm_steps import STEPS_PER_UNIT as PRODUCT_STEPS
from hloom.device.costs import Costs
from hloom.device.device import Device
from hloom.ir.module import Module
from hloom.passes.collectives.all_gather_combiner import AllGatherCombiner
from hloom.passes.collectives.all_gather_dynamic_slice_simplifier import (
    AllGatherDynamicSliceSimplifier,
)
from hloom.passes.collectives.all_gather_simplifier import AllGatherSimplifier
from hloom.passes.collectives.all_reduce_folder import AllReduceFolder
from hloom.passes.collectives.all_reduce_reassociate import AllReduceReassociate
from hloom.passes.collectives.all_reduce_simplifier import AllReduceSimplifier
from hloom.passes.collectives.all_reduce_splitter import AllReduceSplitter
from hloom.passes.collectives.collective_permute_combiner import CollectivePermuteCombiner
from hloom.passes.collectives.collective_permute_folder import CollectivePermuteFolder
from hloom.passes.collectives.cpu_all_reduce_combiner import CpuAllReduceCombiner
from hloom.passes.collectives.reduce_scatter_combiner import ReduceScatterCombiner
from hloom.passes.collectives.reduce_scatter_creator import ReduceScatterCreator
from hloom.passes.collectives.reduce_scatter_reassociate import ReduceScatterReassociate
from hloom.passes.collectives.while_loop_all_reduce_code_motion import WhileLoopAllReduceCodeMotion
from hloom.passes.control.call_inliner import CallInliner
from hloom.passes.expand.async_simplifier import AsyncSimplifier
from hloom.passes.expand.defuser import Defuser
from hloom.passes.expand.dilated_window_rewriter import DilatedWindowRewriter
from hloom.passes.expand.dot_decomposer import DotDecomposer, canonical_dots
from hloom.passes.expand.dynamic_padder import static_shapes
from hloom.passes.expand.mixed_precision_removal import one_precision
from hloom.passes.expand.pipeline_order import EXPANSION, LAST
from hloom.passes.expand.sliding_window_rewriter import SlidingWindowRewriter
from hloom.passes.expand.split_k_rewriter import SplitKRewriter
from hloom.passes.expand.tree_reduction_rewriter import TreeReductionRewriter
from hloom.passes.expand.weight_gradient_splitter import WeightGradientSplitter
from hloom.passes.facts import Fact, no_dead_code
from hloom.passes.fuse.attention_fusion import AttentionFusion
from hloom.passes.fuse.fusion import Fusion
from hloom.passes.fuse.library_rewriter import LibraryRewriter
from hloom.passes.layout.layout_normalization import LayoutNormalization, row_major_inside
from hloom.passes.layout.reshape_to_bitcast import ReshapeToBitcast
from hloom.passes.layout.sub_byte_normalization import SubByteNormalization, bytes_inside
from hloom.passes.layout.weight_panels import WeightPanels
from hloom.passes.layout.while_loop_weight_panels import WhileLoopWeightPanels
from hloom.passes.normalize.discontinuity_rounding import DiscontinuityRounding
from hloom.passes.normalize.masked_softmax import MaskedSoftmax
from hloom.passes.normalize.pad_folding import PadFolding
from hloom.passes.normalize.while_loop_fresh_stacks import WhileLoopFreshStacks
from hloom.passes.normalize.while_loop_invariant_code_motion import WhileLoopInvariantCodeMotion
from hloom.passes.normalize.while_loop_product_motion import WhileLoopProductMotion
from hloom.passes.normalize.while_loop_state_splitting import WhileLoopStateSplitting
from hloom.passes.normalize.while_loop_unroller import WhileLoopUnroller
from hloom.passes.normalize.window_trimmer import WindowTrimmer
from hloom.passes.pass_ import Pass
from hloom.passes.pipeline import FixedPoint, Pipeline
from hloom.passes.simplify.algsimp import AlgebraicSimplifier
from hloom.passes.simplify.constant_folding import ConstantFolding
from hloom.passes.simplify.cse import CommonSubexpressionElimination
from hloom.passes.simplify.dce import DeadCodeElimination
from hloom.passes.simplify.tuple_simplifier import TupleSimplifier
from hloom.targets.cpu.library_calls import LibraryCalls
from hloom.targets.cpu.packed_matrix import packed_matrix

if TYPE_CHECKING:
    from hloom.targets.cpu.libraries import Libraries

STEPS_PER_UNIT = 4
"""Long rows, or parts of what is cut, so that all cores have some."""
MOST_STEPS = 64
"""Of what is cut in parts, on however many cores: each is worth a start, and all are added up."""
MEETINGS = 16
"""How many times what a meeting of devices costs its bytes may take, to be combined with others."""
PROGRAM_CALLS = frozenset(["hloom_manual_region"])
"""Custom calls whose handlers are programs of their own: they take arrays as callers have them."""


LOWERED: tuple[Fact, ...] = (
    one_precision,
    static_shapes,  # but what hands arrays of run-time size on
    canonical_dots,
    row_major_inside,
    bytes_inside,
    no_dead_code,
    *(fact for p in (*EXPANSION, *LAST) for fact in p.gives if fact.opcodes),
)
"""What lowering relies on: a pipeline that cannot promise it is not built."""


def simplification() -> Pass:
    """Rewrites that make later ones possible, until none applies."""
    inner = (
        TupleSimplifier(),
        AlgebraicSimplifier(),
        ConstantFolding(),
        CommonSubexpressionElimination(),
        DeadCodeElimination(),
    )
    return FixedPoint(Pipeline("simplification", inner), limit=5)


def runs_on_several_devices(module: Module) -> bool:
    """Whether there may be collectives: for one device they are gone."""
    return module.replica_count * module.num_partitions > 1


def collective_simplification() -> Pass:
    """Less communication for the same results."""
    return Pipeline(
        "collectives",
        (
            AllReduceSimplifier(),  # what all have already needs no sending
            AllGatherSimplifier(),
            AllReduceFolder(),
            AllReduceReassociate(),  # sums of them first, so that their slices are found
            AllReduceSplitter(),  # so that the shards of smaller groups are found
            ReduceScatterCreator(),  # half the bytes
            ReduceScatterReassociate(),
            AllGatherDynamicSliceSimplifier(),
            CollectivePermuteFolder(),
            WhileLoopAllReduceCodeMotion(),  # once for all steps
            DeadCodeElimination(),
        ),
        where=runs_on_several_devices,
    )


def collective_combination(device: Device | None) -> Pass:
    """Several small collectives as one, as long as what a meeting costs shows beside its bytes:
    what is combined waits for the last operand, and all of them are in memory until then."""
    costs = device.costs if device is not None else Costs()
    most = int(MEETINGS * costs.meeting_ns / costs.byte_ns)
    return Pipeline(
        "combination",
        (
            CpuAllReduceCombiner(combine_threshold_in_bytes=most),
            ReduceScatterCombiner(combine_threshold_in_bytes=most),
            AllGatherCombiner(combine_threshold_in_bytes=most),
            CollectivePermuteCombiner(combine_threshold_in_bytes=most),
        ),
        where=runs_on_several_devices,
    )


def expansion_for(device: Device | None, libraries: Libraries = ()) -> tuple[Pass, ...]:
    """The expansions, with computations left in two halves that a device runs beside others, and
    fusions of libraries kept."""
    if libraries:
        keeping = Defuser(kinds=frozenset([kind for kind, _ in libraries]))
        rest = expansion_for(device)
        return tuple([keeping if type(p) is Defuser else p for p in rest])
    if device is None or device.compute.units < 2:
        return EXPANSION
    costs = device.costs
    asynchronous = AsyncSimplifier(
        long_ns=costs.concurrency_gain_ns, operation_ns=costs.operation_ns, byte_ns=costs.byte_ns
    )
    return tuple([asynchronous if type(p) is AsyncSimplifier else p for p in EXPANSION])


def fusion_for(device: Device | None, without: tuple[str, ...]) -> Fusion:
    """Fusion by what things cost on a device, how many cores it has and how much is near them."""
    if device is None:
        return Fusion(without=without)
    costs = device.costs
    return Fusion(
        without=without,
        row_bytes=device.near_bytes // 2,
        cached_bytes=2 * device.nearest_bytes,
        least_rows=STEPS_PER_UNIT * device.compute.units,
        operation_ns=costs.operation_ns,
        byte_ns=costs.byte_ns,
        kernel_ns=costs.kernel_ns,
        inline_ns=costs.inline_ns,
        weights=costs.weights,
        row_parallel=costs.parallel_row,
        inner_product_flops=costs.inner_product_flops,
        # As many blocks of rows as of columns.
        product_blocks=(PRODUCT_STEPS * device.compute.units) ** 0.5,
        tile_types=tuple([(a, b) for a, b, _ in device.compute.matrix_tiles]),
        vector_floats=device.compute.vector_floats,
    )


def libraries_for(libraries: Libraries) -> tuple[Pass, ...]:
    """What gives libraries what they accept."""
    if not libraries:
        return ()
    return LibraryRewriter(libraries), LibraryCalls(frozenset([kind for kind, _ in libraries]))


def attention_for(device: Device | None) -> AttentionFusion:
    """Attention as one kernel, where the scores would fill a core's second-level cache."""
    if device is None:
        return AttentionFusion()
    return AttentionFusion(min_scores=device.near_bytes // 4)


def splitters_for(device: Device | None) -> tuple[Pass, ...]:
    """What cuts long sums in parts, for as many cores as a device has."""
    if device is None:
        return SplitKRewriter(), WeightGradientSplitter(), TreeReductionRewriter()
    steps = min(STEPS_PER_UNIT * device.compute.units, MOST_STEPS)
    least = device.costs.parallel_bytes
    return (
        SplitKRewriter(enough_steps=steps, least_bytes=least),
        WeightGradientSplitter(most_parts=2 * steps, most_channels=64 * steps, least_bytes=least),
        TreeReductionRewriter(
            enough_steps=steps,
            block_bytes=int(device.nearest_bytes * COLUMN_SHARE),
            least_bytes=least,
            least_columns_bytes=device.compute.vector_bytes // 2,  # as kernels of columns have it
            least_row=least // 4,
        ),
    )


@cache
def cpu_pipeline(
    device: Device | None = None,
    left_out: frozenset[Culprit] = frozenset(),
    libraries: Libraries = (),
) -> Pipeline:
    """What runs between verification and scheduling, without kinds of fusions that are left out,
    and with some fusions taken apart again; what libraries accept is theirs."""
    kinds = tuple(sorted(c.name for c in left_out if c.kind == "fusion"))
    apart = tuple(sorted(c.name for c in left_out if c.kind == "fused"))
    return Pipeline(
        "cpu",
        (
            Pipeline(
                "expansion", expansion_for(device, libraries)
            ),  # few opcodes are left, canonical forms
            simplification(),
            PadFolding(),  # once constants are known: windows leave zeros out, a pad makes them
            SlidingWindowRewriter(),  # cumulative sums of what was padded, which reach farther now
            WindowTrimmer(),  # once pads are padding: places that see nothing else go
            DilatedWindowRewriter(),  # once pads are dilations
            WhileLoopUnroller(),  # once bodies are small: short loops become fusions
            WhileLoopStateSplitting(),  # once calls are gone: steps of small systems in registers
            WhileLoopInvariantCodeMotion(),  # loops compute only what changes
            WhileLoopProductMotion(),  # products of few rows, of all steps at once
            DotDecomposer(),  # of which the steps are one more dimension
            collective_simplification(),  # once the offsets of shards are plain
            Pipeline("barriers", LAST),  # nothing moves across computations from here on
            # Packed where callers and handlers see them; kernels address bytes.
            SubByteNormalization(packed_calls=PROGRAM_CALLS),
            LayoutNormalization(),  # every array row-major; transposes say what layouts said
            simplification(),
            WhileLoopFreshStacks(),  # once equal values are one: each stack has memory of its own
            *libraries_for(libraries),  # before anything is made for kernels of our own
            MaskedSoftmax(),  # before attention: scores that nothing else reads are never in memory
            DeadCodeElimination(),
            attention_for(device),  # before its dots and reductions are cut in parts
            collective_combination(device),  # before what is around them is fused
            *taken_apart(apart),  # so that its parts are fused otherwise
            # Once it is plain which dimension is K, and before anything is fused.
            *splitters_for(device),
            ReshapeToBitcast(),  # what only renames memory is no work
            DiscontinuityRounding(),  # the same digits in every kernel, once nothing removes it
            fusion_for(device, kinds),
            *taken_apart(apart),
            *weight_panels_for(device),  # once it is plain which kernels read them
            DeadCodeElimination(),
        ),
        leaves=LOWERED,
    )


def weight_panels_for(device: Device | None) -> tuple[WeightPanels, WhileLoopWeightPanels]:
    """What lays constants, and what loops do not change, out as products read them on a device."""
    if device is None:
        return WeightPanels(), WhileLoopWeightPanels()
    packed = partial(packed_matrix, device)
    return WeightPanels(packed), WhileLoopWeightPanels(packed, most_bytes=device.last_bytes)


def taken_apart(fusions: tuple[str, ...]) -> tuple[Pass, ...]:
    """What takes the fusions of these names apart."""
    if not fusions:
        return ()
    return (Defuser(only=fusions), CallInliner(), TupleSimplifier())
