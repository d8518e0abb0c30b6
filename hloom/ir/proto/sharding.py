"""Shardings to and from `OpSharding`, in both its styles: tile assignments and named axes."""

from dataclasses import replace
from math import prod
from typing import Any

from hloom.base.diagnostics import ProtoError
from hloom.ir import schema
from hloom.ir.proto.groups import check_iota, read_axes, read_mesh, write_axes, write_mesh
from hloom.ir.proto.metadata import read_metadata, write_metadata
from hloom.ir.values.devices import IotaDevices
from hloom.ir.values.sharding import Sharding
from hloom.ir.values.sharding_named import REDUCTIONS, DimensionSharding, NamedSharding

_PLAIN = {"REPLICATED": "replicated", "MANUAL": "manual", "UNKNOWN": "unknown"}
_PLAIN["UNREDUCED"] = "unreduced"
_ENUM = "OpSharding.Type"


class ShardingReader:
    """Shardings from messages; equal messages are converted once."""

    def __init__(self) -> None:
        self._known: dict[bytes, Sharding] = {}

    def sharding(self, message: Any) -> Sharding:
        """The sharding of an `OpSharding`; `ProtoError` for an impossible one."""
        key = message.SerializeToString()
        sharding_ = self._known.get(key)
        if sharding_ is None:
            try:
                sharding_ = self._known[key] = _read(message)
            except ValueError as error:
                raise ProtoError(f"sharding: {error}") from None
        return sharding_


def _read(message: Any) -> Sharding:
    extra: dict[str, Any] = {"metadata": tuple([read_metadata(m) for m in message.metadata])}
    if message.is_shard_group:
        how = {0: "as", 1: "like"}.get(message.shard_group_type)
        if how is None:
            raise ProtoError(f"unknown shard group type {message.shard_group_type}")
        extra["shard_group"] = (how, message.shard_group_id)
    if message.HasField("named_sharding"):
        return _read_named(message.named_sharding, extra)
    kind = schema.enum_names(_ENUM).get(message.type)
    if kind == "TUPLE":
        return Sharding("tuple", elements=tuple([_read(e) for e in message.tuple_shardings]))
    if kind in _PLAIN:
        return Sharding(_PLAIN[kind], **extra)
    if kind == "MAXIMAL":
        if len(message.tile_assignment_devices) != 1:
            count = len(message.tile_assignment_devices)
            raise ProtoError(f"a maximal sharding has {count} devices, not 1")
        return Sharding("maximal", devices=tuple(message.tile_assignment_devices), **extra)
    if kind != "OTHER":
        raise ProtoError(f"unknown sharding type {message.type}")
    tiled = _read_tiled(message)
    return Sharding(tiled.kind, tiled.tile_dims, tiled.devices, tiled.subgroup_types, **extra)


def _read_tiled(message: Any) -> Sharding:
    dims = tuple(message.tile_assignment_dimensions)
    if not dims or min(dims) < 1:
        raise ProtoError(f"a tiled sharding has the tile dimensions {list(dims)}")
    devices: tuple[int, ...] | IotaDevices = tuple(message.tile_assignment_devices)
    if message.iota_reshape_dims:
        reshape = tuple(message.iota_reshape_dims)
        permutation = tuple(message.iota_transpose_perm)
        check_iota(reshape, permutation, 1 if prod(reshape) == 1 else prod(dims), "sharding")
        devices = IotaDevices.of(reshape, permutation)
    elif len(devices) != prod(dims):
        raise ProtoError(f"a sharding of {prod(dims)} tiles has {len(devices)} devices")
    if message.replicate_on_last_tile_dim:
        types = ("replicated",)
    else:
        names = schema.enum_names(_ENUM)
        types = tuple([names.get(n, "").lower() for n in message.last_tile_dims])
        known = set(_PLAIN.values())
        if not known.issuperset(types):
            raise ProtoError(f"unknown types {list(message.last_tile_dims)} of tile dimensions")
    if len(types) > len(dims):
        raise ProtoError(f"{len(types)} types for {len(dims)} tile dimensions")
    return Sharding.tile(dims, devices, types)


