"""Writes saved_form.h, the records of saved programs as C structs, from their one description.

    python hloom/runtime/native/make_saved_form.py > hloom/runtime/native/saved_form.h

Every size and offset that Python packs by becomes a static assertion.
"""

from __future__ import annotations

from collections.abc import Iterator

from hloom.program.saved_form import (
    ALLOCATION_KINDS,
    BYTE_ORDER,
    MAGIC,
    MOST_SECTIONS,
    NOWHERE,
    PAGE,
    RECORDS,
    VERSION,
    RecordKind,
    SectionKind,
)

HEAD = """\
// The records of saved programs: written by make_saved_form.py from hloom/program/saved_form.py,
// which says what they are. Don't edit.
#ifndef HLOOM_RUNTIME_SAVED_FORM_H
#define HLOOM_RUNTIME_SAVED_FORM_H

#include <stddef.h>
#include <stdint.h>

namespace hloom::saved {
"""
RANGE = """\
// Where in its section something stands, and how many of it there are.
struct Range {
  int64_t at, count;
};
"""


def header() -> str:
    """The text of saved_form.h."""
    return "\n".join([HEAD, *constants(), "", RANGE, *map(struct, RECORDS), TAIL])


TAIL = """\
}  // namespace hloom::saved

#endif"""


def constants() -> Iterator[str]:
    """What else both sides must agree on."""
    yield f'inline constexpr char kMagic[] = "{MAGIC.decode()}";'
    yield f"inline constexpr uint32_t kVersion = {VERSION};"
    yield f"inline constexpr uint32_t kByteOrder = {BYTE_ORDER:#x};"
    yield f"inline constexpr uint64_t kPage = {PAGE};"
    yield f"inline constexpr uint32_t kMostSections = {MOST_SECTIONS};"
    yield f"inline constexpr int64_t kNowhere = {NOWHERE.at};"
    kinds = ", ".join(f"k{k.name.capitalize()} = {k.value}" for k in SectionKind)
    yield f"enum SectionKind : uint32_t {{ {kinds} }};"
    kinds = ", ".join(f"k{name.capitalize()}Memory" for name in ALLOCATION_KINDS)
    yield f"enum AllocationKind : int64_t {{ {kinds} }};"


def struct(record: RecordKind) -> str:
    """A record, with assertions."""
    name = record.name
    words = " ".join(record.what.split())
    lines = [f"// {words}", f"struct {name} {{"]
    lines += [f"  {kind.c} {field};" for field, kind in record.fields.items()]
    lines += ["};", f"static_assert(sizeof({name}) == {record.format.size});"]
    for field, at in record.offsets().items():
        lines.append(f"static_assert(offsetof({name}, {field}) == {at});")
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    print(header())
