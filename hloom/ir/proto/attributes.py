"""Which codec says which attribute of which operation in `HloInstructionProto`.

`ATTRIBUTES` is keyed by attribute name (those of HLO text); `BY_OPCODE` by opcode and name where
one name is said in different fields. `NEEDED` are the messages without which an operation means
nothing. `op_codec` puts them together for one operation.
"""

from dataclasses import dataclass
from struct import pack, unpack
from typing import Any

from hloom.base.diagnostics import ProtoError, did_you_mean
from hloom.ir.computation import MAIN_THREAD
from hloom.ir.op import OPS, OpDef
from hloom.ir.proto import structured
from hloom.ir.proto.codec import (
    Codec,
    Context,
    enumeration,
    inside,
    repeated,
    scalar,
    text,
    word,
)
from hloom.ir.proto.groups import read_groups, write_groups
from hloom.ir.proto.literal import read_literal, write_literal
from hloom.types.literal import Literal

DIRECTIONS = ("EQ", "NE", "GE", "GT", "LE", "LT")
FUSION_KINDS = ("kLoop", "kInput", "kOutput", "kCustom")


def _first_dimension(message: Any, _: Context) -> int:
    if len(message.dimensions) != 1:
        raise ProtoError(f"{len(message.dimensions)} dimensions where one is needed")
    return message.dimensions[0]


def _read_inferred_dimension(message: Any, _: Context) -> int | None:
    return message.dimensions[0] if message.dimensions else None


def _write_first_dimension(value: int | None, message: Any, _: Context) -> None:
    if value is not None:
        message.dimensions.append(value)


def _default_comparison(context: Context) -> str:
    """What a comparison of such operands is called when nothing is written."""
    if not context.operands:
        return "FLOAT"
    dtype = context.operands[0].shape.dtype
    if dtype.is_floating or dtype.is_complex:
        return "FLOAT"
    return "SIGNED" if dtype.is_integral and dtype.is_signed else "UNSIGNED"