def _read_reduction(message: Any) -> str:
    if message.reduction_op >= len(REDUCTIONS):
        raise ProtoError(f"unknown reduction {message.reduction_op} of unreduced axes")
    return REDUCTIONS[message.reduction_op]


def _read_named(message: Any, extra: dict[str, Any]) -> Sharding:
    mesh = read_mesh(message.mesh)
    named = NamedSharding(
        mesh,
        tuple(
            [DimensionSharding(read_axes(d.axes, mesh), d.is_closed) for d in message.dim_shardings]
        ),
        read_axes(message.replicated_axes, mesh),
        read_axes(message.unreduced_axes, mesh),
        read_axes(message.manual_axes, mesh),
        _read_reduction(message),
    )
    own = tuple([read_metadata(m) for m in message.metadata])
    extra["metadata"] = own or extra["metadata"]
    return Sharding("named", named=named, **extra)


def write_sharding(value: Sharding, message: Any) -> None:
    """Fill an `OpSharding`."""
    message.SetInParent()
    numbers = schema.enum_numbers(_ENUM)
    if value.named is not None:
        _write_named(value, message.named_sharding)
    else:
        for one in value.metadata:
            write_metadata(one, message.metadata.add())
    if value.shard_group is not None:
        how, message.shard_group_id = value.shard_group
        message.is_shard_group = True
        message.shard_group_type = {"as": 0, "like": 1}[how]
    if value.is_tuple:
        message.type = numbers["TUPLE"]
        for element in value.elements:
            write_sharding(element, message.tuple_shardings.add())
    elif value.kind == "maximal":
        message.type = numbers["MAXIMAL"]
        message.tile_assignment_devices.extend(value.devices)
    elif value.kind == "tiled":
        message.type = numbers["OTHER"]
        _write_tiled(value, message)
    elif value.kind != "named":
        message.type = numbers[value.kind.upper()]


def sharding_bytes(value: Sharding) -> bytes:
    """A sharding as a serialized OpSharding, devices in the short form where they have one."""
    if value.kind == "tiled" and not isinstance(value.devices, IotaDevices):
        value = replace(value, devices=IotaDevices.of_numbers(value.devices) or value.devices)
    message = schema.OpSharding()
    write_sharding(value, message)
    return message.SerializeToString()


def sharding_of_bytes(data: bytes) -> Sharding:
    """The sharding of a serialized OpSharding."""
    message = schema.OpSharding()
    message.ParseFromString(data)
    return ShardingReader().sharding(message)


def _write_tiled(value: Sharding, message: Any) -> None:
    message.tile_assignment_dimensions.extend(value.tile_dims)
    if isinstance(value.devices, IotaDevices):
        message.iota_reshape_dims.extend(value.devices.reshape_dims)
        message.iota_transpose_perm.extend(value.devices.transpose_permutation)
    else:
        message.tile_assignment_devices.extend(value.devices)
    if value.subgroup_types == ("replicated",):
        message.replicate_on_last_tile_dim = True
    else:
        numbers = schema.enum_numbers(_ENUM)
        message.last_tile_dims.extend(numbers[t.upper()] for t in value.subgroup_types)


def _write_named(value: Sharding, message: Any) -> None:
    named = value.named
    assert named is not None
    write_mesh(named.mesh, message.mesh)
    for dimension in named.dim_shardings:
        into = message.dim_shardings.add(is_closed=dimension.is_closed)
        write_axes(dimension.axes, into.axes)
    write_axes(named.replicated_axes, message.replicated_axes)
    write_axes(named.unreduced_axes, message.unreduced_axes)
    write_axes(named.manual_axes, message.manual_axes)
    message.reduction_op = REDUCTIONS.index(named.reduction)
    for one in value.metadata:
        write_metadata(one, message.metadata.add())
