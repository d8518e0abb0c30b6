"""Reads the words between the braces of a sharding that names no mesh, in any order."""

from __future__ import annotations

from math import prod

from hloom.ir.text.cursor import Cursor
from hloom.ir.values.devices import parse_iota
from hloom.ir.values.metadata import OpMetadata, parse_metadata
from hloom.ir.values.sharding_tiles import SUBGROUP_TYPES, Devices

_WORDS = ("replicated", "manual", "unknown", "unreduced", "maximal")


def parse_metadata_list(cursor: Cursor) -> tuple[OpMetadata, ...]:
    """Read `{...}` or `{{...}, {...}}`."""
    start = cursor.skip()
    cursor.expect("{", "to start metadata")
    if not cursor.at("{"):
        cursor.position = start
        return (parse_metadata(cursor),)
    entries = [parse_metadata(cursor)]
    while not cursor.eat("}"):
        cursor.expect(",", "between metadata")
        entries.append(parse_metadata(cursor))
    return tuple(entries)


def read_words(cursor: Cursor) -> ShardingWords:
    """Read up to and with the closing brace."""
    words = ShardingWords(cursor)
    words.read()
    return words


class ShardingWords:
    """Reads the words of a sharding that is not named, in any order."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.start = cursor.skip()
        self.kind: str | None = None
        self.dims: tuple[int, ...] | None = None
        self.devices: Devices | None = None
        self.device: int | None = None
        self.types: tuple[str, ...] = ()
        self.metadata: tuple[OpMetadata, ...] = ()
        self.group: tuple[str, int] | None = None

    def read(self) -> None:
        cursor = self.cursor
        while not cursor.eat("}"):
            at = cursor.skip()
            if cursor.eat("devices="):
                self._once(self.dims, "devices=", at)
                self._read_devices()
            elif cursor.eat("device="):
                self._once(self.device, "device=", at)
                self.device = cursor.integer("a device number")
            elif cursor.eat("metadata="):
                self.metadata += parse_metadata_list(cursor)
            elif cursor.eat("last_tile_dims="):
                self._once(self.types or None, "the type of the last tile dimensions", at)
                self.types = self._read_types()
            else:
                self._read_word(at)

    def _read_word(self, at: int) -> None:
        cursor = self.cursor
        word = cursor.name("a sharding such as replicated or devices=[...]")
        if word in _WORDS:
            self._once(self.kind, "the kind of sharding", at)
            self.kind = word
        elif word == "last_tile_dim_replicate":
            self._once(self.types or None, "the type of the last tile dimensions", at)
            self.types = ("replicated",)
        elif word in ("shard_as", "shard_like"):
            self._once(self.group, "the shard group", at)
            self.group = (word.removeprefix("shard_"), cursor.integer("the id of a shard group"))
        else:
            known = ", ".join((*_WORDS, "devices=, device=, shard_as, shard_like, mesh[...]"))
            cursor.fail(
                f"unknown word {word!r} in a sharding", at, length=len(word), hint=f"known: {known}"
            )

    def _once(self, value: object, what: str, at: int) -> None:
        if value is not None:
            self.cursor.fail(f"{what} is given twice in this sharding", at)

    def _read_devices(self) -> None:
        cursor = self.cursor
        at = cursor.skip()
        self.dims = cursor.integers("[", "]")
        if not self.dims or min(self.dims) < 1:
            cursor.fail("tile dimensions are one or more positive numbers", at)
        tiles = prod(self.dims)
        if cursor.eat("<="):
            self.devices = parse_iota(cursor)
            count = tiles if self.devices.count == 1 else self.devices.count
        else:
            ids = [cursor.integer("a device number")]
            while cursor.eat(","):
                ids.append(cursor.integer("a device number"))
            self.devices, count = tuple(ids), len(ids)
        if count != tiles:
            cursor.fail(f"there are {tiles} tiles but {count} devices", at)

    def _read_types(self) -> tuple[str, ...]:
        cursor = self.cursor
        cursor.expect("{", "to start the types of the last tile dimensions")
        types: list[str] = []
        while not cursor.eat("}"):
            if types:
                cursor.expect(",", "between types")
            at = cursor.skip()
            word = cursor.name("the type of a tile dimension")
            if word not in SUBGROUP_TYPES:
                known = ", ".join(SUBGROUP_TYPES)
                cursor.fail(
                    f"unknown type {word!r} of a tile dimension", at, hint=f"known: {known}"
                )
            types.append(word)
        return tuple(types)
