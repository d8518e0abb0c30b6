"""The expansions in the order in which a target runs them, with the reason for each place.

`EXPANSION` is a table of passes with default options. What stands first makes what stands later
possible: arrays lose their dynamic sizes before anything counts their elements, calls are inlined
before loops are looked at, operations are written with others before those are brought to their
canonical form. `LAST` runs when nothing is left to be moved: barriers go there.
"""

from __future__ import annotations

from hloom.passes.collectives.async_collective_custom_call_rewriter import (
    AsyncCollectiveCustomCallRewriter,
)
from hloom.passes.control.call_inliner import CallInliner
from hloom.passes.control.flatten_call_graph import (
    FlattenCallGraph,
    not_called_by_loops,
)
from hloom.passes.expand.async_simplifier import AsyncSimplifier
from hloom.passes.expand.batch_norm_expander import BatchNormExpander
from hloom.passes.expand.bitcast_expander import BitcastExpander
from hloom.passes.expand.buffer_remover import BufferRemover
from hloom.passes.expand.complex_order_expander import ComplexOrderExpander
from hloom.passes.expand.control_dep_rewriter import ControlDepRewriter
from hloom.passes.expand.conv_canonicalization import ConvolutionCanonicalization
from hloom.passes.expand.custom_call_expander import CustomCallExpander
from hloom.passes.expand.defuser import Defuser
from hloom.passes.expand.degenerate_collective_elimination import (
    DegenerateCollectiveElimination,
)
from hloom.passes.expand.dot_algorithm_rewriter import DotAlgorithmRewriter
from hloom.passes.expand.dot_decomposer import DotDecomposer
from hloom.passes.expand.dynamic_padder import DynamicPadder
from hloom.passes.expand.eigh_expander import EighExpander
from hloom.passes.expand.grouped_dot_rewriter import GroupedDotRewriter
from hloom.passes.expand.linalg_upcaster import LinalgUpcaster
from hloom.passes.expand.map_inliner import MapInliner
from hloom.passes.expand.mixed_precision_removal import MixedPrecisionRemoval
from hloom.passes.expand.optimization_barrier_expander import OptimizationBarrierExpander
from hloom.passes.expand.ragged_dot_expander import RaggedDotExpander
from hloom.passes.expand.reduce_window_rewriter import ReduceWindowRewriter
from hloom.passes.expand.rng_bit_generator_expander import RngBitGeneratorExpander
from hloom.passes.expand.rng_expander import RngExpander
from hloom.passes.expand.scaled_dot_expander import ScaledDotExpander
from hloom.passes.expand.scan_expander import ScanExpander
from hloom.passes.expand.select_and_scatter_expander import SelectAndScatterExpander
from hloom.passes.expand.sharding_remover import ShardingRemover
from hloom.passes.expand.shuffle_expander import ShuffleExpander
from hloom.passes.expand.sliding_window_rewriter import SlidingWindowRewriter
from hloom.passes.expand.stochastic_convert_decomposer import StochasticConvertDecomposer
from hloom.passes.expand.zero_sized_hlo_elimination import ZeroSizedHloElimination
from hloom.passes.layout.transpose_propagation import TransposePropagation
from hloom.passes.normalize.conditional_to_select import ConditionalToSelect
from hloom.passes.normalize.dot_broadcast_sinking import DotBroadcastSinking
from hloom.passes.normalize.dot_result_order import DotResultOrder
from hloom.passes.normalize.gather_simplifier import GatherSimplifier
from hloom.passes.normalize.reshape_mover import ReshapeMover
from hloom.passes.normalize.scatter_simplifier import ScatterSimplifier
from hloom.passes.normalize.sort_simplifier import SortSimplifier
from hloom.passes.normalize.topk_rewriter import TopkRewriter
from hloom.passes.normalize.transpose_folding import TransposeFolding
from hloom.passes.normalize.while_loop_constant_sinking import WhileLoopConstantSinking
from hloom.passes.normalize.while_loop_invariant_code_motion import WhileLoopInvariantCodeMotion
from hloom.passes.normalize.while_loop_simplifier import WhileLoopSimplifier
from hloom.passes.pass_ import Pass
from hloom.passes.simplify.algsimp import AlgebraicSimplifier
from hloom.passes.simplify.dce import DeadCodeElimination
from hloom.passes.simplify.module_dce import ModuleDeadCodeElimination
from hloom.passes.simplify.tuple_simplifier import TupleSimplifier

