"""Which devices talk to each other: replica groups turned into global device ids.

The ids in `replica_groups` mean four different things, depending on two other attributes. A
global id is replica * partition_count + partition.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from hloom.ir.values.groups import AnyGroups

CROSS_REPLICA = "cross replica"
"""Ids are replicas; one such group for each partition."""
CROSS_PARTITION = "cross partition"
"""Ids are partitions; one such group for each replica."""
CROSS_REPLICA_AND_PARTITION = "cross replica and partition"
"""Ids are replicas; a group holds all partitions of its replicas."""
FLATTENED = "flattened ids"
"""Ids are global ids."""

Groups = tuple[tuple[int, ...], ...]


def group_mode(attrs: Any) -> str | None:
    """The mode of a collective with these attributes; None where they contradict each other.

    Global ids without a channel are the contradiction.
    """
    has_channel = attrs.channel_id is not None
    if not hasattr(attrs, "use_global_device_ids"):
        return CROSS_PARTITION if has_channel else CROSS_REPLICA
    if attrs.use_global_device_ids:
        return FLATTENED if has_channel else None
    return CROSS_REPLICA_AND_PARTITION if has_channel else CROSS_REPLICA


def ids_in_mode(mode: str, replicas: int, partitions: int) -> int:
    """How many ids there are to put into groups."""
    if mode == CROSS_PARTITION:
        return partitions
    return replicas * partitions if mode == FLATTENED else replicas


@lru_cache(maxsize=1024)
def device_groups(groups: AnyGroups, mode: str, replicas: int, partitions: int) -> Groups:
    """Every group in global ids, each in group order; no groups at all mean one of everybody."""
    ids = groups.groups or (tuple(range(ids_in_mode(mode, replicas, partitions))),)
    if mode == FLATTENED:
        return ids
    if mode == CROSS_REPLICA:
        return tuple(
            tuple(r * partitions + p for r in group) for group in ids for p in range(partitions)
        )
    if mode == CROSS_PARTITION:
        return tuple(
            tuple(r * partitions + p for p in group) for group in ids for r in range(replicas)
        )
    return tuple(
        tuple(r * partitions + p for r in group for p in range(partitions)) for group in ids
    )


def device_pairs(
    pairs: tuple[tuple[int, int], ...], mode: str, replicas: int, partitions: int
) -> tuple[tuple[int, int], ...]:
    """Source-target pairs in global ids, for every copy of them."""
    if mode == FLATTENED:
        return pairs
    if mode == CROSS_PARTITION:
        return tuple(
            (r * partitions + s, r * partitions + t) for r in range(replicas) for s, t in pairs
        )
    return tuple(
        (s * partitions + p, t * partitions + p) for p in range(partitions) for s, t in pairs
    )


TRANSFER_PAIRS = "_xla_send_recv_source_target_pairs"
"""The frontend attribute in which sends and receives name their pairs."""
_PAIR = re.compile(r"\{\s*(\d+)\s*,\s*(\d+)\s*\}")


def transfer_pairs(i: Any) -> tuple[tuple[int, int], ...] | None:
    """The source-target pairs of a send or receive as written; None where there are none."""
    text = i.frontend_attributes.get(TRANSFER_PAIRS) if i.frontend_attributes else None
    if text is None:
        return None
    return tuple([(int(s), int(t)) for s, t in _PAIR.findall(text)])
