"""Shardings: how the elements of a value are spread over devices.

A `Sharding` is one of these kinds:

* `replicated`, `manual`, `unknown`, `unreduced`: nothing more to say;
* `maximal`: everything on one device;
* `tiled`: cut into `tile_dims` tiles, one device each. The last dimensions of `tile_dims` may be
  subgroups (`subgroup_types`): devices that hold the same tile, and how (replicated, ...);
* `named`: the same by names of mesh axes (`sharding_named.py`);
* `tuple`: one sharding per leaf of a tuple shape.

What is read is brought to XLA's normal form (subgroups of one type merged and ordered, replicated
devices in rising order, the shortest iota), so that equal texts come from equal values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

from hloom.ir.text.cursor import Cursor
from hloom.ir.values.devices import IotaDevices
from hloom.ir.values.metadata import OpMetadata
from hloom.ir.values.sharding_named import NamedSharding, parse_named
from hloom.ir.values.sharding_tiles import Devices, normal_tiles
from hloom.ir.values.sharding_words import ShardingWords, parse_metadata_list, read_words

if TYPE_CHECKING:
    import numpy

    from hloom.types.shape import Shape


@dataclass(frozen=True, slots=True)
class Sharding:
    """How one value is spread over devices; see the module."""

    kind: str
    tile_dims: tuple[int, ...] = ()
    """Tiles per dimension, then devices per subgroup type."""
    devices: Devices = ()
    """Device of each tile, row-major over `tile_dims`; of a maximal sharding, the one device."""
    subgroup_types: tuple[str, ...] = ()
    elements: tuple[Sharding, ...] = ()
    """Of a tuple: one per leaf of the shape, in order."""
    named: NamedSharding | None = None
    metadata: tuple[OpMetadata, ...] = ()
    shard_group: tuple[str, int] | None = None
    """`("as", id)`: sharded exactly like the group; `("like", id)`: preferably so."""

    @classmethod
    def tile(
        cls,
        tile_dims: tuple[int, ...],
        devices: Devices | None = None,
        subgroup_types: tuple[str, ...] = (),
    ) -> Sharding:
        """A tiled sharding in normal form; by default over devices 0, 1, 2, ..."""
        if devices is None:
            devices = IotaDevices((prod(tile_dims),), (0,))
        dims, devices, types, word = normal_tiles(tile_dims, devices, subgroup_types)
        return cls(word) if word else cls("tiled", dims, devices, types)

    @classmethod
    def maximal(cls, device: int) -> Sharding:
        return cls("maximal", devices=(device,))

    @classmethod
    def tuple_of(cls, *elements: Sharding) -> Sharding:
        """One sharding per leaf; nested tuples are flattened."""
        leaves = [x for e in elements for x in (e.elements if e.is_tuple else (e,))]
        return cls("tuple", elements=tuple(leaves))

    @property
    def is_tuple(self) -> bool:
        return self.kind == "tuple"

    @property
    def text(self) -> str:
        if self.kind == "tuple":
            # The comments that XLA writes into long tuples; readers see blanks there.
            marks = (f"/*index={i}*/" if i and i % 5 == 0 else "" for i in count())
            return "{" + ", ".join(m + e.text for m, e in zip(marks, self.elements)) + "}"
        return "{" + self._words() + self._suffix() + "}"

    def _words(self) -> str:
        if self.kind == "maximal":
            return f"maximal device={self.device}"
        if self.named is not None:
            return self.named.words
        if self.kind != "tiled":
            return self.kind
        text = "devices=[" + ",".join(map(str, self.tile_dims)) + "]"
        if isinstance(self.devices, IotaDevices):
            text += "<=" + self.devices.text
        else:
            text += ",".join(map(str, self.devices))
        if self.subgroup_types == ("replicated",):
            return text + " last_tile_dim_replicate"
        if self.subgroup_types:
            return text + " last_tile_dims={" + ", ".join(self.subgroup_types) + "}"
        return text

    def _suffix(self) -> str:
        text = f" shard_{self.shard_group[0]} {self.shard_group[1]}" if self.shard_group else ""
        if not self.metadata:
            return text
        texts = [m.text for m in self.metadata]
        if self.kind == "named":
            return f"{text}, metadata={{{', '.join(texts)}}}"
        if len(texts) == 1:
            return f"{text} metadata={texts[0]}"
        return f"{text} metadata={{{', '.join(texts)}}}"

    @property
    def device(self) -> int | None:
        """The one device of a maximal sharding."""
        if self.kind == "maximal" and isinstance(self.devices, tuple):
            return self.devices[0] if self.devices else None
        if self.named and self.named.mesh.is_maximal and isinstance(self.named.mesh.devices, tuple):
            return self.named.mesh.devices[0]
        return None

    @property
    def device_count(self) -> int | None:
        """How many devices take part; None when that is not said (replicated, manual, ...)."""
        if self.device is not None:
            return 1
        if self.kind == "tiled":
            return prod(self.tile_dims)
        if self.named is not None:
            return self.named.mesh.device_count
        counts = [c for e in self.elements if (c := e.device_count) is not None]
        return max(counts, default=None)

    @property
    def data_rank(self) -> int:
        """How many dimensions a tiled value has: those of the tiles less the subgroups."""
        return len(self.tile_dims) - len(self.subgroup_types)

    def for_leaf(self, index: int) -> Sharding:
        """The sharding of one leaf (counted in order) of the value."""
        return self.elements[index] if self.is_tuple else self

    def without_metadata(self) -> Sharding:
        if self.is_tuple:
            return replace(self, elements=tuple(e.without_metadata() for e in self.elements))
        return replace(self, metadata=()) if self.metadata else self

    def tiled(self) -> Sharding:
        """A named sharding as tiles (kind `tiled` or a simpler one); others as they are."""
        if self.is_tuple:
            return replace(self, elements=tuple(e.tiled() for e in self.elements))
        if self.named is None:
            return self
        tiled_ = _tiles_of(self.named) if self.device is None else Sharding.maximal(self.device)
        if not self.metadata and self.shard_group is None:
            return tiled_
        return replace(tiled_, metadata=self.metadata, shard_group=self.shard_group)

    def tile_assignment(self) -> numpy.ndarray:
        """The devices as an array of shape `tile_dims` (subgroups included).

        A maximal sharding gives one device; replicated and the like an empty array.
        """
        import numpy as np

        s = self.tiled()
        if isinstance(s.devices, IotaDevices):
            return s.devices.array().reshape(s.tile_dims)
        return np.array(s.devices, dtype=np.int64).reshape(s.tile_dims or (len(s.devices),))

    def same(self, other: Sharding) -> bool:
        """Whether it means the same: metadata and the way of writing do not count."""
        a, b = self.without_metadata(), other.without_metadata()
        if a == b:
            return True
        if a.is_tuple or b.is_tuple:
            if a.kind != b.kind or len(a.elements) != len(b.elements):
                return False
            return all(x.same(y) for x, y in zip(a.elements, b.elements))
        return _expanded(a) == _expanded(b)

    def num_tiles(self, dimension: int | None = None) -> int:
        """Into how many tiles one dimension is cut, or the whole value."""
        s = self.tiled()
        if s.kind != "tiled":
            return 1
        data = s.tile_dims[: s.data_rank]
        return prod(data) if dimension is None else data[dimension]

    def tile_sizes(self, dimensions: tuple[int, ...]) -> tuple[int, ...]:
        """The dimensions of a tile of a value of these dimensions (rounded up)."""
        s = self.tiled()
        if s.kind != "tiled":
            return tuple(dimensions)
        return tuple(-(-size // tiles) for size, tiles in zip(dimensions, s.tile_dims))

    def tile_index(self, device: int) -> tuple[int, ...]:
        """Which tile a device holds, one number per dimension; `ValueError` if none."""
        s = self.tiled()
        if s.kind != "tiled":
            if s.kind == "maximal" and s.device != device:
                raise ValueError(f"device {device} holds nothing of {self.text}")
            return ()
        array = self.tile_assignment()
        places = (array == device).nonzero()
        if not len(places[0]):
            raise ValueError(f"device {device} holds nothing of {self.text}")
        return tuple(int(p[0]) for p in places[: s.data_rank])

    def tile_offset(self, shape: Shape, device: int) -> tuple[int, ...]:
        """The index of the first element a device holds (past the end for an empty tile)."""
        index = self.tile_index(device)
        sizes = self.tile_sizes(tuple(shape.dims))
        return tuple(
            min(i * size, whole)
            for i, size, whole in zip(index or (0,) * len(sizes), sizes, shape.dims)
        )

    def tile_limit(self, shape: Shape, device: int) -> tuple[int, ...]:
        """The index just past the last element a device holds."""
        index = self.tile_index(device)
        sizes = self.tile_sizes(tuple(shape.dims))
        return tuple(
            min((i + 1) * size, whole)
            for i, size, whole in zip(index or (0,) * len(sizes), sizes, shape.dims)
        )

    def tile_shape(self, shape: Shape) -> Shape:
        """The shape of one device's part, rounded up; layout and leaves of tuples are kept."""
        from hloom.ir.values.sharding_checks import tile_shape

        return tile_shape(self, shape)

    def validate(self, shape: Shape, num_devices: int | None = None) -> str | None:
        """What is wrong with it on a value of this shape and so many devices, or None."""
        from hloom.ir.values.sharding_checks import validate

        return validate(self, shape, num_devices)


