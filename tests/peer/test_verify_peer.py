"""The verifier against XLA's own: the same verdict on every case, and on mutants of them."""

import random
import re

import pytest

from hloom.base.diagnostics import HloError
from hloom.ir.text import parse_module
from hloom.ir.verify import verify
from tests.ir.verify_cases import cases

pytest.importorskip("jax")
pytest.importorskip("jaxlib")
pytest.importorskip("jax.extend.xla", reason="needs a jaxlib that can swap modules")

from tests.peer.jaxlib_verifier import verdicts
from tests.peer.newer_opcodes import has_missing

# Cases we refuse and XLA does not, each with the reason.
STRICTER = {
    "infeed without a token in its result": "XLA's parser makes the shape of these itself",
    "recv of another context": "XLA's parser makes the shape of these itself",
    "async-start on another thread": "XLA's parser moves the computation to the thread",
    "all-reduce on channel zero": "channel 0 is no channel in the protobuf the peer is asked with",
    "broadcast of one dimension twice": "no meaning is defined for it",
    "collective-broadcast to a negative id": "no device has one, and XLA asks nothing",
    "collective-reduce with a device twice": "a device is in one group, and XLA asks nothing",
    "collective-broadcast to an id twice": "a device is in one group, and XLA asks nothing",
    "dynamic-reshape by an array of sizes": "an operand is the size of one dimension",
    "collective-permute of slices of another rank": "XLA asks nothing of the sizes of slices",
}
STRICTER_RULES = ("[custom-call-form]",)
"""What XLA's verifier asks nothing about: routines would write past their arrays."""
# Families of mutants that differ for the reasons above.
SKIPPED = re.compile(
    "send|recv|token|host transfers|async|infeed|layout|copy|custom-call|sort|"
    "collective-broadcast|collective-reduce"
)
TYPES = "f32 bf16 s32 u32 pred c64 f16 s8 f64 u8 s64 u64".split()
SIZE = re.compile(r"(?<=[\[{,x_:=])-?\d+(?=[\],}x_:])")
TYPE = re.compile(r"\b(?:" + "|".join(TYPES) + r")(?=\[)")
NAMES = re.compile(r"(?<=\()[\w]+(?:, \w+)*(?=\))")


def refusal(text: str) -> str | None:
    """Why we refuse a module, None when it is valid."""
    try:
        verify(parse_module(text))
    except HloError as error:
        return str(error).splitlines()[0]
    return None


@pytest.mark.parametrize("kind", ["valid", "invalid"])
def test_cases_get_the_same_verdict(kind):
    table = [case for case in cases(kind) if not has_missing(case.text)]
    said = verdicts([case.text for case in table])
    wrong = []
    for case, theirs in zip(table, said, strict=True):
        ours = refusal(case.text)
        is_known = case.name in STRICTER or str(ours).endswith(STRICTER_RULES)
        if (ours is None) != (theirs == "valid") and not is_known:
            wrong.append(f"{case.name}: ours {ours}, XLA's {theirs[:300]}")
    assert not wrong, "\n".join(wrong)


def mutant(text: str, draw: random.Random) -> str:
    """The text with a size, an element type or an operand of the entry changed."""
    lines = text.split("\n")
    entry = next(k for k, line in enumerate(lines) if line.startswith("ENTRY"))
    at = draw.choice([k for k in range(entry, len(lines)) if " = " in lines[k]])
    line, kind = lines[at], draw.random()
    pattern = SIZE if kind < 0.5 else TYPE if kind < 0.8 else NAMES
    found = list(pattern.finditer(line, line.index(" = ")))
    if not found:
        return text
    match = draw.choice(found)
    if pattern is SIZE:
        n = int(match[0])
        new = str(draw.choice([0, 1, 2, 3, n + 1, n - 1, 2 * n, -1]))
        if draw.random() < 0.2 and line[match.start() - 1] in "[," and n > 0:
            new = f"<={n}"
    elif pattern is TYPE:
        new = draw.choice(TYPES)
    else:
        operands = match[0].split(", ")
        names = re.findall(r"(\w+) = ", "\n".join(lines[entry:at])) or operands
        operands[draw.randrange(len(operands))] = draw.choice(names)
        new = ", ".join(operands)
    lines[at] = line[: match.start()] + new + line[match.end() :]
    return "\n".join(lines)


@pytest.mark.slow
def test_mutants_get_the_same_verdict():
    draw = random.Random(20)
    table = [
        case
        for case in cases("valid")
        if not SKIPPED.search(case.name) and not has_missing(case.text)
    ]
    made: dict[str, str] = {}
    while len(made) < 700:
        case = draw.choice(table)
        text = mutant(case.text, draw)
        if text != case.text:
            made[text] = case.name
    wrong, valid = [], 0
    for (text, name), theirs in zip(made.items(), verdicts(list(made)), strict=True):
        ours = refusal(text)
        valid += ours is None
        if theirs != "aborted" and (ours is None) != (theirs == "valid"):
            entry = text[text.index("ENTRY") :]
            wrong.append(f"{name}: ours {ours}\n  XLA's {theirs[:300]}\n{entry}")
    assert not wrong, "\n".join(wrong)
    assert 50 < valid < 650
