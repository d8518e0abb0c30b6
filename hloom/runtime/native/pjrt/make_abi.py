"""Writes abi.h, the PJRT C ABI as a C header, from a file of facts about it.

    python make_abi.py /path/to/pjrt_0_112.json > abi.h

The facts are structs (fields, types, offsets), enums, function types and the order of the table.
Every offset becomes a static assertion, so a header that lays something out otherwise does not
compile.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FUNCTIONS: set[str] = set()
"""Names of the function types that fields point to."""

HEAD = """\
// The PJRT C ABI, version {version}: written by make_abi.py from facts about it. Don't edit.
#ifndef HLOOM_RUNTIME_PJRT_ABI_H
#define HLOOM_RUNTIME_PJRT_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PJRT_API_MAJOR {major}
#define PJRT_API_MINOR {minor}
"""


def declared(kind: str, name: str) -> str:
    """A field or argument of a C type: pointers to functions hold the name inside."""
    if "(*)" in kind:
        return kind.replace("(*)", f"(*{name})", 1).replace("_Bool", "bool")
    space = "" if kind.endswith("*") else " "
    return f"{kind.replace('_Bool', 'bool')}{space}{name}"


def of_function(kind: str) -> str:
    """A pointer to a function, by its type's name here: C++ forbids a field its type's name."""
    name = kind.removesuffix(" *")
    return f"{name}_Function *" if name in FUNCTIONS else kind


def words(kind: str) -> set[str]:
    """The names in a C type."""
    return set(re.findall(r"[A-Za-z_]\w*", kind))


def fields_of(struct: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Name and type of every field; those of a union one by one."""
    for name, kind, *_ in struct["fields"]:
        if isinstance(kind, list):
            yield from ((n, k) for n, k in kind)
        else:
            yield name, kind


def struct_lines(name: str, struct: dict[str, Any]) -> Iterator[str]:
    """The definition of a struct, and its assertions."""
    yield f"struct {name} {{"
    for field, kind, _ in struct["fields"]:
        if isinstance(kind, list):
            inside = " ".join(f"{declared(k, n)};" for n, k in kind)
            yield f"  union {{ {inside} }};"
        else:
            yield f"  {declared(of_function(kind), field)};"
    yield "};"
    for field, kind, offset in struct["fields"]:
        if offset is not None and not isinstance(kind, list):
            yield f"PJRT_AT({name}, {field}, {offset});"
    yield f"PJRT_SIZE({name}, {struct['size']});"


def in_order(structs: dict[str, Any]) -> list[str]:
    """The structs' names, those that others hold by value first."""
    done: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        for _, kind in fields_of(structs[name]):
            plain = kind.removeprefix("const ").removeprefix("struct ")
            if plain in structs and plain != name:
                visit(plain)
        done.append(name)

    for name in structs:
        visit(name)
    return done


def header(facts: dict[str, Any]) -> Iterator[str]:
    """The lines of the header."""
    structs, functions, enums = facts["structs"], facts["function_types"], facts["enums"]
    match = re.search(r"API version (\d+)\.(\d+)", facts["about"])
    assert match, "the facts do not state their version"
    major, minor = match.groups()
    FUNCTIONS.update(n for n, f in functions.items() if f.get("by_value"))
    yield HEAD.format(version=f"{major}.{minor}", major=major, minor=minor)
    yield "#ifdef __cplusplus"
    yield "#define PJRT_ASSERT(condition) static_assert(condition)"
    yield "#else"
    yield '#define PJRT_ASSERT(condition) _Static_assert(condition, "")'
    yield "#endif"
    yield "#define PJRT_AT(type, field, at) PJRT_ASSERT(offsetof(struct type, field) == at)"
    yield "#define PJRT_SIZE(type, bytes) PJRT_ASSERT(sizeof(struct type) >= bytes)"
    yield ""
    for name, values in enums.items():
        inside = ", ".join(f"{n} = {v}" for n, v in values.items())
        yield f"typedef enum {{ {inside} }} {name};"
    yield ""
    used: set[str] = set(structs)
    for struct in structs.values():
        for _, kind in fields_of(struct):
            used |= words(kind)
    for f in functions.values():
        used |= {w for kind in (*f["args"], f["returns"]) for w in words(kind)}
    opaque = sorted(
        n for n in used if n.startswith(("PJRT_", "JAX_")) and n not in {*enums, *functions}
    )
    for name in opaque:
        yield f"typedef struct {name} {name};"
    yield ""
    for name, f in functions.items():
        arguments = ", ".join(f["args"]).replace("_Bool", "bool") or "void"
        wrapped = f"{name}_Function" if f.get("by_value") else f"(*{name})"
        yield f"typedef {f['returns']} {wrapped}({arguments});"
    yield ""
    for name in in_order(structs):
        yield from struct_lines(name, structs[name])
    yield ""
    yield "// X(name) for every function of the table but the two that return nothing, in order."
    yield "#define PJRT_TABLE(X) \\"
    plain = [n for n in facts["table_order"] if functions[n]["returns"] != "void"]
    yield from (f"  X({n.removeprefix('PJRT_')}) \\" for n in plain)
    yield ""
    yield "#endif"


if __name__ == "__main__":
    print("\n".join(header(json.loads(Path(sys.argv[1]).read_text()))))
