"""The section LAUNCH of saved programs, both ways: where one runs, and its arrays.

The native side of the plugin reads it of programs that are compiled here and of loaded ones alike
(native/pjrt/launch_spec.cc).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from hloom.base.installed import hloom_version
from hloom.program.container import malformed
from hloom.program.program import Program
from hloom.program.saved import MALFORMED
from hloom.program.saved_form import (
    ARRAY,
    LAUNCH_SPEC,
    SHARD_SPEC,
    Range,
    SectionReader,
    SectionWriter,
)
from hloom.runtime.communicator.patience import Patience
from hloom.runtime.launch_spec import LaunchSpec, ShardSpec
from hloom.types.shape import Shape
from hloom.types.sizes import packed_form

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


def launch_section(program: Program, launch_spec: LaunchSpec) -> bytes:
    """The facts about a program that is launched so."""
    to = SectionWriter(LAUNCH_SPEC)
    arguments = _cut(_arguments(program, launch_spec.donated), launch_spec.arguments)
    leaves = [(k, r.shape, False) for k, r in enumerate(program.results)]
    results = _cut(leaves, launch_spec.results)
    return to.finished(
        {
            "made_by": to.text(hloom_version()),
            "fingerprint": to.text(launch_spec.fingerprint),
            "replicas": launch_spec.replicas,
            "partitions": launch_spec.partitions,
            "is_portable": launch_spec.is_portable,
            "devices": to.numbers(launch_spec.devices),
            "donated": to.numbers(sorted(launch_spec.donated)),
            "arguments": to.records(ARRAY, [_array(to, *each) for each in arguments]),
            "results": to.records(ARRAY, [_array(to, *each) for each in results]),
            "argument_shard_specs": _shard_specs(to, launch_spec.arguments),
            "result_shard_specs": _shard_specs(to, launch_spec.results),
            "together_ms": to.numbers([int(1000 * s) for s in launch_spec.together or ()]),
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


def _cut(
    leaves: Iterable[Leaf], shard_specs: Sequence[ShardSpec]
) -> Iterator[tuple[Leaf, ShardSpec]]:
    """Leaves with how they stand on devices."""
    for leaf, shard_spec in zip_longest(leaves, shard_specs):
        if leaf is not None:
            yield leaf, shard_spec or ShardSpec()


def _array(to: SectionWriter, leaf: Leaf, shard_spec: ShardSpec) -> dict[str, Any]:
    number, shape, is_donated = leaf
    dims = () if shape.is_token else shape.dims
    return {
        "leaf": number,
        "is_donated": is_donated,
        "type": TYPES["token" if shape.is_token else shape.dtype.name],
        "memory_kind": shard_spec.memory_kind,
        "dims": to.numbers(dims),
        "layout": to.text(_layout(shape)),
        "sharding": to.text(shard_spec.sharding),
    }


def _layout(shape: Shape) -> str:
    """The text of a layout that is not row-major, or of packed elements."""
    layout = packed_form(shape).layout
    return "" if layout is None or layout.is_default else layout.text


def _shard_specs(to: SectionWriter, shard_specs: Sequence[ShardSpec]) -> Range:
    rows: list[Mapping[str, Any]] = [
        {"sharding": to.text(s.sharding), "memory_kind": s.memory_kind} for s in shard_specs
    ]
    return to.records(SHARD_SPEC, rows)


def launch_spec_of_section(section: memoryview) -> LaunchSpec:
    """The spec; `HloError` for a section that is malformed, or of another hloom."""
    reader = SectionReader(section)
    try:
        row = reader.first(LAUNCH_SPEC)
        made_by = reader.text(row.made_by)
        launch_spec = LaunchSpec(
            reader.text(row.fingerprint),
            frozenset(reader.numbers(row.donated)),
            row.replicas,
            row.partitions,
            reader.numbers(row.devices),
            bool(row.is_portable),
            tuple(
                [
                    _shard_spec(reader, s)
                    for s in reader.records(SHARD_SPEC, row.argument_shard_specs)
                ]
            ),
            tuple(
                [_shard_spec(reader, s) for s in reader.records(SHARD_SPEC, row.result_shard_specs)]
            ),
            _patience(reader.numbers(row.together_ms)),
        )
    except MALFORMED as error:
        raise malformed(f"a saved program is malformed: {type(error).__name__}: {error}") from None
    if made_by != hloom_version():
        raise malformed(
            f"a saved program is of hloom {made_by}, this is {hloom_version()}", "compile it again"
        )
    return launch_spec


def _patience(limits_ms: Sequence[int]) -> Patience | None:
    return Patience(*[ms / 1000 for ms in limits_ms]) if limits_ms else None


def _shard_spec(reader: SectionReader, row: Any) -> ShardSpec:
    return ShardSpec(reader.bytes(row.sharding), row.memory_kind)