def _read_comparison_type(message: Any, context: Context) -> str | None:
    written = message.comparison_type
    if message.comparison_order not in ("", "TOTAL", "PARTIAL"):
        raise ProtoError(f"unknown comparison_order {message.comparison_order!r}")
    if message.comparison_order == "TOTAL" and _default_comparison(context) == "FLOAT":
        return "TOTALORDER"
    if written not in ("", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"):
        raise ProtoError(f"unknown comparison_type {written!r}")
    return None if not written or written == _default_comparison(context) else written


def _write_comparison_type(value: str | None, message: Any, context: Context) -> None:
    message.comparison_type = value or _default_comparison(context)


def _read_constraints(message: Any, context: Context) -> tuple | None:
    if not message.constrain_layout:
        return None
    return tuple([context.shapes.shape(s) for s in message.operand_shapes_with_layout])


def _write_constraints(value: tuple | None, message: Any, context: Context) -> None:
    if value is not None:
        message.constrain_layout = True
        for shape in value:
            message.operand_shapes_with_layout.add().CopyFrom(context.shape_messages.message(shape))


def _read_outfeed_shape(message: Any, context: Context) -> Any:
    has_shape = message.HasField("outfeed_shape")
    return context.shapes.shape(message.outfeed_shape) if has_shape else None


def _write_outfeed_shape(value: Any, message: Any, context: Context) -> None:
    if value is not None:
        message.outfeed_shape.CopyFrom(context.shape_messages.message(value))


def _read_slice_sizes(message: Any, context: Context) -> tuple[tuple[int, ...], ...]:
    """The sizes stand in one list; the rank of what is sent cuts it."""
    sizes = tuple(message.dynamic_slice_sizes)
    if not sizes:
        return ()
    sent = context.operands[0].shape if context.operands else None
    ranks = [leaf.rank for leaf in sent.leaves()] if sent is not None else []
    rank = ranks[0] if ranks else 0
    if rank == 0 or len(sizes) % rank:
        raise ProtoError(f"{len(sizes)} slice sizes for slices of rank {rank}")
    return tuple(sizes[at : at + rank] for at in range(0, len(sizes), rank))


def _write_slice_sizes(value: tuple[tuple[int, ...], ...], message: Any, _: Context) -> None:
    for sizes in value:
        message.dynamic_slice_sizes.extend(sizes)


def _read_prefetch_index(message: Any, _: Context) -> int | None:
    if message.HasField("cross_program_prefetch_index"):
        return message.cross_program_prefetch_index
    return 0 if message.is_cross_program_prefetch else None  # the latter in old files


def _read_channel_id(message: Any, _: Context) -> int | None:
    return message.channel_id or message.all_reduce_id or None  # the latter in old files


def _write_channel_id(value: int | None, message: Any, context: Context) -> None:
    """Channel 0 is a channel in text, but none in messages: it gets a number that is free."""
    if value is not None:
        message.channel_id = value or context.channel_for_zero


def _read_is_associative(message: Any, _: Context) -> bool:
    return message.is_associative == 1


def _write_is_associative(value: bool, message: Any, _: Context) -> None:
    message.is_associative = 1 if value else 0


def _read_convolution_kind(message: Any, _: Context) -> str | None:
    kinds = {0: None, 1: "fprop", 2: "dgrad", 3: "wgrad"}
    if message.conv_kind not in kinds:
        raise ProtoError(f"unknown convolution kind {message.conv_kind}")
    return kinds[message.conv_kind]


def _write_convolution_kind(value: str | None, message: Any, _: Context) -> None:
    message.conv_kind = {None: 0, "fprop": 1, "dgrad": 2, "wgrad": 3}.get(value, 0)


def _read_epsilon(message: Any, _: Context) -> float:
    """The shortest number that rounds to the single precision of the message."""
    for digits in range(6, 9):
        near = float(f"{message.epsilon:.{digits}g}")
        if unpack("f", pack("f", near))[0] == message.epsilon:
            return near
    return message.epsilon


def _read_shuffle_mode(message: Any, _: Context) -> str:
    if not message.shuffle_mode.HasField("rotate"):
        raise ProtoError("a shuffle whose mode is not rotate: what others do is not known")
    return "rotate"


def _write_shuffle_mode(_v: str, message: Any, _: Context) -> None:
    message.shuffle_mode.rotate.SetInParent()


def _write_shifts(value: tuple[int, ...], message: Any, _: Context) -> None:
    message.shuffle_mode.rotate.shifts.extend(value)


def _said_elsewhere(default: Any) -> Codec:
    """An attribute that the format has no field for; `note.py` keeps it."""
    return Codec(lambda _m, _c: default, lambda _v, _m, _c: None)


def _write_constant(value: Literal | None, message: Any, context: Context) -> None:
    """The literal of a constant; XLA reads none that does not say in which order elements are."""
    if value is None or value.is_elided:
        return
    write_literal(value, message.literal, context)
    if value.shape.is_array and not message.literal.shape.HasField("layout"):
        layout = message.literal.shape.layout
        layout.SetInParent()
        layout.minor_to_major.extend(range(value.shape.rank - 1, -1, -1))


GATHER, SCATTER = "gather_dimension_numbers", "scatter_dimension_numbers"
DOT, SOLVE = "dot_dimension_numbers", "triangular_solve_options"
# No literal means that the value was left out (`{...}` in text).
LITERAL = Codec(
    lambda m, c: read_literal(m.literal, c) if m.HasField("literal") else None,
    _write_constant,
)

ATTRIBUTES: dict[str, Codec] = {
    "batch_group_count": scalar("batch_group_count", 1),
    "channel_id": Codec(_read_channel_id, _write_channel_id),
    "collapsed_slice_dims": repeated("collapsed_slice_dims", GATHER),
    "constrain_layout": scalar("constrain_layout"),
    "convolution_kind": Codec(_read_convolution_kind, _write_convolution_kind),
    "cross_program_prefetch_index": Codec(
        _read_prefetch_index, scalar("cross_program_prefetch_index").write
    ),
    "custom_call_has_side_effect": scalar("custom_call_has_side_effect"),
    "custom_call_target": scalar("custom_call_target"),
    "delta": scalar("delta"),
    "dim_labels": structured.CONVOLUTION_DIMENSIONS,
    "dimensions": repeated("dimensions"),
    "direction": word("comparison_direction", DIRECTIONS),
    "distribution": enumeration("distribution", "RandomDistribution", show=str.lower),
    "domain": structured.DOMAIN,
    "dynamic_slice_sizes": repeated("dynamic_slice_sizes"),
    "epsilon": Codec(_read_epsilon, scalar("epsilon").write),
    "exponent_bits": scalar("exponent_bits"),
    "feature_group_count": scalar("feature_group_count", 1),
    "feature_index": scalar("feature_index"),
    "fft_length": repeated("fft_length"),
    "fft_type": enumeration("fft_type", "FftType"),
    "index": scalar("tuple_index"),
    "indices_are_sorted": scalar("indices_are_sorted"),
    "inferred_dimension": Codec(_read_inferred_dimension, _write_first_dimension),
    "infeed_config": text("infeed_config"),
    "input_batching_dims": repeated("input_batching_dims", SCATTER),
    "inserted_window_dims": repeated("inserted_window_dims", SCATTER),
    "iota_dimension": Codec(_first_dimension, _write_first_dimension),
    "is_associative": Codec(_read_is_associative, _write_is_associative),
    "is_composite": scalar("is_composite"),
    "has_dynamic_root": scalar("has_dynamic_root"),
    "is_host_transfer": scalar("is_host_transfer"),
    "is_reverse": scalar("is_reverse"),
    "is_stable": scalar("is_stable"),
    "k": scalar("k"),
    "kind": word("fusion_kind", FUSION_KINDS),
    "largest": scalar("largest"),
    "left_side": inside(SOLVE, "left_side"),
    "lhs_batch_dims": repeated("lhs_batch_dimensions", DOT),
    "lhs_contracting_dims": repeated("lhs_contracting_dimensions", DOT),
    "literal": LITERAL,
    "mantissa_bits": scalar("mantissa_bits"),
    "mode": _said_elsewhere(None),
    "num_carries": scalar("num_carries"),
    "number": scalar("parameter_number"),
    "offset_dims": repeated("offset_dims", GATHER),
    "operand_batching_dims": repeated("operand_batching_dims", GATHER),
    "operand_layout_constraints": Codec(_read_constraints, _write_constraints),
    "operand_precision": structured.PRECISIONS_OF_OPERANDS,
    "outfeed_config": text("outfeed_config"),
    "outfeed_shape": Codec(_read_outfeed_shape, _write_outfeed_shape),
    "output_to_operand_aliasing": structured.ALIASING,
    "padding": structured.PADDING,
    "padding_type": enumeration("padding_type", "PaddingType"),
    "replica_groups": Codec(lambda m, _: read_groups(m), lambda v, m, _: write_groups(v, m)),
    "result_accuracy": structured.ACCURACY,
    "rhs_batch_dims": repeated("rhs_batch_dimensions", DOT),
    "rhs_contracting_dims": repeated("rhs_contracting_dimensions", DOT),
    "api_version": enumeration("custom_call_api_version", "CustomCallApiVersion"),
    "async_execution_thread": Codec(
        lambda m, _: m.async_execution_thread or MAIN_THREAD,
        lambda v, m, _: setattr(m, "async_execution_thread", "" if v == MAIN_THREAD else v),
    ),
    "scatter_dims_to_operand_dims": repeated("scatter_dims_to_operand_dims", SCATTER),
    "scatter_indices_batching_dims": repeated("scatter_indices_batching_dims", SCATTER),
    "schedule": enumeration("custom_call_schedule", "CustomCallSchedule"),
    "slice": structured.SLICES,
    "source_target_pairs": structured.PAIRS,
    "sparsity_config": structured.SPARSITY,
    "start_index_map": repeated("start_index_map", GATHER),
    "start_indices_batching_dims": repeated("start_indices_batching_dims", GATHER),
    "transpose_a": enumeration("transpose_a", "TriangularSolveOptions.Transpose", SOLVE),
    "type": Codec(_read_comparison_type, _write_comparison_type),
    "unique_indices": scalar("unique_indices"),
    "unit_diagonal": inside(SOLVE, "unit_diagonal"),
    "update_window_dims": repeated("update_window_dims", SCATTER),
    "use_global_device_ids": scalar("use_global_device_ids"),
    "window": structured.WINDOW,
}
"""Codec by attribute name."""

_IN_PLACE_SIZES = Codec(_read_slice_sizes, _write_slice_sizes)
_SPLIT_DIMENSIONS = Codec(
    lambda m, _: tuple(m.dimensions) or None, lambda v, m, _: m.dimensions.extend(v or ())
)
RAGGED = "ragged_dot_dimension_numbers"
BY_OPCODE: dict[tuple[str, str], Codec] = {
    ("all-to-all", "dimensions"): _SPLIT_DIMENSIONS,
    ("ragged-all-to-all", "dimensions"): _SPLIT_DIMENSIONS,
    ("cholesky", "lower"): inside("cholesky_options", "lower"),
    ("triangular-solve", "lower"): inside(SOLVE, "lower"),
    ("rng-bit-generator", "algorithm"): enumeration(
        "rng_algorithm", "RandomAlgorithm", show=str.lower
    ),
    ("dot", "algorithm"): structured.ALGORITHM,
    ("scaled-dot", "algorithm"): structured.ALGORITHM,
    ("gather", "slice_sizes"): repeated("gather_slice_sizes"),
    ("gather", "index_vector_dim"): inside(GATHER, "index_vector_dim"),
    ("scatter", "index_vector_dim"): inside(SCATTER, "index_vector_dim"),
    ("collective-permute", "slice_sizes"): _IN_PLACE_SIZES,
    ("collective-permute-start", "slice_sizes"): _IN_PLACE_SIZES,
    ("shuffle", "mode"): Codec(_read_shuffle_mode, _write_shuffle_mode),
    ("shuffle", "shifts"): Codec(lambda m, _: tuple(m.shuffle_mode.rotate.shifts), _write_shifts),
    ("ragged-dot", "lhs_ragged_dims"): repeated("lhs_ragged_dimensions", RAGGED),
    ("ragged-dot", "rhs_group_dims"): repeated("rhs_group_dimensions", RAGGED),
    **{
        ("ragged-dot", f"{side}_dims"): structured.inside_ragged(f"{side}_dimensions")
        for side in ("lhs_batch", "lhs_contracting", "rhs_batch", "rhs_contracting")
    },
}
"""Codec by opcode and attribute name, where the name alone does not decide."""

NEEDED: dict[str, tuple[str, ...]] = {
    "convolution": ("window", "convolution_dimension_numbers"),
    "domain": ("domain_entry_sharding", "domain_exit_sharding"),
    "dot": (DOT,),
    "gather": (GATHER,),
    "pad": ("padding_config",),
    "ragged-dot": (RAGGED,),
    "reduce-window": ("window",),
    "scaled-dot": (DOT,),
    "scatter": (SCATTER,),
    "select-and-scatter": ("window",),
    "triangular-solve": (SOLVE,),
}
"""Messages that an instruction of this opcode must have."""


@dataclass(frozen=True, slots=True)
class OpCodec:
    """All that reading and writing need of one operation."""

    op: OpDef
    needed: tuple[str, ...]
    codecs: tuple[tuple[str, Codec], ...]


def op_codec(opcode: str) -> OpCodec:
    """The codec of an opcode; `ProtoError` for one that does not exist."""
    op = OPS.get(opcode)
    if op is None:
        hint = did_you_mean(opcode, OPS)
        raise ProtoError(f"unknown opcode {opcode!r}", rule="opcode", hint=hint)
    codecs = []
    for field in op.fields:
        codec = BY_OPCODE.get((opcode, field.name)) or ATTRIBUTES.get(field.name)
        if codec is None:
            raise ProtoError(f"{opcode}: attribute {field.name} has no place in a proto")
        codecs.append((field.name, codec))
    return OpCodec(op, NEEDED.get(opcode, ()), tuple(codecs))
