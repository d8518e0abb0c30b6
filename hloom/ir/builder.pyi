"""Generated from the op declarations by `make stub`; do not edit."""

from typing import Any

from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.aliasing import OutputOperandAliasing
from hloom.ir.values.conv_dims import ConvolutionDimensions
from hloom.ir.values.domain import Domain
from hloom.ir.values.groups import ReplicaGroups
from hloom.ir.values.padding import Padding
from hloom.ir.values.precision import ResultAccuracy
from hloom.ir.values.slices import Slices
from hloom.ir.values.window import Window
from hloom.types.literal import Literal
from hloom.types.shape import Shape

ShapeLike = Shape | str

def as_shape(shape: ShapeLike) -> Shape: ...

class Builder:
    def __init__(self, name: str = ...) -> None: ...
    def computation(self, name: str) -> Builder: ...
    def finish(self, root: Instruction) -> Computation: ...
    def scalar(self, opcode: str, dtype: str) -> Computation: ...
    def copy_of(self, computation: Computation) -> Computation: ...
    def build(self, root: Instruction) -> Module: ...
    @staticmethod
    def stand_alone(computation: Computation, name: str | None = ...) -> Module: ...
    def parameter(
        self, shape: ShapeLike, *, name: str | None = ..., number: int | None = ...
    ) -> Instruction: ...
    def constant(
        self, value: Any, shape: ShapeLike | None = ..., *, name: str | None = ...
    ) -> Instruction: ...
    def emit(
        self,
        opcode: str,
        *operands: Instruction,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
        **attributes: Any,
    ) -> Instruction: ...
    def abs(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = |x|; for complex types the magnitude, of the component type."""
        ...
    def acos(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = arccosine."""
        ...
    def acosh(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = inverse hyperbolic cosine."""
        ...
    def add(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = x + y; or for pred."""
        ...
    def add_dependency(
        self,
        x: Instruction,
        token: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """x, available only after token."""
        ...
    def after_all(
        self,
        *inputs: Instruction,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """A token that is ready when all input tokens are."""
        ...
    def all_gather(
        self,
        *inputs: Instruction,
        channel_id: int | None = ...,
        replica_groups: ReplicaGroups = ...,
        dimensions: tuple[int, ...],
        constrain_layout: bool = ...,
        use_global_device_ids: bool = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """Each input of every device of the group, concatenated along dimensions[0] in group order."""
        ...
    def all_gather_done(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The result of the all-gather-start x."""
        ...
    def all_gather_start(
        self,
        *inputs: Instruction,
        channel_id: int | None = ...,
        replica_groups: ReplicaGroups = ...,
        dimensions: tuple[int, ...],
        constrain_layout: bool = ...,
        use_global_device_ids: bool = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """Each input of every device of the group, concatenated along dimensions[0] in group order."""
        ...
    def all_reduce(
        self,
        *inputs: Instruction,
        channel_id: int | None = ...,
        replica_groups: ReplicaGroups = ...,
        constrain_layout: bool = ...,
        use_global_device_ids: bool = ...,
        mode: str | None = ...,
        to_apply: Computation,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """to_apply folded over the inputs of every device of the group."""
        ...
    def all_reduce_done(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The result of the all-reduce-start x."""
        ...
    def all_reduce_start(
        self,
        *inputs: Instruction,
        channel_id: int | None = ...,
        replica_groups: ReplicaGroups = ...,
        constrain_layout: bool = ...,
        use_global_device_ids: bool = ...,
        mode: str | None = ...,
        to_apply: Computation,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """to_apply folded over the inputs of every device of the group. Asynchronous: has the shape"""
        ...
    def all_to_all(
        self,
        *inputs: Instruction,
        channel_id: int | None = ...,
        replica_groups: ReplicaGroups = ...,
        constrain_layout: bool = ...,
        dimensions: tuple[int, ...] | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """Piece j of device i becomes piece i of device j: pieces are the inputs (tuple form) or"""
        ...
    def and_(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = bitwise and; logical for pred."""
        ...
    def asin(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = arcsine."""
        ...
    def asinh(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = inverse hyperbolic sine."""
        ...
    def async_done(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The result of an asynchronous operation."""
        ...
    def async_start(
        self,
        *inputs: Instruction,
        output_to_operand_aliasing: OutputOperandAliasing | None = ...,
        async_execution_thread: str = ...,
        calls: Computation,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """Starts calls(inputs...); shape ((inputs), outputs, contexts...)."""
        ...
    def async_update(
        self,
        x: Instruction,
        *inputs: Instruction,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The same asynchronous operation, a step later; inputs are further ones of its computation."""
        ...
    def atan2(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = angle of the point (y, x): atan2(x operand first, y second)."""
        ...
    def atanh(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = inverse hyperbolic tangent."""
        ...
    def batch_norm_grad(
        self,
        x: Instruction,
        scale: Instruction,
        mean: Instruction,
        variance: Instruction,
        grad_output: Instruction,
        *,
        epsilon: float,
        feature_index: int,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """Gradients (of x, of scale, of offset) of batch normalisation."""
        ...
    def batch_norm_inference(
        self,
        x: Instruction,
        scale: Instruction,
        offset: Instruction,
        mean: Instruction,
        variance: Instruction,
        *,
        epsilon: float,
        feature_index: int,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """(x - mean) / sqrt(variance + epsilon) * scale + offset along feature_index."""
        ...
    def batch_norm_training(
        self,
        x: Instruction,
        scale: Instruction,
        offset: Instruction,
        *,
        epsilon: float,
        feature_index: int,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """(x normalised by its own mean and variance per feature, that mean, that variance)."""
        ...
    def bitcast(
        self,
        x: Instruction,
        *,
        shape: ShapeLike,
        name: str | None = ...,
    ) -> Instruction:
        """The bytes of x read as another shape; layouts decide the meaning. Never moves data."""
        ...
    def bitcast_convert(
        self,
        x: Instruction,
        *,
        shape: ShapeLike,
        name: str | None = ...,
    ) -> Instruction:
        """The bits of x read as another element type; a minor dimension appears or goes when widths"""
        ...
    def broadcast(
        self,
        x: Instruction,
        *,
        dimensions: tuple[int, ...] = ...,
        shape: ShapeLike,
        name: str | None = ...,
    ) -> Instruction:
        """out[...] = x[...]; dimension k of x is dimension dimensions[k] of out, the others repeat."""
        ...
    def call(
        self,
        *inputs: Instruction,
        is_composite: bool = ...,
        output_to_operand_aliasing: OutputOperandAliasing | None = ...,
        to_apply: Computation,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """to_apply(inputs...)."""
        ...
    def cbrt(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = cube root."""
        ...
    def ceil(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = smallest integer not below x."""
        ...
    def cholesky(
        self,
        a: Instruction,
        *,
        lower: bool = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The triangular factor of each symmetric positive definite matrix; NaN where there is none."""
        ...
    def clamp(
        self,
        low: Instruction,
        x: Instruction,
        high: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = min(max(x[i], low), high); low and high have x's shape or are scalars."""
        ...
    def collective_broadcast(
        self,
        *inputs: Instruction,
        channel_id: int | None = ...,
        replica_groups: ReplicaGroups = ...,
        has_dynamic_root: bool = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The input of the first device of the group; with has_dynamic_root the last operand says for"""
        ...
    def collective_permute(
        self,
        *inputs: Instruction,
        channel_id: int | None = ...,
        source_target_pairs: tuple[tuple[int, int], ...] = ...,
        slice_sizes: tuple[tuple[int, ...], ...] = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """What the source device gives; zeros where no pair names this device as target."""
        ...
    def collective_permute_done(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The result of the collective-permute-start x."""
        ...
    def collective_permute_start(
        self,
        *inputs: Instruction,
        channel_id: int | None = ...,
        source_target_pairs: tuple[tuple[int, int], ...] = ...,
        slice_sizes: tuple[tuple[int, ...], ...] = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """What the source device gives; zeros where no pair names this device as target."""
        ...
    def collective_reduce(
        self,
        *inputs: Instruction,
        channel_id: int | None = ...,
        replica_groups: ReplicaGroups = ...,
        constrain_layout: bool = ...,
        use_global_device_ids: bool = ...,
        has_dynamic_root: bool = ...,
        to_apply: Computation,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """to_apply folded over the inputs of every device of the group, on the first device of the"""
        ...
    def compare(
        self,
        x: Instruction,
        y: Instruction,
        *,
        direction: str,
        type: str | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = x[i] DIRECTION y[i], as pred; TOTALORDER orders -NaN < -inf < ... < -0 < 0 < ..."""
        ...
    def complex(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = x + iy from two real arrays."""
        ...
    def concatenate(
        self,
        *inputs: Instruction,
        dimensions: tuple[int, ...],
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The inputs one behind the other along dimension dimensions[0]."""
        ...
    def conditional(
        self,
        selector: Instruction,
        *inputs: Instruction,
        branch_computations: tuple[Computation, ...],
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """branch_computations[selector](inputs[selector]); pred: true first; an index out of range"""
        ...
    def convert(
        self,
        x: Instruction,
        *,
        shape: ShapeLike,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = x[i] as another element type: floats round to nearest even, to integers truncate"""
        ...
    def convolution(
        self,
        lhs: Instruction,
        rhs: Instruction,
        *,
        window: Window = ...,
        dim_labels: ConvolutionDimensions,
        feature_group_count: int = ...,
        batch_group_count: int = ...,
        operand_precision: tuple[str, ...] = ...,
        convolution_kind: str | None = ...,
        sparsity_config: str | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """Sliding dot products of the window rhs over lhs; dim_labels names the dimensions of lhs,"""
        ...
    def copy(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """x, in a buffer of its own; the result may have another layout."""
        ...
    def copy_done(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The destination of the copy-start x."""
        ...
    def copy_start(
        self,
        x: Instruction,
        *,
        cross_program_prefetch_index: int | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """Starts a copy of x; shape (destination, source, context)."""
        ...
    def cosh(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = hyperbolic cosine."""
        ...
    def cosine(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = cos x, x in radians."""
        ...
    def count_leading_zeros(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = number of zero bits above the highest one bit."""
        ...
    def custom_call(
        self,
        *inputs: Instruction,
        custom_call_target: str,
        window: Window | None = ...,
        dim_labels: ConvolutionDimensions | None = ...,
        feature_group_count: int = ...,
        batch_group_count: int = ...,
        operand_layout_constraints: tuple[Shape, ...] | None = ...,
        custom_call_has_side_effect: bool = ...,
        output_to_operand_aliasing: OutputOperandAliasing | None = ...,
        literal: Literal | None = ...,
        schedule: str = ...,
        api_version: str = ...,
        padding_type: str = ...,
        operand_precision: tuple[str, ...] = ...,
        called_computations: tuple[Computation, ...],
        shape: ShapeLike,
        name: str | None = ...,
    ) -> Instruction:
        """What the handler registered as custom_call_target returns."""
        ...
    def divide(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = x / y; integers truncate toward zero, division by zero gives all ones (-1), MIN /"""
        ...
    def domain(
        self,
        x: Instruction,
        *,
        domain: Domain,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """x, between two regions of different sharding or other metadata."""
        ...
    def dot(
        self,
        lhs: Instruction,
        rhs: Instruction,
        *,
        lhs_batch_dims: tuple[int, ...] = ...,
        lhs_contracting_dims: tuple[int, ...] = ...,
        rhs_batch_dims: tuple[int, ...] = ...,
        rhs_contracting_dims: tuple[int, ...] = ...,
        operand_precision: tuple[str, ...] = ...,
        algorithm: str | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[batch, m, n] = sum over the contracting dimensions of lhs[batch, m, k] * rhs[batch, k,"""
        ...
    def dynamic_reshape(
        self,
        x: Instruction,
        *sizes: Instruction,
        shape: ShapeLike,
        name: str | None = ...,
    ) -> Instruction:
        """x with another shape whose bounded dynamic dimensions have run-time sizes (s32 scalars,"""
        ...
    def dynamic_slice(
        self,
        x: Instruction,
        *starts: Instruction,
        dynamic_slice_sizes: tuple[int, ...],
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = x[s + i], s the starts clamped so that the slice lies inside x."""
        ...
    def dynamic_update_slice(
        self,
        x: Instruction,
        update: Instruction,
        *starts: Instruction,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """x with update written at the starts, clamped so that it lies inside x."""
        ...
    def erf(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = error function, 2/sqrt(pi) * integral of exp(-t*t) from 0 to x."""
        ...
    def exp2(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = 2 ** x."""
        ...
    def exponential(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = e ** x."""
        ...
    def exponential_minus_one(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = e ** x - 1, accurate near 0."""
        ...
    def fft(
        self,
        x: Instruction,
        *,
        fft_type: str,
        fft_length: tuple[int, ...],
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """Discrete Fourier transform over the last len(fft_length) dimensions."""
        ...
    def floor(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = largest integer not above x."""
        ...
    def fusion(
        self,
        *inputs: Instruction,
        kind: str,
        output_to_operand_aliasing: OutputOperandAliasing | None = ...,
        calls: Computation,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """calls(inputs...), compiled as one kernel."""
        ...
    def gather(
        self,
        x: Instruction,
        indices: Instruction,
        *,
        offset_dims: tuple[int, ...] = ...,
        collapsed_slice_dims: tuple[int, ...] = ...,
        start_index_map: tuple[int, ...] = ...,
        operand_batching_dims: tuple[int, ...] = ...,
        start_indices_batching_dims: tuple[int, ...] = ...,
        index_vector_dim: int,
        slice_sizes: tuple[int, ...],
        indices_are_sorted: bool = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """Slices of x taken at the index vectors in indices (clamped inside x)."""
        ...
    def get_dimension_size(
        self,
        x: Instruction,
        *,
        dimensions: tuple[int, ...],
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The run-time size of dimension dimensions[0] of x, as s32."""
        ...
    def get_tuple_element(
        self,
        x: Instruction,
        *,
        index: int,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """Element index of the tuple x."""
        ...
    def imag(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = imaginary part; 0 for real types."""
        ...
    def infeed(
        self,
        token: Instruction,
        *,
        infeed_config: str = ...,
        shape: ShapeLike,
        name: str | None = ...,
    ) -> Instruction:
        """(data from the host's queue, token)."""
        ...
    def iota(
        self,
        *,
        iota_dimension: int,
        shape: ShapeLike,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = i[iota_dimension]."""
        ...
    def is_finite(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = whether x is neither infinite nor NaN; pred."""
        ...
    def log(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = natural logarithm."""
        ...
    def log_plus_one(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = log(1 + x), accurate near 0."""
        ...
    def log2(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = logarithm to base 2."""
        ...
    def logistic(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = 1 / (1 + e ** -x)."""
        ...
    def map(
        self,
        *inputs: Instruction,
        dimensions: tuple[int, ...] = ...,
        to_apply: Computation,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = to_apply(inputs[0][i], inputs[1][i], ...), to_apply on scalars."""
        ...
    def maximum(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = larger of the two; NaN wins. Complex numbers by real, then by imaginary part."""
        ...
    def minimum(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = smaller of the two; NaN wins. Complex numbers by real, then by imaginary part."""
        ...
    def mulhi(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = high half of the full integer product."""
        ...
    def multiply(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = x * y; and for pred."""
        ...
    def negate(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = -x; two's complement for integers."""
        ...
    def not_(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = bitwise complement; logical for pred."""
        ...
    def opt_barrier(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """x; nothing that uses the result runs before all of x is there, and nothing moves across."""
        ...
    def or_(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = bitwise or; logical for pred."""
        ...
    def outfeed(
        self,
        x: Instruction,
        token: Instruction,
        *,
        outfeed_shape: Shape | None = ...,
        outfeed_config: str = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """A token; x goes to the host's queue."""
        ...
    def pad(
        self,
        x: Instruction,
        value: Instruction,
        *,
        padding: Padding,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """x with value around (edge padding, negative crops) and between (interior padding) its"""
        ...
    def partition_id(
        self,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The partition this runs as, u32."""
        ...
    def popcnt(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = number of one bits."""
        ...
    def power(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = x ** y."""
        ...
    def ragged_all_to_all(
        self,
        x: Instruction,
        output: Instruction,
        input_offsets: Instruction,
        send_sizes: Instruction,
        output_offsets: Instruction,
        recv_sizes: Instruction,
        *,
        channel_id: int | None = ...,
        replica_groups: ReplicaGroups = ...,
        dimensions: tuple[int, ...] | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """Slices of x of run-time offsets and sizes, sent to each device of the group and written"""
        ...
    def ragged_dot(
        self,
        lhs: Instruction,
        rhs: Instruction,
        group_sizes: Instruction,
        *,
        lhs_batch_dims: tuple[int, ...] = ...,
        lhs_contracting_dims: tuple[int, ...] = ...,
        rhs_batch_dims: tuple[int, ...] = ...,
        rhs_contracting_dims: tuple[int, ...] = ...,
        lhs_ragged_dims: tuple[int, ...] = ...,
        rhs_group_dims: tuple[int, ...] = ...,
        operand_precision: tuple[str, ...] = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """A dot whose ragged lhs dimension is cut into groups of group_sizes; each group meets its"""
        ...
    def real(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = real part."""
        ...
    def recv(
        self,
        token: Instruction,
        *,
        channel_id: int | None = ...,
        is_host_transfer: bool = ...,
        shape: ShapeLike,
        name: str | None = ...,
    ) -> Instruction:
        """Starts receiving; shape (data, u32 context, token)."""
        ...
    def recv_done(
        self,
        x: Instruction,
        *,
        channel_id: int | None = ...,
        is_host_transfer: bool = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """(data, token), when the recv x is done."""
        ...
    def reduce(
        self,
        *inputs: Instruction,
        dimensions: tuple[int, ...] = ...,
        to_apply: Computation,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """n inputs then n initial values: fold to_apply over the elements along dimensions; a tuple"""
        ...
    def reduce_precision(
        self,
        x: Instruction,
        *,
        exponent_bits: int,
        mantissa_bits: int,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = x[i] rounded to a float of so many exponent and mantissa bits, kept in x's type."""
        ...
    def reduce_scatter(
        self,
        *inputs: Instruction,
        channel_id: int | None = ...,
        replica_groups: ReplicaGroups = ...,
        constrain_layout: bool = ...,
        use_global_device_ids: bool = ...,
        dimensions: tuple[int, ...],
        mode: str | None = ...,
        to_apply: Computation,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The device's own part along dimensions[0] of the all-reduce of the inputs."""
        ...
    def reduce_window(
        self,
        *inputs: Instruction,
        window: Window = ...,
        to_apply: Computation,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """n inputs then n initial values: fold to_apply over each window position (padding is the"""
        ...
    def remainder(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = remainder of truncating division, sign of x; x when an integer y is 0."""
        ...
    def replica_id(
        self,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The replica this runs as, u32."""
        ...
    def reshape(
        self,
        x: Instruction,
        *,
        inferred_dimension: int | None = ...,
        shape: ShapeLike,
        name: str | None = ...,
    ) -> Instruction:
        """The elements of x in row-major order under other dimensions."""
        ...
    def reverse(
        self,
        x: Instruction,
        *,
        dimensions: tuple[int, ...] = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """x with the order of elements reversed along some dimensions."""
        ...
    def rng(
        self,
        *inputs: Instruction,
        distribution: str,
        shape: ShapeLike,
        name: str | None = ...,
    ) -> Instruction:
        """Random values: uniform in [inputs[0], inputs[1]) or normal of that mean and deviation."""
        ...
    def rng_bit_generator(
        self,
        state: Instruction,
        *,
        algorithm: str,
        shape: ShapeLike,
        name: str | None = ...,
    ) -> Instruction:
        """(new state, random bits) from a state, bit-exact; or the bits alone, if so written."""
        ...
    def rng_get_and_update_state(
        self,
        *,
        delta: int,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The global random state (u64[2]), which then advances by delta."""
        ...
    def round_nearest_afz(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = nearest integer, halves away from zero."""
        ...
    def round_nearest_even(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = nearest integer, halves to even."""
        ...
    def rsqrt(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = 1 / sqrt(x)."""
        ...
    def scaled_dot(
        self,
        lhs: Instruction,
        rhs: Instruction,
        lhs_scale: Instruction,
        rhs_scale: Instruction,
        *,
        lhs_batch_dims: tuple[int, ...] = ...,
        lhs_contracting_dims: tuple[int, ...] = ...,
        rhs_batch_dims: tuple[int, ...] = ...,
        rhs_contracting_dims: tuple[int, ...] = ...,
        operand_precision: tuple[str, ...] = ...,
        algorithm: str | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The dot of lhs * lhs_scale and rhs * rhs_scale, each scale repeated over blocks."""
        ...
    def scan(
        self,
        *inputs: Instruction,
        dimensions: tuple[int, ...],
        num_carries: int = ...,
        is_reverse: bool = ...,
        is_associative: bool = ...,
        to_apply: Computation,
        shape: ShapeLike,
        name: str | None = ...,
    ) -> Instruction:
        """Inputs and initial carries: to_apply(slice, carry) -> (output slice, carry) along"""
        ...
    def scatter(
        self,
        *inputs: Instruction,
        update_window_dims: tuple[int, ...] = ...,
        inserted_window_dims: tuple[int, ...] = ...,
        scatter_dims_to_operand_dims: tuple[int, ...] = ...,
        input_batching_dims: tuple[int, ...] = ...,
        scatter_indices_batching_dims: tuple[int, ...] = ...,
        index_vector_dim: int,
        indices_are_sorted: bool = ...,
        unique_indices: bool = ...,
        to_apply: Computation,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """n operands, indices, n updates: to_apply combines each update into the operand at its"""
        ...
    def select(
        self,
        predicate: Instruction,
        on_true: Instruction,
        on_false: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = on_true[i] if predicate[i] else on_false[i]; predicate has their shape or is a"""
        ...
    def select_and_scatter(
        self,
        x: Instruction,
        source: Instruction,
        init: Instruction,
        *,
        window: Window = ...,
        select: Computation,
        scatter: Computation,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """For each window of x, the element chosen by select receives (by scatter) the matching"""
        ...
    def send(
        self,
        x: Instruction,
        token: Instruction,
        *,
        channel_id: int | None = ...,
        is_host_transfer: bool = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """Starts sending x; shape (x, u32 context, token)."""
        ...
    def send_done(
        self,
        x: Instruction,
        *,
        channel_id: int | None = ...,
        is_host_transfer: bool = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """A token, when the send x is done."""
        ...
    def set_dimension_size(
        self,
        x: Instruction,
        size: Instruction,
        *,
        dimensions: tuple[int, ...],
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """x, of which dimension dimensions[0] now has the run-time size given (an s32 scalar)."""
        ...
    def shift_left(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = x << y; 0 when y is not below the width."""
        ...
    def shift_right_arithmetic(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = x >> y keeping the sign; all sign bits when y is not below the width."""
        ...
    def shift_right_logical(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = x >> y filling zeros; 0 when y is not below the width."""
        ...
    def shuffle(
        self,
        x: Instruction,
        *,
        dimensions: tuple[int, ...],
        mode: str,
        shifts: tuple[int, ...],
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[..., i, ...] = x[..., (i + shifts[k]) mod size, ...] along each dimensions[k]; `rotate`"""
        ...
    def sign(
        self,
        x: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = -1, 0 or 1 as x is below, at or above 0 (keeps -0 and NaN); x/|x| for complex."""
        ...
    def sine(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = sin x, x in radians."""
        ...
    def sinh(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = hyperbolic sine."""
        ...
    def slice(
        self,
        x: Instruction,
        *,
        slice: Slices,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = x[start + i * stride], start <= ... < limit in each dimension."""
        ...
    def sort(
        self,
        *inputs: Instruction,
        dimensions: tuple[int, ...],
        is_stable: bool = ...,
        to_apply: Computation,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The inputs reordered together along dimensions[0] so that to_apply (less than) holds"""
        ...
    def sqrt(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = square root."""
        ...
    def stochastic_convert(
        self,
        x: Instruction,
        random: Instruction,
        *,
        shape: ShapeLike,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = x[i] as a narrower type, rounded up with the probability given by the dropped"""
        ...
    def subtract(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = x - y."""
        ...
    def tan(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = tangent, x in radians."""
        ...
    def tanh(
        self,
        x: Instruction,
        *,
        result_accuracy: ResultAccuracy | None = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = hyperbolic tangent."""
        ...
    def topk(
        self,
        x: Instruction,
        *,
        k: int,
        largest: bool = ...,
        is_stable: bool = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """(values, s32 indices) of the k largest (smallest) elements of the last dimension, in"""
        ...
    def transpose(
        self,
        x: Instruction,
        *,
        dimensions: tuple[int, ...] = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """Dimension k of out is dimension dimensions[k] of x."""
        ...
    def triangular_solve(
        self,
        a: Instruction,
        b: Instruction,
        *,
        left_side: bool = ...,
        lower: bool = ...,
        unit_diagonal: bool = ...,
        transpose_a: str = ...,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """x with op(a) x = b, or x op(a) = b when not left_side, a triangular."""
        ...
    def tuple(
        self,
        *inputs: Instruction,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """The inputs as one tuple."""
        ...
    def while_(
        self,
        x: Instruction,
        *,
        condition: Computation,
        body: Computation,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """state = x; while condition(state): state = body(state)."""
        ...
    def xor(
        self,
        x: Instruction,
        y: Instruction,
        *,
        shape: ShapeLike | None = ...,
        name: str | None = ...,
    ) -> Instruction:
        """out[i] = bitwise exclusive or; logical for pred."""
        ...
