"""How many devices a program's groups and pairs name, where its header says 1 x 1.

The header of a module that somebody cut out or wrote by hand often says nothing of its devices,
and the verifier, as XLA's, then admits groups of any size. Such a program can be read, edited and
checked; what it computes depends on how many devices run it, which has to be said.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hloom.base.diagnostics import HloError
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.group_modes import CROSS_PARTITION, FLATTENED, group_mode, ids_in_mode
from hloom.ir.values.groups import ReplicaGroups


def named_devices(i: Instruction) -> tuple[str, int] | None:
    """Which count a collective needs, `replica_count` or `num_partitions`, and how much; None for
    what names one device at most."""
    pairs = getattr(i.attrs, "source_target_pairs", None)
    groups = getattr(i.attrs, "replica_groups", None)
    ids = [d for pair in pairs or () for d in pair]
    if groups is not None:
        ids += [d for g in groups.groups for d in g]
    if not ids or max(ids) < 1:
        return None
    mode = group_mode(i.attrs)
    count = "num_partitions" if mode in (CROSS_PARTITION, FLATTENED) else "replica_count"
    return count, max(ids) + 1


def check_devices(module: Module) -> None:
    """Raise where the header says one device, or one of the kind, and a collective names more."""
    replicas, partitions = module.replica_count, module.num_partitions
    for i in module.instructions():
        named = named_devices(i)
        if named is not None and ids_in_mode(group_mode(i.attrs) or "", replicas, partitions) == 1:
            count, needed = named
            option = "--num_partitions" if count == "num_partitions" else "--num_replicas"
            raise HloError(
                f"{i.opcode} names {needed} devices, but the header of {module.name} says "
                f"{replicas} x {partitions} (replicas x partitions)",
                instruction=f"{i.parent.name}/%{i.name}",
                rule="unsaid-devices",
                hint=f"write {count}={needed} in the header, or pass {option}={needed}; "
                f"{option}=1 computes what one device does when it is alone",
            )


def run_alone(module: Module) -> int:
    """Let every collective talk to device 0 only; return how many were changed."""
    changed = 0
    for i in module.instructions():
        if named_devices(i) is None:
            continue
        new: dict[str, Any] = {}
        if getattr(i.attrs, "replica_groups", None) is not None:
            new["replica_groups"] = ReplicaGroups(((0,),))
        if getattr(i.attrs, "source_target_pairs", None) is not None:
            local_pairs = tuple(p for p in i.attrs.source_target_pairs if max(p) < 1)
            new["source_target_pairs"] = local_pairs
        i.attrs = replace(i.attrs, **new)
        changed += 1
    return changed
