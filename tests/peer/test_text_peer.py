"""Our reader and printer of text against those of jaxlib: same verdicts, same meaning."""

import random

import pytest

from hloom.base.diagnostics import HloError
from hloom.interp import draw_instance
from hloom.ir.op import OPS
from hloom.ir.text import PRESETS, PrintOptions, parse_module, show_module
from hloom.ir.verify import verify
from tests.fuzz.mutate import mutated_text
from tests.fuzz.programs import programs
from tests.ir.text.cases import HERE, malformed_lines, malformed_modules, valid_lines
from tests.peer.newer_opcodes import MISSING
from tests.peer.text_answers import ask

pytest.importorskip("jaxlib")

LAXER_THERE = (
    "is not a permutation of the dimensions",  # its verifier refuses these
    "expected ',', found '}'",  # a tile that is never closed
    "tiles but",
    "statistics start with",
    "permutation of 2 dimensions",
    "cannot hold 9 devices",
    "expected '{', found '2'",  # a scalar for an array: only the first element is set
)
WHOLE = PrintOptions(large_constants=True)


def accepted(text: str) -> bool:
    try:
        verify(parse_module(text))
    except HloError:
        return False
    return True


def drawn(seeds: int) -> list[str]:
    return [
        show_module(draw_instance(opcode, seed), WHOLE)
        for opcode in sorted(set(OPS) - MISSING)
        for seed in range(seeds)
    ]


def test_malformed_texts_are_refused_there_too():
    cases = malformed_modules() + malformed_lines()
    answers = ask([case.text for case in cases])
    read = [c.message for c, a in zip(cases, answers, strict=True) if a.startswith("+")]
    assert [m for m in read if not any(known in m for known in LAXER_THERE)] == []


@pytest.mark.parametrize(
    "options",
    [
        WHOLE,
        PrintOptions.short_parsable(),
        PrintOptions(large_constants=True, operand_shape=True, percent=False),
        PrintOptions(large_constants=True, async_sugar=False, program_shape=False),
    ],
    ids=["full", "short", "shapes", "unfolded"],
)
def test_our_prints_mean_there_what_the_text_means(options: PrintOptions):
    texts = [*valid_lines(), *drawn(2), (HERE / "everything.hlo").read_text()]
    prints = [show_module(parse_module(text), options) for text in texts]
    there = ask(texts, "canonical")
    again = ask(prints, "canonical")
    assert all(a.startswith("+") for a in there)
    different = [t for t, a, b in zip(texts, there, again, strict=True) if a != b]
    assert different == []


@pytest.mark.parametrize("preset", ["canonical", "fingerprint"])
def test_presets_print_what_is_printed_there(preset: str):
    texts = [t for t in drawn(3) if " scan(" not in t and " reduce-scatter(" not in t]
    texts = [t for t in texts if "copy(%a0)" not in t]  # it writes copy-start for these
    different = []
    for text, answer in zip(texts, ask(texts, preset), strict=True):
        ours = show_module(parse_module(text), PRESETS[preset]())
        if sorted(filter(None, ours.split("\n"))) != sorted(filter(None, answer[1:].split("\n"))):
            different.append((ours, answer))
    assert different == []


@pytest.mark.parametrize("seed", range(3))
def test_verdicts_on_mutants(seed: int):
    """A program broken at random is refused by both or by none, with few exceptions: it checks
    less when it reads and more (or nothing, by aborting) when it verifies."""
    rng = random.Random(seed)
    texts = [t for t in programs() if len(t) < 8000]
    mutants = [mutated_text(rng.choice(texts), rng) for _ in range(500)]
    mutants = [m for m in mutants if m.isprintable() or m.replace("\n", "").isprintable()]
    mutants = [m for m in mutants if len(m) < 20_000]
    answers = ask(mutants)
    wrong = []
    for mutant, answer in zip(mutants, answers, strict=True):
        if answer.startswith("+"):
            try:
                parse_module(mutant)
            except HloError as error:
                if not any(known in str(error) for known in LAXER_THERE):
                    wrong.append((mutant, answer))
        elif accepted(mutant):
            wrong.append((mutant, answer))
    assert len(wrong) <= len(mutants) // 100, wrong[0]
