"""Is every attribute and every sharding one that HLO has?

A reader cannot make others, but passes and callers of the API can. An attribute is right when its
text reads back as itself: so enumerations, windows, groups and all others need no rule of their
own, and whatever verifies can be printed and parsed. Equal ones are asked about once: collectives
differ by their channels alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hloom.base.diagnostics import HloError, VerifyError
from hloom.ir.kinds import AttributeKind, Float, LiteralKind, Raw, String
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.text.cursor import Cursor, blank_comments
from hloom.ir.values.sharding import parse_sharding
from hloom.ir.verify.rules import VerifyOptions, broken

_FREE = frozenset((Float, LiteralKind, Raw, String))
"""Kinds that any value of their Python type is one of, or (literals) that have other rules."""


def check_attributes(module: Module, options: VerifyOptions) -> Iterator[VerifyError]:
    """Compare each attribute with what its text reads as."""
    seen: set[tuple[str, Any]] = set()
    right: set[tuple[int, type, Any]] = set()
    for i in module.instructions():
        op = OPS[i.opcode]
        if type(i.attrs) is not op.attrs:
            yield broken("attribute", f"{i.opcode} has the attributes of another operation", i)
            continue
        if i.attrs is not op.empty and op.fields:
            key = (i.opcode, i.attrs)
            if key not in seen:
                seen.add(key)
                for field in op.fields:
                    value = getattr(i.attrs, field.name)
                    if value is field.default or value is None or field.kind in _FREE:
                        continue
                    same = id(field.kind), type(value), value
                    if same in right:
                        continue
                    if _reads_back(field.kind, value):
                        right.add(same)
                    else:
                        yield broken(
                            "attribute",
                            f"{field.name}={value!r} is no {field.kind.name}, which looks like "
                            f"{field.kind.hint}",
                            i,
                        )
        if i.sharding is not None and ("", i.sharding) not in seen:
            seen.add(("", i.sharding))
            if not _sharding_reads_back(i.sharding):
                yield broken("sharding", f"{i.sharding!r} is no sharding", i)


def _reads_back(kind: AttributeKind, value: Any) -> bool:
    try:
        text = kind.show(value)
        cursor = Cursor(blank_comments(text))
        return kind.parse(cursor) == value and cursor.skip() == len(text)
    except (HloError, TypeError, ValueError, AttributeError, IndexError, KeyError):
        return False


def _sharding_reads_back(sharding: Any) -> bool:
    try:
        return parse_sharding(Cursor(blank_comments(sharding.text))) == sharding
    except (HloError, TypeError, ValueError, AttributeError, IndexError, KeyError):
        return False
