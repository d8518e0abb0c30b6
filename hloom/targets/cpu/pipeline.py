"""The passes that make a module ready for the CPU, in order, with a reason on every line."""

from __future__ import annotations

from hloom.passes.control.call_inliner import CallInliner
from hloom.passes.expand.batch_norm_expander import BatchNormExpander
from hloom.passes.expand.conv_canonicalization import ConvolutionCanonicalization
from hloom.passes.expand.dot_decomposer import DotDecomposer
from hloom.passes.expand.map_inliner import MapInliner
from hloom.passes.expand.optimization_barrier_expander import OptimizationBarrierExpander
from hloom.passes.expand.ragged_dot_expander import RaggedDotExpander
from hloom.passes.expand.rng_bit_generator_expander import RngBitGeneratorExpander
from hloom.passes.expand.rng_expander import RngExpander
from hloom.passes.expand.scaled_dot_expander import ScaledDotExpander
from hloom.passes.expand.stochastic_convert_decomposer import StochasticConvertDecomposer
from hloom.passes.pass_ import Pass
from hloom.passes.pipeline import FixedPoint, Pipeline
from hloom.passes.simplify.algsimp import AlgebraicSimplifier
from hloom.passes.simplify.constant_folding import ConstantFolding
from hloom.passes.simplify.cse import CommonSubexpressionElimination
from hloom.passes.simplify.dce import DeadCodeElimination
from hloom.passes.simplify.tuple_simplifier import TupleSimplifier


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


def cpu_pipeline() -> Pipeline:
    """What runs between verification and scheduling."""
    return Pipeline(
        "cpu",
        (
            CallInliner(),  # everything below works within a computation
            OptimizationBarrierExpander(),
            MapInliner(),  # its body becomes ordinary elementwise operations
            BatchNormExpander(),
            RngExpander(),
            RngBitGeneratorExpander(),
            StochasticConvertDecomposer(),
            ScaledDotExpander(),
            RaggedDotExpander(),
            ConvolutionCanonicalization(),
            DotDecomposer(),
            simplification(),
        ),
    )
