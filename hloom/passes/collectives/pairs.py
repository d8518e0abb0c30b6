"""Source-target pairs of permutes: in the ids of a mode, one after another, and round in cycles."""

from __future__ import annotations

from hloom.ir.module import Module
from hloom.ir.values.group_modes import CROSS_PARTITION, device_pairs

Pairs = tuple[tuple[int, int], ...]


def pairs_in_mode(pairs: Pairs, mode: str | None, module: Module) -> Pairs | None:
    """Pairs of global ids as they are written in a mode of permutes; None where they cannot be."""
    replicas, partitions = module.replica_count, module.num_partitions
    if mode == CROSS_PARTITION:
        written = [(s, t) for s, t in pairs if t < partitions]
    else:
        written = [(s // partitions, t // partitions) for s, t in pairs if t % partitions == 0]
    if mode is None or set(device_pairs(tuple(written), mode, replicas, partitions)) != set(pairs):
        return None
    return tuple(sorted(written))


def composed(first: Pairs, second: Pairs) -> Pairs:
    """The pairs of one permute that does the first and then the second."""
    target_of = dict(second)
    return tuple((s, target_of[t]) for s, t in first if t in target_of)


def has_cycle(pairs: Pairs) -> bool:
    """Whether some data would come round to where it started, through other devices."""
    return bool(cycles(pairs))


def cycles(pairs: Pairs) -> list[list[int]]:
    """The devices of each cycle of at least two, in the order in which data goes."""
    target_of = dict(pairs)
    loops, seen = [], set[int]()
    for start in target_of:
        path, d = [], start
        while d in target_of and d not in seen:
            seen.add(d)
            path.append(d)
            d = target_of[d]
        if d == start and len(path) > 1:
            loops.append(path)
    return loops
