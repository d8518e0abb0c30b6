"""Breaks programs: random edits of HLO text, of protobuf bytes and of protobuf messages.

A good mutant is nearly right, so most edits work on tokens and put in tokens that the language
has: another opcode, another type, a number at the edge of a range, a bracket too many.
"""

import math
import random
import re
from collections.abc import Iterator
from typing import Any

_TOKEN = re.compile(r"%?[A-Za-z_][\w.\-]*|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|\s+|.", re.DOTALL)
NUMBERS = (
    "0 1 -1 2 7 127 128 255 256 65536 2147483647 2147483648 -2147483649 4294967296"
    " 9223372036854775807 9223372036854775808 -9223372036854775809 1e999 0x1p3 nan inf -nan"
    " 1000000000000 00 1.5 -0.0 .5"
).split()
WORDS = (
    "f32 s32 u8 pred bf16 s4 c64 f8e4m3fn token opaque tuple ROOT ENTRY HloModule parameter add"
    " while conditional call fusion reduce constant dot sort gather scatter async-start async-done"
    " custom-call metadata sharding backend_config dimensions to_apply body condition calls"
    " is_scheduled=true replicated maximal true false null"
).split()
MARKS = list("{}[]()<>,:=%\"'/*\\;#\0\n\t ") + [
    "->",
    "/*",
    "*/",
    "//",
    "<=",
    "{{",
    "}}",
    "é",
    "\ufeff",
]


def mutated_text(text: str, rng: random.Random) -> str:
    """The text with one to four random edits of its tokens."""
    tokens = _TOKEN.findall(text)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not tokens:
            break
        rng.choice(_EDITS)(tokens, rng)
    return "".join(tokens)


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """The bytes with one to eight random edits."""
    made = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(made) + 1)
        kind = rng.randrange(6)
        if kind == 0:
            del made[at:]
        elif kind == 1:
            made[at:at] = rng.randbytes(rng.randint(1, 6))
        elif kind == 2:
            del made[at : at + rng.randint(1, 6)]
        elif kind == 3:
            made[at : at + 1] = bytes([rng.choice((0, 1, 127, 128, 255))])
        elif kind == 4 and made:
            at = rng.randrange(len(made))
            made[at] ^= 1 << rng.randrange(8)
        else:
            other = rng.randrange(len(made) + 1)
            made[at:at] = made[other : other + rng.randint(1, 40)]
    return bytes(made)


def mutated_message(data: bytes, rng: random.Random) -> bytes:
    """The bytes of an HloModuleProto with one or two fields changed, so that it still parses."""
    from hloom.ir import schema

    message = schema.HloModuleProto.FromString(data)
    for _ in range(rng.choice((1, 1, 2))):
        inside = list(_messages(message))
        target = rng.choice(inside)
        present = [field for field, _ in target.ListFields()]
        fields = present if present and rng.random() < 0.7 else list(target.DESCRIPTOR.fields)
        if fields:
            _change(target, rng.choice(fields), rng)
    return message.SerializeToString()


def _messages(message: Any) -> Iterator[Any]:
    """A message and all messages inside it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None or _is_map(field):
            continue
        for part in value if field.is_repeated else (value,):
            yield from _messages(part)


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _change(target: Any, field: Any, rng: random.Random) -> None:
    """Clear a field, reorder or shorten or repeat its values, or give it an odd value."""
    if _is_map(field) or rng.random() < 0.2:
        target.ClearField(field.name)
        return
    if field.message_type is not None:
        if not field.is_repeated:
            getattr(target, field.name).SetInParent()
            return
        values = getattr(target, field.name)
        kept = list(values)
        rng.shuffle(kept)
        kept = kept[: rng.randint(0, len(kept))] + kept[:1]
        target.ClearField(field.name)
        getattr(target, field.name).extend(kept)
        return
    value = _odd_value(field, rng)
    if not field.is_repeated:
        setattr(target, field.name, value)
        return
    values = getattr(target, field.name)
    if len(values) and rng.random() < 0.7:
        values[rng.randrange(len(values))] = value
    else:
        values.append(value)


def _odd_value(field: Any, rng: random.Random) -> Any:
    """A value that the type of a field admits and few programs have."""
    if field.enum_type is not None:
        return rng.choice([value.number for value in field.enum_type.values])
    if field.cpp_type == field.CPPTYPE_STRING:
        text = rng.choice(("", "add", "f32", "while", "%x", "a b", "é", "{", "constant", "x" * 300))
        return text.encode() if field.type == field.TYPE_BYTES else text
    if field.cpp_type == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if field.cpp_type in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        return rng.choice((0.0, -1.0, math.inf, math.nan, 0.5))
    bits = 32 if field.cpp_type in (field.CPPTYPE_INT32, field.CPPTYPE_UINT32) else 64
    unsigned = field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64)
    edges = (
        (2**bits - 1, 2 ** (bits - 1)) if unsigned else (2 ** (bits - 1) - 1, -(2 ** (bits - 1)))
    )
    small = (0, 1, 2, 3, 5, 1000) if unsigned else (0, 1, 2, 3, 5, 1000, -1, -2)
    return rng.choice((*edges, *small, *small))


def _replace(tokens: list[str], rng: random.Random) -> None:
    """Put another token of the language in the place of one."""
    at = rng.randrange(len(tokens))
    old = tokens[at]
    if old.lstrip("-")[:1].isdigit():
        tokens[at] = rng.choice(NUMBERS)
    elif old[:1].isalpha():
        same_kind = [t for t in rng.sample(tokens, min(40, len(tokens))) if t[:1].isalpha()]
        tokens[at] = rng.choice(same_kind + [rng.choice(WORDS)])
    elif old.startswith("%"):
        names = [t for t in rng.sample(tokens, min(80, len(tokens))) if t.startswith("%")]
        tokens[at] = rng.choice([*names, "%nobody"])
    else:
        tokens[at] = rng.choice(MARKS)


def _insert(tokens: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(tokens) + 1)
    tokens.insert(at, rng.choice((rng.choice(NUMBERS), rng.choice(WORDS), rng.choice(MARKS))))


def _delete(tokens: list[str], rng: random.Random) -> None:
    at = rng.randrange(len(tokens))
    del tokens[at : at + rng.choice((1, 1, 1, 3, 20))]


def _copy(tokens: list[str], rng: random.Random) -> None:
    """Repeat a stretch somewhere else: names defined twice, instructions out of order."""
    at, to = rng.randrange(len(tokens)), rng.randrange(len(tokens) + 1)
    tokens[to:to] = tokens[at : at + rng.choice((1, 3, 12, 40))]


def _swap(tokens: list[str], rng: random.Random) -> None:
    a, b = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    tokens[a], tokens[b] = tokens[b], tokens[a]


def _cut(tokens: list[str], rng: random.Random) -> None:
    del tokens[rng.randrange(len(tokens)) :]


def _nest(tokens: list[str], rng: random.Random) -> None:
    """Brackets nested very deep, closed or not."""
    depth = rng.choice((10, 1000, 10_000))
    opening, closing = rng.choice(("()", "{}", "[]", ("(f32[], ", ")")))
    tokens.insert(
        rng.randrange(len(tokens) + 1), opening * depth + closing * rng.choice((0, depth))
    )


_EDITS = (_replace,) * 8 + (_insert,) * 3 + (_delete,) * 3 + (_copy, _swap, _swap, _cut, _nest)