EXPANSION: tuple[Pass, ...] = (
    BufferRemover(),  # nothing below knows buffers
    MixedPrecisionRemoval(),  # every other pass relies on operands of one type
    ControlDepRewriter(),  # its calls read values that are otherwise free to go
    AsyncCollectiveCustomCallRewriter(),  # leaves halves, which are put together below
    ShardingRemover(),  # says nothing on one device, and stands between what belongs together
    DegenerateCollectiveElimination(),  # as above; also ids, which may be trip counts
    AsyncSimplifier(),  # leaves calls, so before the inliner
    Defuser(),  # as above
    CallInliner(),  # passes below look at one computation at a time
    TupleSimplifier(),  # loops and dynamic sizes are found through elements
    ShuffleExpander(),  # slices and concatenations may have dynamic sizes in other dimensions
    BitcastExpander(),  # while layouts are those of the program
    DynamicPadder(),  # before anything that counts elements
    ComplexOrderExpander(),  # before anything that asks for the opcode of a fold
    CustomCallExpander(),
    EighExpander(),  # may leave converts
    MapInliner(),
    ScanExpander(),  # leaves calls in its loops
    SelectAndScatterExpander(),  # leaves windows
    ReduceWindowRewriter(),
    SlidingWindowRewriter(),
    RaggedDotExpander(),  # leaves dots, converts and loops
    GroupedDotRewriter(),  # before anything turns the masks that it knows
    ScaledDotExpander(),
    DotAlgorithmRewriter(),  # leaves converts, so before dots are simplified or folded
    BatchNormExpander(),
    LinalgUpcaster(),
    RngExpander(),  # with the bits of Philox, written out at once
    RngBitGeneratorExpander(),
    StochasticConvertDecomposer(),
    CallInliner(),  # what scans call
    FlattenCallGraph(skip=not_called_by_loops),  # passes on loops write into bodies
    ZeroSizedHloElimination(),  # before dots and convolutions are merged over no elements
    WhileLoopSimplifier(),
    WhileLoopConstantSinking(),  # constants in the body tell algsimp and trip counts more
    ConditionalToSelect(),
    TupleSimplifier(),
    DeadCodeElimination(),
    ModuleDeadCodeElimination(),  # elements that the passes above left unread
    TopkRewriter(),  # sees more sorts once unread elements are gone
    SortSimplifier(),
    GatherSimplifier(),
    ScatterSimplifier(),
    DotBroadcastSinking(),  # before canonical forms join what is equal and what differs
    TransposeFolding(),  # before canonical forms, which take any numbers apart
    ConvolutionCanonicalization(),  # may leave dots
    TransposeFolding(fold_convolutions=False),  # into those dots
    DotResultOrder(images=False),  # before transposes of products are moved anywhere else
    TransposePropagation(),  # the last place where dots still take any order of dimensions
    DotResultOrder(others=False),  # images whose layout stayed as it was written
    DotDecomposer(),
    AlgebraicSimplifier(),  # reshapes and transposes that met
    ReshapeMover(),
    AlgebraicSimplifier(),  # pairs that the moves brought together
    WhileLoopInvariantCodeMotion(),  # after the bodies are as small as they get
    TupleSimplifier(),
    DeadCodeElimination(),
)

LAST: tuple[Pass, ...] = (
    OptimizationBarrierExpander(),  # after the last pass that moves anything
    TupleSimplifier(),
    DeadCodeElimination(),
)
