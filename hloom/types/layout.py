"""Layouts: how the elements of an array are placed in memory, interned.

The text form is `{1,0:T(8,128)(2,1)E(4)S(5)}`: the dimensions from fastest to slowest, then
optional fields in a fixed order. See `README.md` for the whole grammar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hloom.base.diagnostics import UsageError
from hloom.types.dtype import DType

if TYPE_CHECKING:
    from hloom.types.shape import Shape

Tile = tuple[int, ...]
"""The sizes of one level of tiling."""
SplitConfig = tuple[int, tuple[int, ...]]
"""A dimension and the indices at which it is split between memories."""

COMBINED: Final = -(2**63)
"""In a tile, `*`: this dimension is merged with the next more minor one."""

_FIELDS: Final = (
    "minor_to_major",
    "tiles",
    "tail_padding_alignment",
    "index_primitive_type",
    "pointer_primitive_type",
    "element_size_in_bits",
    "memory_space",
    "split_configs",
    "physical_shape",
    "dynamic_shape_metadata_prefix_bytes",
)


class Layout:
    """One layout; equal layouts are one object, so compare with `is` or `same`.

    `minor_to_major[0]` is the dimension that varies fastest. `tail_padding_alignment` counts
    elements (1: none); `element_size_in_bits` 0 means the natural size of the type;
    `memory_space` 0 is the default memory, 5 host memory.
    """

    __slots__ = (*_FIELDS, "_text", "is_default")

    _text: str
    minor_to_major: tuple[int, ...]
    tiles: tuple[Tile, ...]
    tail_padding_alignment: int
    index_primitive_type: DType | None
    pointer_primitive_type: DType | None
    element_size_in_bits: int
    memory_space: int
    split_configs: tuple[SplitConfig, ...]
    physical_shape: Shape | None
    dynamic_shape_metadata_prefix_bytes: int
    is_default: bool
    """Whether this is row-major with nothing else said."""

    def __init__(self, key: tuple[Any, ...]) -> None:
        for name, value in zip(_FIELDS, key, strict=True):
            object.__setattr__(self, name, value)
        descending = tuple(range(len(self.minor_to_major) - 1, -1, -1))
        object.__setattr__(self, "is_default", key == (descending, *_PLAIN))
        object.__setattr__(self, "_text", _shown(self))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Layout never changes; {name!r} was assigned to")

    @property
    def rank(self) -> int:
        return len(self.minor_to_major)

    @property
    def text(self) -> str:
        """`{1,0:S(5)}`; the layout of a scalar shows as `{}`, which a shape leaves out."""
        return self._text

    def replace(self, **changes: Any) -> Layout:
        """This layout with some fields changed."""
        return layout(**{**{name: getattr(self, name) for name in _FIELDS}, **changes})

    def same(
        self,
        other: Layout | None,
        *,
        ignore_memory_space: bool = False,
        ignore_tiles: bool = False,
        ignore_element_size: bool = False,
        ignore_split_configs: bool = False,
        minor_to_major_only: bool = False,
    ) -> bool:
        """Whether the two are equal but for what is ignored."""
        if self is other:
            return True
        if other is None or self.minor_to_major != other.minor_to_major:
            return False
        if minor_to_major_only:
            return True
        ignored = {
            "memory_space": ignore_memory_space,
            "tiles": ignore_tiles,
            "element_size_in_bits": ignore_element_size,
            "split_configs": ignore_split_configs,
        }
        return all(
            ignored.get(name, False) or getattr(self, name) == getattr(other, name)
            for name in _FIELDS
        )

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<Layout {self._text}>"

    def __copy__(self) -> Layout:
        return self

    def __deepcopy__(self, memo: object) -> Layout:
        return self

    def __reduce__(self):
        return layout, tuple(getattr(self, name) for name in _FIELDS)


_PLAIN: Final = ((), 1, None, None, 0, 0, (), None, 0)
_INTERNED: Final[dict[tuple[Any, ...], Layout]] = {}
_USUAL_RANKS: Final = 64
_DEFAULTS: Final[list[Layout]] = []


def layout(
    minor_to_major: tuple[int, ...] | list[int],
    tiles: tuple[Tile, ...] | list[Tile] = (),
    tail_padding_alignment: int = 1,
    index_primitive_type: DType | None = None,
    pointer_primitive_type: DType | None = None,
    element_size_in_bits: int = 0,
    memory_space: int = 0,
    split_configs: tuple[SplitConfig, ...] | list[SplitConfig] = (),
    physical_shape: Shape | None = None,
    dynamic_shape_metadata_prefix_bytes: int = 0,
) -> Layout:
    """The layout with these fields, trusted as they are; `checked_layout` tests them."""
    key = (
        tuple(minor_to_major),
        tuple(map(tuple, tiles)),
        tail_padding_alignment,
        index_primitive_type,
        pointer_primitive_type,
        element_size_in_bits,
        memory_space,
        tuple((dimension, tuple(indices)) for dimension, indices in split_configs),
        physical_shape,
        dynamic_shape_metadata_prefix_bytes,
    )
    layout_ = _INTERNED.get(key)
    if layout_ is None:
        layout_ = _INTERNED.setdefault(key, Layout(key))
    return layout_


def checked_layout(fields: Layout, rank: int) -> Layout:
    """`fields` itself where it suits an array of `rank` dimensions; else `UsageError`."""
    order = fields.minor_to_major
    if len(order) != rank:
        raise UsageError(f"layout {fields} is for rank {len(order)}, but the shape has rank {rank}")
    if sorted(order) != list(range(rank)):
        raise UsageError(f"layout {fields} is not a permutation of the {rank} dimensions")
    if any(size < 0 and size != COMBINED for tile in fields.tiles for size in tile):
        raise UsageError(f"layout {fields} has a negative tile size")
    if fields.tail_padding_alignment < 1:
        raise UsageError(f"layout {fields} has a tail padding alignment below 1")
    if fields.element_size_in_bits < 0 or fields.dynamic_shape_metadata_prefix_bytes < 0:
        raise UsageError(f"layout {fields} has a negative size")
    if not -128 <= fields.memory_space <= 127:
        raise UsageError(f"memory space {fields.memory_space} does not fit 8 bits")
    if any(not 0 <= dimension < rank for dimension, _ in fields.split_configs):
        raise UsageError(f"layout {fields} splits a dimension that does not exist")
    return fields


def default_layout(rank: int) -> Layout:
    """Row-major: the last dimension varies fastest."""
    if rank > _USUAL_RANKS:
        return layout(tuple(range(rank - 1, -1, -1)))
    while rank >= len(_DEFAULTS):
        _DEFAULTS.append(layout(tuple(range(len(_DEFAULTS) - 1, -1, -1))))
    return _DEFAULTS[rank]


def _shown(fields: Layout) -> str:
    order = ",".join(map(str, fields.minor_to_major))
    rest: list[str] = []
    if fields.tiles:
        rest.append("T" + "".join(f"({_shown_tile(tile)})" for tile in fields.tiles))
    if fields.tail_padding_alignment != 1:
        rest.append(f"L({fields.tail_padding_alignment})")
    if fields.index_primitive_type is not None:
        rest.append(f"#({fields.index_primitive_type})")
    if fields.pointer_primitive_type is not None:
        rest.append(f"*({fields.pointer_primitive_type})")
    if fields.element_size_in_bits:
        rest.append(f"E({fields.element_size_in_bits})")
    if fields.memory_space:
        rest.append(f"S({fields.memory_space})")
    if fields.split_configs:
        rest.append("SC")
        for dimension, indices in fields.split_configs:
            rest.append(f"({dimension}:{','.join(map(str, indices))})")
    if fields.physical_shape is not None:
        rest.append(f"P({fields.physical_shape.text})")
    if fields.dynamic_shape_metadata_prefix_bytes:
        rest.append(f"M({fields.dynamic_shape_metadata_prefix_bytes})")
    return f"{{{order}:{''.join(rest)}}}" if rest else f"{{{order}}}"


def _shown_tile(tile: Tile) -> str:
    return ",".join("*" if size == COMBINED else str(size) for size in tile)
