"""Device numbers that groups, pairs and shardings name: no more than a program may have.

A count of them is a few characters (`[1,4000000000]<=[4000000000]`), the numbers are gigabytes: so
this comes before every rule that looks at them one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

from hloom.base.diagnostics import VerifyError
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.groups import AnyGroups, IotaReplicaGroups, MeshReplicaGroups
from hloom.ir.values.sharding import Sharding
from hloom.ir.verify.rules import VerifyOptions, broken
from hloom.types.mesh import IotaDevices, too_many_devices


def check_devices(module: Module, options: VerifyOptions) -> Iterator[VerifyError]:
    """Ask every collective and, once each, every sharding."""
    seen: set[Sharding] = set()
    for i in module.instructions():
        named = _named_by_attributes(i)
        if i.sharding is not None and i.sharding not in seen:
            seen.add(i.sharding)
            named = max(named, *map(_named_by_sharding, i.sharding.elements or (i.sharding,)))
        if wrong := too_many_devices(named):
            yield broken("devices", wrong, i)


def _named_by_attributes(i: Instruction) -> int:
    """How many devices there must be for the groups or pairs of an instruction."""
    if (groups := getattr(i.attrs, "replica_groups", None)) is not None:
        return _named_by_groups(groups)
    pairs = getattr(i.attrs, "source_target_pairs", None) or ()
    return 1 + max((max(pair) for pair in pairs), default=0)


def _named_by_groups(groups: AnyGroups) -> int:
    if isinstance(groups, IotaReplicaGroups):
        return groups.devices.count
    if isinstance(groups, MeshReplicaGroups):
        return groups.mesh.device_count
    return 1 + max((d for group in groups.groups for d in group), default=0)


def _named_by_sharding(sharding: Sharding) -> int:
    if sharding.named is None:
        return _count(sharding.devices)
    mesh = sharding.named.mesh
    return max(mesh.device_count, _count(mesh.devices or ()))


def _count(devices: IotaDevices | tuple[int, ...]) -> int:
    return devices.count if isinstance(devices, IotaDevices) else 1 + max(devices, default=0)
