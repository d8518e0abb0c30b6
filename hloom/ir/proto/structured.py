"""The codecs of structured attribute values: windows, dimension numbers, padding, precision, ..."""

import re
from typing import Any

from hloom.base.diagnostics import ProtoError
from hloom.ir import schema
from hloom.ir.proto.codec import Codec, Context, enum_name
from hloom.ir.proto.sharding import write_sharding
from hloom.ir.values.aliasing import OutputOperandAlias, OutputOperandAliasing
from hloom.ir.values.conv_dims import ConvolutionDimensions
from hloom.ir.values.domain import Domain
from hloom.ir.values.padding import Padding, PaddingDimension
from hloom.ir.values.precision import (
    ALGORITHM_NAMES,
    ALGORITHMS,
    PRECISION_NAMES,
    PRECISIONS,
    ResultAccuracy,
)
from hloom.ir.values.slices import SliceDimension, Slices
from hloom.ir.values.window import Window, WindowDimension


def _read_window(message: Any, _: Context) -> Window | None:
    if not message.HasField("window"):
        return None
    return Window(
        tuple(
            [
                WindowDimension(
                    d.size,
                    d.stride,
                    d.padding_low,
                    d.padding_high,
                    d.window_dilation,
                    d.base_dilation,
                    d.window_reversal,
                )
                for d in message.window.dimensions
            ]
        )
    )


def _write_window(value: Window | None, message: Any, _: Context) -> None:
    if value is None:
        return
    message.window.SetInParent()
    for d in value.dimensions:
        message.window.dimensions.add(
            size=d.size,
            stride=d.stride,
            padding_low=d.padding_low,
            padding_high=d.padding_high,
            window_dilation=d.window_dilation,
            base_dilation=d.base_dilation,
            window_reversal=d.window_reversal,
        )


_CONVOLUTION_NUMBERS = (
    "input_batch_dimension",
    "input_feature_dimension",
    "kernel_input_feature_dimension",
    "kernel_output_feature_dimension",
    "output_batch_dimension",
    "output_feature_dimension",
)
_CONVOLUTION_LISTS = (
    "input_spatial_dimensions",
    "kernel_spatial_dimensions",
    "output_spatial_dimensions",
)


def _read_conv_dims(message: Any, _: Context) -> ConvolutionDimensions | None:
    if not message.HasField("convolution_dimension_numbers"):
        return None
    numbers = message.convolution_dimension_numbers
    fields: dict[str, Any] = {name: getattr(numbers, name) for name in _CONVOLUTION_NUMBERS}
    fields |= {name: tuple(getattr(numbers, name)) for name in _CONVOLUTION_LISTS}
    for kind in ("input", "kernel", "output"):
        named = [v for k, v in fields.items() if k.startswith(kind) and type(v) is int]
        together = [*named, *fields[f"{kind}_spatial_dimensions"]]
        if len(set(together)) != len(together) or min(together) < 0 or max(together) > 1000:
            raise ProtoError(f"convolution: the {kind} dimensions {together} cannot be")
    if len({len(fields[name]) for name in _CONVOLUTION_LISTS}) != 1:
        raise ProtoError("convolution: input, kernel and output differ in spatial dimensions")
    return ConvolutionDimensions(**fields)


def _write_conv_dims(value: ConvolutionDimensions | None, message: Any, _: Context) -> None:
    if value is None:
        return
    into = message.convolution_dimension_numbers
    into.SetInParent()
    for name in _CONVOLUTION_NUMBERS:
        setattr(into, name, getattr(value, name))
    for name in _CONVOLUTION_LISTS:
        getattr(into, name).extend(getattr(value, name))


def _read_slices(message: Any, _: Context) -> Slices:
    return Slices(
        tuple([SliceDimension(d.start, d.limit, d.stride) for d in message.slice_dimensions])
    )


def _write_slices(value: Slices, message: Any, _: Context) -> None:
    for d in value.dimensions:
        message.slice_dimensions.add(start=d.start, limit=d.limit, stride=d.stride)


def _read_padding(message: Any, _: Context) -> Padding:
    return Padding(
        tuple(
            [
                PaddingDimension(d.edge_padding_low, d.edge_padding_high, d.interior_padding)
                for d in message.padding_config.dimensions
            ]
        )
    )


def _write_padding(value: Padding, message: Any, _: Context) -> None:
    message.padding_config.SetInParent()
    for d in value.dimensions:
        message.padding_config.dimensions.add(
            edge_padding_low=d.edge_padding_low,
            edge_padding_high=d.edge_padding_high,
            interior_padding=d.interior_padding,
        )


def _read_precisions(message: Any, _: Context) -> tuple[str, ...]:
    numbers = message.precision_config.operand_precision
    if not any(numbers):
        return ()
    if any(number not in PRECISION_NAMES for number in numbers):
        raise ProtoError(f"unknown operand precision in {list(numbers)}")
    return tuple([PRECISION_NAMES[number] for number in numbers])


def _write_precisions(value: tuple[str, ...], message: Any, context: Context) -> None:
    numbers = [PRECISIONS[name] for name in value]
    if not numbers:
        # XLA wants one for each operand of a custom call, and two for all others.
        numbers = [0] * (len(context.operands) if message.opcode == "custom-call" else 2)
    message.precision_config.SetInParent()
    message.precision_config.operand_precision.extend(numbers)


