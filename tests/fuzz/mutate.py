"""Breaks programs: random edits of HLO text and of protobuf bytes.

A good mutant is nearly right, so most edits work on tokens and put in tokens that the language
has: another opcode, another type, a number at the edge of a range, a bracket too many.
"""

import random
import re

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