REPLICATED = Sharding("replicated")
MANUAL = Sharding("manual")


def _expanded(s: Sharding) -> tuple[object, ...]:
    t = s.tiled()
    devices = t.devices.devices if isinstance(t.devices, IotaDevices) else t.devices
    if t.kind == "tiled" and t.subgroup_types[-1:] == ("replicated",):
        last = t.tile_dims[-1]
        rows = (sorted(devices[i : i + last]) for i in range(0, len(devices), last))
        devices = tuple(d for row in rows for d in row)
    return t.kind, t.tile_dims, devices, t.subgroup_types, t.shard_group


def parse_sharding(cursor: Cursor) -> Sharding:
    """Read a sharding in braces, in any of its forms."""
    cursor.expect("{", "to start a sharding")
    if cursor.eat("}"):
        return Sharding("tuple")
    if not cursor.at("{"):
        return _parse_single(cursor)
    elements: list[Sharding] = []
    while True:
        cursor.expect("{", "to start a sharding of a tuple's leaf")
        elements.append(_parse_single(cursor))
        if cursor.eat("}"):
            return Sharding("tuple", elements=tuple(elements))
        cursor.expect(",", "between the shardings of a tuple")


def _parse_single(cursor: Cursor) -> Sharding:
    """Read the rest of a sharding after its brace."""
    if any(map(cursor.at, ("mesh", "maximal_mesh", "single_device"))):
        named = parse_named(cursor)
        metadata: tuple[OpMetadata, ...] = ()
        if cursor.eat(","):
            cursor.expect("metadata=", "or a list of axes")
            metadata = parse_metadata_list(cursor)
        cursor.expect("}", "to end a named sharding")
        return Sharding("named", named=named, metadata=metadata)
    return _sharding_of(cursor, read_words(cursor))