def _read_algorithm(message: Any, _: Context) -> str | None:
    number = message.precision_config.algorithm
    if number not in ALGORITHM_NAMES:
        raise ProtoError(f"unknown dot algorithm {number}")
    return ALGORITHM_NAMES[number] if number else None


def _write_algorithm(value: str | None, message: Any, _: Context) -> None:
    if value is not None:
        message.precision_config.algorithm = ALGORITHMS[value]


def _read_accuracy(message: Any, _: Context) -> ResultAccuracy | None:
    accuracy = message.result_accuracy
    which = accuracy.WhichOneof("specs")
    if which == "tolerance":
        limit = accuracy.tolerance
        return ResultAccuracy(None, limit.atol, limit.rtol, limit.ulps)
    if which == "mode" and accuracy.mode:
        return ResultAccuracy(enum_name("ResultAccuracy.Mode", accuracy.mode).lower())
    return None


def _write_accuracy(value: ResultAccuracy | None, message: Any, _: Context) -> None:
    if value is None:
        return
    accuracy = message.result_accuracy
    if value.mode is None:
        accuracy.tolerance.SetInParent()
        accuracy.tolerance.atol, accuracy.tolerance.rtol = value.atol, value.rtol
        accuracy.tolerance.ulps = value.ulps
    else:
        accuracy.mode = schema.enum_numbers("ResultAccuracy.Mode")[value.mode.upper()]


def _read_aliasing(message: Any, _: Context) -> OutputOperandAliasing | None:
    if not message.output_operand_aliasing:
        return None
    return OutputOperandAliasing(
        tuple(
            [
                OutputOperandAlias(
                    tuple(e.output_shape_index), e.operand_index, tuple(e.operand_shape_index)
                )
                for e in message.output_operand_aliasing
            ]
        )
    )


def _write_aliasing(value: OutputOperandAliasing | None, message: Any, _: Context) -> None:
    for e in value.entries if value else ():
        message.output_operand_aliasing.add(
            output_shape_index=e.output_shape_index,
            operand_index=e.operand_index,
            operand_shape_index=e.operand_shape_index,
        )


def _read_pairs(message: Any, _: Context) -> tuple[tuple[int, int], ...]:
    return tuple([(pair.source, pair.target) for pair in message.source_target_pairs])


def _write_pairs(value: tuple[tuple[int, int], ...], message: Any, _: Context) -> None:
    for source, target in value:
        message.source_target_pairs.add(source=source, target=target)


def _read_domain(message: Any, context: Context) -> Domain:
    # The text names the sides as the user sees them, the message as the operand does.
    return Domain(
        entry=context.shardings.sharding(message.domain_exit_sharding),
        exit=context.shardings.sharding(message.domain_entry_sharding),
    )


def _write_domain(value: Domain, message: Any, _: Context) -> None:
    write_sharding(value.entry, message.domain_exit_sharding)
    write_sharding(value.exit, message.domain_entry_sharding)


_SPARSITY = re.compile(
    r"(lhs|rhs)=\{\s*sparsity=(\d+)x(\d+)\s+dimension=(-?\d+)\s+stride=(-?\d+)\s*\}"
)


def _read_sparsity(message: Any, _: Context) -> str | None:
    parts = []
    for side in ("lhs", "rhs"):
        if message.sparsity_config.HasField(side):
            part = getattr(message.sparsity_config, side)
            parts.append(
                f"{side}={{sparsity={part.num_non_zero}x{part.block_size} "
                f"dimension={part.dimension} stride={part.stride}}}"
            )
    return "{" + ",".join(parts) + "}" if parts else None


def _write_sparsity(value: str | None, message: Any, _: Context) -> None:
    for side, non_zero, block, dimension, stride in _SPARSITY.findall(value or ""):
        part = getattr(message.sparsity_config, side)
        part.num_non_zero, part.block_size = int(non_zero), int(block)
        part.dimension, part.stride = int(dimension), int(stride)


WINDOW = Codec(_read_window, _write_window)
CONVOLUTION_DIMENSIONS = Codec(_read_conv_dims, _write_conv_dims)
SLICES = Codec(_read_slices, _write_slices)
PADDING = Codec(_read_padding, _write_padding)
PRECISIONS_OF_OPERANDS = Codec(_read_precisions, _write_precisions)
ALGORITHM = Codec(_read_algorithm, _write_algorithm)
ACCURACY = Codec(_read_accuracy, _write_accuracy)
ALIASING = Codec(_read_aliasing, _write_aliasing)
PAIRS = Codec(_read_pairs, _write_pairs)
SPARSITY = Codec(_read_sparsity, _write_sparsity)
DOMAIN = Codec(_read_domain, _write_domain)


def inside_ragged(field: str) -> Codec:
    """A list in the dot dimension numbers of ragged-dot, which lie one message deeper."""

    def read(message: Any, _: Context) -> tuple[int, ...]:
        return tuple(getattr(message.ragged_dot_dimension_numbers.dot_dimension_numbers, field))

    def write(value: tuple[int, ...], message: Any, _: Context) -> None:
        inner = message.ragged_dot_dimension_numbers.dot_dimension_numbers
        inner.SetInParent()
        getattr(inner, field).extend(value)

    return Codec(read, write)
