"""The fields that backends give their configs, as frozen dataclasses, and their JSON.

The JSON is that of protobuf: 64-bit numbers may be strings, enums are names, names may also be in
camelCase. A field of type `dict` or `Any` is a message kept as plain JSON.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, TypeVar

from hloom.base.diagnostics import UsageError

Record = TypeVar("Record")
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class GemmBackendConfig:
    selected_algorithm: int | None = None
    alpha_real: float = 0.0
    alpha_imag: float = 0.0
    beta: float = 0.0
    dot_dimension_numbers: Json | None = None
    precision_config: Json | None = None
    epilogue: Literal[
        "DEFAULT", "BIAS", "RELU", "BIAS_RELU", "GELU", "GELU_AUX", "BIAS_GELU", "BIAS_GELU_AUX",
        "SILU", "BIAS_SILU",
    ] = "DEFAULT"  # fmt: skip
    lhs_stride: int | None = None
    rhs_stride: int | None = None
    grad_x: bool | None = None
    grad_y: bool | None = None
    damax_output: bool = False
    autotune_workspace_size: int = 0
    scale_mode: int = 0


@dataclass(frozen=True, slots=True)
class CollectiveBackendConfig:
    is_sync: bool = False
    is_pipelined: bool = False
    backend: Literal["DEFAULT", "NVSHMEM"] = "DEFAULT"
    collectives_mode: str = ""
    kernel_strategy: Literal[
        "KERNEL_STRATEGY_DEFAULT",
        "KERNEL_STRATEGY_TRITON_ONE_SHOT",
        "KERNEL_STRATEGY_TRITON_TWO_SHOT",
    ] = "KERNEL_STRATEGY_DEFAULT"


@dataclass(frozen=True, slots=True)
class Tile:
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BlockLevelFusionConfig:
    output_tiles: tuple[Tile, ...] = ()
    num_warps: int = 0
    num_ctas: int = 0
    num_stages: int = 0
    is_tma_allowed: bool = False
    is_warp_specialization_allowed: bool = False
    waves_per_eu: int = 0


@dataclass(frozen=True, slots=True)
class TritonGemmConfig:
    block_m: int = 0
    block_n: int = 0
    block_k: int = 0
    split_k: int = 0
    num_stages: int = 0
    num_warps: int = 0
    num_ctas: int = 0
    is_tma_allowed: bool = False
    is_warp_specialization_allowed: bool = False
    waves_per_eu: int = 0


@dataclass(frozen=True, slots=True)
class CustomFusionConfig:
    name: str = ""
    kernel_index: int = 0


@dataclass(frozen=True, slots=True)
class CuDnnFusionConfig:
    plan_id: int = 0


@dataclass(frozen=True, slots=True)
class GpuFusionBackendConfig:
    kind: str = ""
    triton_gemm_config: TritonGemmConfig | None = None
    block_level_fusion_config: BlockLevelFusionConfig | None = None
    custom_fusion_config: CustomFusionConfig | None = None
    cudnn_fusion_config: CuDnnFusionConfig | None = None


@dataclass(frozen=True, slots=True)
class BlockScaledDotBackendConfig:
    block_size: int = 0


@dataclass(frozen=True, slots=True)
class CustomCallBackendConfig:
    """One of the two: an opaque string, or a dictionary of attributes in MLIR text."""

    opaque: str | None = None
    attributes: str | None = None


@dataclass(frozen=True, slots=True)
class NativeEmitterBackendConfig:
    type: str = "NATIVE_EMITTER_TYPE_INVALID"
    unroll_factor: int = 0


@dataclass(frozen=True, slots=True)
class DynamicSliceConfig:
    loop_index: int | None = None
    byte_offset: int = 0
    byte_stride: int = 0


@dataclass(frozen=True, slots=True)
class ReificationCost:
    end_to_end_cycles: float = 0.0
    exec_time_us: float = 0.0
    compute_time_us: float = 0.0
    memory_access_time_us: float = 0.0
    name: str = ""


@dataclass(frozen=True, slots=True)
class GroupedGemmBackendConfig:
    gemm_backend_config: GemmBackendConfig | None = None
    ragged_dot_dimension_numbers: Json | None = None


@dataclass(frozen=True, slots=True)
class GpuBackendConfig:
    """What GPU backends attach; at most one of the `..._backend_config` fields is set."""

    operation_queue_id: int = 0
    cudnn_conv_backend_config: Json | None = None
    gemm_backend_config: GemmBackendConfig | None = None
    bitcast_backend_config: Json | None = None
    collective_backend_config: CollectiveBackendConfig | None = None
    fusion_backend_config: GpuFusionBackendConfig | None = None
    cudnn_norm_backend_config: Json | None = None
    cudnn_fmha_backend_config: Json | None = None
    custom_call_backend_config: CustomCallBackendConfig | None = None
    block_scaled_dot_backend_config: BlockScaledDotBackendConfig | None = None
    native_emitter_backend_config: NativeEmitterBackendConfig | None = None
    collective_metadata_backend_config: Json | None = None
    grouped_gemm_backend_config: GroupedGemmBackendConfig | None = None
    dynamic_slice_config: DynamicSliceConfig | None = None
    force_earliest_schedule: bool = False
    reification_cost: tuple[ReificationCost, ...] = ()
    device_type: Literal["DEVICE_TYPE_INVALID", "DEVICE_TYPE_DEVICE", "DEVICE_TYPE_HOST"] = (
        "DEVICE_TYPE_INVALID"
    )


@dataclass(frozen=True, slots=True)
class CpuFusionBackendConfig:
    kind: str = ""
    xnn_fusion_options: Json | None = None
    ynn_fusion_options: Json | None = None


@dataclass(frozen=True, slots=True)
class LlvmKernelOptions:
    slp_vectorizer_disabled: bool = False
    disable_loop_unrolling: bool = False
    optimize_for_size: bool = False
    disable_platform_dependent_math: bool = False


@dataclass(frozen=True, slots=True)
class CpuBackendConfig:
    """What CPU backends attach; at most one field after the first is set."""

    outer_dimension_partitions: tuple[int, ...] = ()
    onednn_matmul_config: Json | None = None
    onednn_layer_norm_config: Json | None = None
    onednn_softmax_config: Json | None = None
    onednn_conv_config: Json | None = None
    custom_call_config: CustomCallBackendConfig | None = None
    fusion_config: CpuFusionBackendConfig | None = None
    llvm_kernel_options: LlvmKernelOptions | None = None


@dataclass(frozen=True, slots=True)
class KnownTripCount:
    n: int = 0


@dataclass(frozen=True, slots=True)
class KnownInitStep:
    init: int = 0
    step: int = 0


@dataclass(frozen=True, slots=True)
class KnownInductionVariable:
    tuple_index: int = 0


@dataclass(frozen=True, slots=True)
class DynamicVariable:
    tuple_index: int = 0
    init: int | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True)
class WhileLoopBackendConfig:
    """What analyses found out about a `while`."""

    known_trip_count: KnownTripCount | None = None
    known_init_step: KnownInitStep | None = None
    known_induction_variable: KnownInductionVariable | None = None
    dynamic_variables: tuple[DynamicVariable, ...] = ()


ONE_OF: dict[type, tuple[tuple[str, ...], ...]] = {
    GpuBackendConfig: (
        tuple(
            f.name
            for f in dataclasses.fields(GpuBackendConfig)
            if f.name.endswith("_backend_config") or f.name == "dynamic_slice_config"
        ),
    ),
    CpuBackendConfig: (tuple(f.name for f in dataclasses.fields(CpuBackendConfig))[1:],),
    CpuFusionBackendConfig: (("xnn_fusion_options", "ynn_fusion_options"),),
    CustomCallBackendConfig: (("opaque", "attributes"),),
}
"""Fields of which at most one may be set."""


def read_record(schema: type[Record], text: str) -> Record:
    """The record of this JSON text; `UsageError` where the two do not fit. Empty text is `{}`."""
    try:
        value = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"backend config is not JSON: {error}", rule="backend-config", hint=f"it is {text[:80]}"
        ) from None
    return _read(schema, value, schema.__name__)


def write_record(record: Any) -> dict[str, Any]:
    """The JSON of a record; fields at their default are left out."""
    out: dict[str, Any] = {}
    for f in dataclasses.fields(record):
        value = getattr(record, f.name)
        if value != f.default:
            out[f.name] = _write(value)
    return out


def _write(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return write_record(value)
    if isinstance(value, tuple):
        return [_write(v) for v in value]
    return value


@cache
def _kinds(schema: type) -> dict[str, Any]:
    return typing.get_type_hints(schema)


def _snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name)


def _read(kind: Any, value: Any, path: str) -> Any:
    """A JSON value as a value of this annotation."""
    if isinstance(kind, types.UnionType):
        kind = next(k for k in typing.get_args(kind) if k is not type(None))
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _read_fields(kind, value, path)
    origin = typing.get_origin(kind)
    if origin is tuple:
        if not isinstance(value, list):
            _wrong(path, "a list", value)
        item = typing.get_args(kind)[0]
        return tuple(_read(item, v, f"{path}[{i}]") for i, v in enumerate(value))
    if origin is Literal:
        return _read_enum(typing.get_args(kind), value, path)
    if origin is dict:
        return value if isinstance(value, dict) else _wrong(path, "an object", value)
    return _read_scalar(kind, value, path)


def _read_fields(schema: type, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        _wrong(path, "an object", value)
    kinds = _kinds(schema)
    fields: dict[str, Any] = {}
    for written, part in value.items():
        name = written if written in kinds else _snake(written)
        if name not in kinds:
            raise UsageError(
                f"unknown field {written!r} in {path}",
                rule="backend-config",
                hint=f"known fields: {', '.join(kinds)}",
            )
        if part is not None:
            fields[name] = _read(kinds[name], part, f"{path}.{name}")
    for group in ONE_OF.get(schema, ()):
        set_fields = [name for name in group if name in fields]
        if len(set_fields) > 1:
            raise UsageError(
                f"{path} sets {' and '.join(set_fields)}, at most one may be set",
                rule="backend-config",
            )
    return schema(**fields)


def _read_enum(names: tuple[str, ...], value: Any, path: str) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names):
        return names[value]
    return value if value in names else _wrong(path, f"one of {', '.join(names)}", value)


def _read_scalar(kind: Any, value: Any, path: str) -> Any:
    if kind is bool:
        return value if isinstance(value, bool) else _wrong(path, "true or false", value)
    if kind is str:
        return value if isinstance(value, str) else _wrong(path, "a string", value)
    number = value
    if isinstance(value, str):
        try:
            number = float(value) if kind is float else int(value)
        except ValueError:
            _wrong(path, "a number", value)
    if isinstance(number, bool) or not isinstance(number, int | float):
        _wrong(path, "a number", value)
    if kind is int:
        if isinstance(number, float) and not number.is_integer():  # an infinity is not one
            _wrong(path, "an integer", value)
        return int(number)
    return float(number)


def _wrong(path: str, expected: str, value: Any) -> Any:
    raise UsageError(f"{path} is {expected}, not {json.dumps(value)[:60]}", rule="backend-config")