def _sharding_of(cursor: Cursor, words: ShardingWords) -> Sharding:
    """The sharding that the words between braces say."""

    def fail(message: str, hint: str | None = None) -> NoReturn:
        cursor.fail(message, words.start, hint=hint)

    extra: dict[str, Any] = {"metadata": words.metadata, "shard_group": words.group}
    if words.kind == "maximal":
        device = words.device
        if device is None and isinstance(words.devices, tuple) and len(words.devices) == 1:
            device = words.devices[0]
        if device is None:
            fail("a maximal sharding has exactly one device: {maximal device=0}")
        return Sharding("maximal", devices=(device,), **extra)
    if words.kind is not None:
        if words.device is not None or words.devices is not None or words.types:
            fail(f"a {words.kind} sharding has no devices")
        return Sharding(words.kind, **extra)
    if words.dims is None or words.devices is None:
        fail("a sharding that is not of a simple kind needs devices=[...]")
    if words.device is not None:
        fail("device= belongs to maximal shardings only")
    if len(words.types) > len(words.dims):
        fail(f"there are {len(words.types)} types but {len(words.dims)} tile dimensions")
    if isinstance(words.devices, tuple) and len(words.devices) < 2:
        fail("a tiled sharding has more than one device", hint="write {replicated}")
    return replace(Sharding.tile(words.dims, words.devices, words.types), **extra)


@lru_cache(maxsize=1024)
def _tiles_of(named: NamedSharding) -> Sharding:
    """The same as tiles: a program has few of them, and asks again for each of its values."""
    dims, types, devices = named.tiling()
    tiles = Sharding.tile(dims, tuple(devices.tolist()), types)
    return REPLICATED if tiles.kind == "tiled" and prod(tiles.tile_dims) == 1 else tiles
