"""The section DEPLOYMENT of saved programs, both ways: where one runs, and its arrays.

The native side of the plugin reads it of programs that are compiled here and of loaded ones alike
(native/pjrt/deployment.cc).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from hloom.base.installed import hloom_version
from hloom.program.container import malformed
from hloom.program.program import Program
from hloom.program.saved import MALFORMED
from hloom.program.saved_form import ARRAY, DEPLOYMENT, SPREAD, Range, SectionReader, SectionWriter
from hloom.runtime.communicator.patience import Patience
from hloom.runtime.deployment import Deployment, Spread
from hloom.types.layout import default_layout
from hloom.types.shape import Shape

TYPES = {
    name: number
    for number, name in enumerate(
        (
            "invalid pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 bf16 c64 c128 f8e5m2 f8e4m3fn"
            " f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz s4 u4 token s2 u2 f8e4m3 f8e3m4 f8e8m0fnu"
            " f4e2m1fn s1 u1"
        ).split()
    )
}
"""Numbers of element types in the ABI of PJRT, by their names in HLO."""


def deployment_section(program: Program, deployment: Deployment) -> bytes:
    """The facts about a program that is deployed so."""
    to = SectionWriter(DEPLOYMENT)
    arguments = _cut(_arguments(program, deployment.donated), deployment.arguments)
    leaves = [(k, r.shape, False) for k, r in enumerate(program.results)]
    results = _cut(leaves, deployment.results)
    return to.finished(
        {
            "made_by": to.text(hloom_version()),
            "fingerprint": to.text(deployment.fingerprint),
            "replicas": deployment.replicas,
            "partitions": deployment.partitions,
            "is_portable": deployment.is_portable,
            "devices": to.numbers(deployment.devices),
            "donated": to.numbers(sorted(deployment.donated)),
            "arguments": to.records(ARRAY, [_array(to, *each) for each in arguments]),
            "results": to.records(ARRAY, [_array(to, *each) for each in results]),
            "argument_spreads": _spreads(to, deployment.arguments),
            "result_spreads": _spreads(to, deployment.results),
            "together_ms": to.numbers([int(1000 * s) for s in deployment.together or ()]),
        }
    )


Leaf = tuple[int, Shape, bool]
"""Its number among the program's (-1: none), its shape, whether its buffer is gone afterwards."""


def _arguments(program: Program, donated: frozenset[int]) -> Iterator[Leaf]:
    """One for each leaf of the parameters; of a token, which is no argument elsewhere, too."""
    leaves = enumerate(program.parameters)
    for whole in program.argument_shapes:
        for _, shape in whole.subshapes():
            if shape.is_token:
                yield -1, shape, False
            elif shape.is_array:
                number, p = next(leaves)
                yield number, p.shape, p.number in donated


def _cut(leaves: Iterable[Leaf], spreads: Sequence[Spread]) -> Iterator[tuple[Leaf, Spread]]:
    """Leaves with how they stand on devices."""
    for leaf, spread in zip_longest(leaves, spreads):
        if leaf is not None:
            yield leaf, spread or Spread()


def _array(to: SectionWriter, leaf: Leaf, spread: Spread) -> dict[str, Any]:
    number, shape, is_donated = leaf
    dims = () if shape.is_token else shape.dims
    is_cut = bool(spread.offsets)
    return {
        "leaf": number,
        "is_donated": is_donated,
        "type": TYPES["token" if shape.is_token else shape.dtype.name],
        "memory_kind": spread.memory_kind,
        "dims": to.numbers(spread.dims if is_cut else dims),
        "layout": to.text(_layout(shape)),
        "sharding": to.text(spread.sharding),
        "whole": to.numbers((spread.whole or dims) if is_cut else ()),
        "offsets": to.numbers([x for place in spread.offsets for x in place]),
    }


def _layout(shape: Shape) -> str:
    """The text of a layout that is not row-major, or of narrow elements."""
    if shape.is_token:
        return ""
    dtype, layout = shape.dtype, shape.layout
    if dtype.is_sub_byte and (layout is None or not layout.element_size_in_bits):
        layout = (layout or default_layout(shape.rank)).replace(element_size_in_bits=dtype.bits)
    return "" if layout is None or layout.is_default else layout.text


def _spreads(to: SectionWriter, spreads: Sequence[Spread]) -> Range:
    rows: list[Mapping[str, Any]] = [
        {
            "dims": to.numbers(s.dims),
            "offsets": to.numbers([x for place in s.offsets for x in place]),
            "sharding": to.text(s.sharding),
            "whole": to.numbers(s.whole),
            "memory_kind": s.memory_kind,
        }
        for s in spreads
    ]
    return to.records(SPREAD, rows)


def deployment_from_section(section: memoryview) -> Deployment:
    """The deployment; `HloError` for a section that is malformed, or of another hloom."""
    reader = SectionReader(section)
    try:
        row = reader.first(DEPLOYMENT)
        made_by = reader.text(row.made_by)
        deployment = Deployment(
            reader.text(row.fingerprint),
            frozenset(reader.numbers(row.donated)),
            row.replicas,
            row.partitions,
            reader.numbers(row.devices),
            bool(row.is_portable),
            tuple([_spread(reader, s) for s in reader.records(SPREAD, row.argument_spreads)]),
            tuple([_spread(reader, s) for s in reader.records(SPREAD, row.result_spreads)]),
            _patience(reader.numbers(row.together_ms)),
        )
    except MALFORMED as error:
        raise malformed(f"a saved program is malformed: {type(error).__name__}: {error}") from None
    if made_by != hloom_version():
        raise malformed(
            f"a saved program is of hloom {made_by}, this is {hloom_version()}", "compile it again"
        )
    return deployment


def _patience(limits_ms: Sequence[int]) -> Patience | None:
    return Patience(*[ms / 1000 for ms in limits_ms]) if limits_ms else None


def _spread(reader: SectionReader, row: Any) -> Spread:
    dims, flat = reader.numbers(row.dims), reader.numbers(row.offsets)
    spread = Spread(
        dims, (), reader.bytes(row.sharding), reader.numbers(row.whole), row.memory_kind
    )
    if not flat:
        return spread
    if not dims or len(flat) % len(dims):
        raise ValueError(f"{len(flat)} numbers say where shards of rank {len(dims)} begin")
    places = [flat[k : k + len(dims)] for k in range(0, len(flat), len(dims))]
    return replace(spread, offsets=tuple(places))
