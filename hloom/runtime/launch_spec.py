"""Where a program of the plugin runs, and how its arrays stand on the devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hloom.runtime.communicator.patience import Patience
from hloom.types.shape import ProgramShape, Shape, tuple_shape

MEMORY_KINDS = ("device", "pinned_host", "unpinned_host")
MEMORY_SPACES = (0, 5, 6)
"""Numbers of the same in layouts."""


@dataclass(frozen=True)
class ShardSpec:
    """How an array stands on the devices, of each of which the program sees its part."""

    sharding: bytes = b""
    """A serialized OpSharding; nothing where each device has the whole."""
    memory_kind: int = 0
    """Its number in MEMORY_KINDS."""


@dataclass(frozen=True)
class LaunchSpec:
    """Where a program runs, and what its caller gives up: nothing of it changes its code."""

    fingerprint: str
    """Of the program; behind a colon that of what it does with other devices, which must be the
    same in all processes."""
    donated: frozenset[int] = frozenset()
    """Arguments whose buffers are gone afterwards."""
    replicas: int = 1
    partitions: int = 1
    devices: tuple[int, ...] = ()
    """Ids, replica by replica; none where the caller says it at each run."""
    is_portable: bool = False
    arguments: tuple[ShardSpec, ...] = ()
    """Nothing where all are whole and in the devices' memory."""
    results: tuple[ShardSpec, ...] = ()
    together: Patience | None = None
    """How long devices wait for one another; None: none has to do with others, which one of several
    partitions always has."""

    def placed(self, shape: ProgramShape) -> ProgramShape:
        """The shape of the program with the memory spaces of arguments and results."""
        parameters = _placed(shape.parameters, self.arguments)
        result = shape.result
        if result.is_tuple:
            result = tuple_shape(_placed(result.elements, self.results))
        else:
            (result,) = _placed((result,), self.results)
        return replace(shape, parameters=parameters, result=result)


def _placed(shapes: Sequence[Shape], shard_specs: Sequence[ShardSpec]) -> tuple[Shape, ...]:
    placed = list(shapes)
    for k, shard_spec in enumerate(shard_specs[: len(placed)]):
        layout = placed[k].layout if placed[k].is_array else None
        if shard_spec.memory_kind and layout is not None:
            space = layout.replace(memory_space=MEMORY_SPACES[shard_spec.memory_kind])
            placed[k] = placed[k].with_layout(space)
    return tuple(placed)
