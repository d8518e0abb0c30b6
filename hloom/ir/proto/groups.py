"""Replica groups, meshes and axis references to and from their messages."""

from math import prod
from typing import Any

from hloom.base.diagnostics import ProtoError
from hloom.ir.values.devices import IotaDevices
from hloom.ir.values.groups import (
    NO_GROUPS,
    AnyGroups,
    IotaReplicaGroups,
    MeshReplicaGroups,
    ReplicaGroups,
)
from hloom.ir.values.mesh import AxisRef, Mesh


def read_groups(message: Any) -> AnyGroups:
    """The replica groups of an `HloInstructionProto`, in the form in which they were written."""
    form = message.WhichOneof("replica_group_list")
    if form == "iota_collective_device_list":
        return _read_iota(message.iota_collective_device_list)
    if form == "mesh_axes_replica_group_list":
        written = message.mesh_axes_replica_group_list
        mesh = read_mesh(written.mesh)
        return MeshReplicaGroups(mesh, read_axes(written.axes, mesh))
    lists = message.collective_device_list.replica_groups if form else message.replica_groups
    if not lists:
        return NO_GROUPS
    return ReplicaGroups(tuple([tuple(group.replica_ids) for group in lists]))


def write_groups(groups: AnyGroups, message: Any) -> None:
    """Say the replica groups in an `HloInstructionProto`."""
    if isinstance(groups, IotaReplicaGroups):
        into = message.iota_collective_device_list
        into.num_replica_groups = groups.num_replica_groups
        into.num_devices_per_group = groups.num_devices_per_group
        into.iota_reshape_dims.extend(groups.reshape_dims)
        into.iota_transpose_perm.extend(groups.transpose_permutation)
    elif isinstance(groups, MeshReplicaGroups):
        write_mesh(groups.mesh, message.mesh_axes_replica_group_list.mesh)
        write_axes(groups.axes, message.mesh_axes_replica_group_list.axes)
    else:
        message.collective_device_list.SetInParent()
        for group in groups.groups:
            message.collective_device_list.replica_groups.add().replica_ids.extend(group)


def _read_iota(message: Any) -> IotaReplicaGroups:
    dims, permutation = tuple(message.iota_reshape_dims), tuple(message.iota_transpose_perm)
    count = message.num_replica_groups * message.num_devices_per_group
    check_iota(dims, permutation, count, "replica groups")
    return IotaReplicaGroups(
        message.num_replica_groups, message.num_devices_per_group, dims, permutation
    )


def check_iota(dims: tuple[int, ...], permutation: tuple[int, ...], count: int, what: str) -> None:
    """`ProtoError` unless the two describe an order of `count` devices."""
    if not dims or any(size < 0 for size in dims) or prod(dims) != count:
        raise ProtoError(f"{what}: dimensions {list(dims)} do not hold {count} devices")
    if sorted(permutation) != list(range(len(dims))):
        raise ProtoError(
            f"{what}: {list(permutation)} is not a permutation of {len(dims)} dimensions"
        )


def read_mesh(message: Any) -> Mesh:
    """A mesh; without device ids, or with 0, 1, 2, ..., its devices are None."""
    axes = tuple((axis.name, axis.size) for axis in message.axes)
    if any(size < 1 for _, size in axes):
        raise ProtoError("a mesh axis has a size below 1")
    if len({name for name, _ in axes}) != len(axes):
        raise ProtoError("a mesh has two axes of one name")
    count = prod(size for _, size in axes)
    if message.HasField("iota_transform"):
        iota = message.iota_transform
        dims, permutation = tuple(iota.reshape_dims), tuple(iota.transpose_perm)
        check_iota(dims, permutation, count, "mesh")
        return Mesh(axes, IotaDevices.of(dims, permutation))
    devices = tuple(message.device_ids)
    if not devices:
        return Mesh(axes)
    if not axes:
        if len(devices) != 1:
            raise ProtoError(f"a mesh without axes has {len(devices)} devices, not 1")
        return Mesh(axes, devices)
    if sorted(devices) != list(range(count)):
        raise ProtoError(f"the device ids of a mesh are not each of 0 to {count - 1} once")
    return Mesh(axes, devices)


def write_mesh(mesh: Mesh, message: Any) -> None:
    """Fill a `MeshProto`."""
    message.SetInParent()
    for name, size in mesh.axes:
        message.axes.add(name=name, size=size)
    if isinstance(mesh.devices, IotaDevices):
        message.iota_transform.reshape_dims.extend(mesh.devices.reshape_dims)
        message.iota_transform.transpose_perm.extend(mesh.devices.transpose_permutation)
    elif mesh.devices is not None:
        message.device_ids.extend(mesh.devices)


def read_axes(messages: Any, mesh: Mesh) -> tuple[AxisRef, ...]:
    """Axis references; each must name an axis of the mesh."""
    return tuple([_read_axis(message, mesh) for message in messages])


def _read_axis(message: Any, mesh: Mesh) -> AxisRef:
    if not 0 <= message.mesh_axis_index < len(mesh.axes):
        raise ProtoError(
            f"axis {message.mesh_axis_index} is not in a mesh of {len(mesh.axes)} axes"
        )
    if not message.HasField("sub_axis_info"):
        return AxisRef(message.mesh_axis_index)
    part = message.sub_axis_info
    size = mesh.axes[message.mesh_axis_index][1]
    if part.size < 1 or part.pre_size < 1 or size % (part.size * part.pre_size):
        raise ProtoError(f"a sub-axis does not divide its axis of size {size}")
    return AxisRef(message.mesh_axis_index, part.pre_size, part.size)


def write_axes(axes: tuple[AxisRef, ...], into: Any) -> None:
    """Append `AxisRefProto`s."""
    for axis in axes:
        message = into.add(mesh_axis_index=axis.mesh_axis_index)
        if axis.size is not None:
            message.sub_axis_info.pre_size = axis.pre_size
            message.sub_axis_info.size = axis.size
