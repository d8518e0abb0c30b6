"""Whatever the input, the readers answer or raise one HloError: replayed finds, and new mutants."""

import itertools
import random
from pathlib import Path

import pytest

from hloom.base.diagnostics import HloError
from hloom.ir.proto import module_to_bytes
from hloom.ir.text import parse_module
from tests.fuzz.check import TooSlow, time_limit, verdict
from tests.fuzz.mutate import mutated_bytes, mutated_message, mutated_text
from tests.fuzz.programs import programs
from tests.fuzz.run import mutants

FOUND = sorted((Path(__file__).parent / "found").glob("*"))


@pytest.mark.parametrize("path", FOUND, ids=lambda p: p.name)
def test_what_was_found_once_is_no_longer_so(path):
    data = path.read_bytes()
    verdict(data if path.suffix == ".pb" else data.decode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("seed", range(4))
def test_mutants(seed):
    for given in itertools.islice(mutants(random.Random(seed)), 150):
        verdict(given)


def test_programs_are_valid_to_begin_with():
    assert len(programs()) > 1
    for text in programs():
        assert verdict(text) == "valid", text


def test_mutation_changes_something():
    rng, text = random.Random(0), programs()[0]
    changed = [mutated_text(text, rng) != text for _ in range(100)]
    assert sum(changed) > 80
    assert (
        mutated_bytes(b"some bytes to start from", random.Random(1)) != b"some bytes to start from"
    )


def test_messages_are_changed_and_still_parse():
    rng = random.Random(0)
    data = module_to_bytes(parse_module(programs()[0]))
    mutants_of_it = {mutated_message(data, rng) for _ in range(50)}
    assert len(mutants_of_it) > 40
    assert {verdict(mutant) for mutant in mutants_of_it} >= {"valid", "invalid"}


def test_a_hang_would_be_noticed():
    with pytest.raises(TooSlow), time_limit(1):
        while True:
            pass


@pytest.mark.parametrize(
    "text",
    [
        "",
        "HloModule",
        "HloModule m\n",
        "HloModule m\nENTRY e {\n",
        "HloModule m\nENTRY e {\n ROOT %a = f32[] add(%a, %a)\n}\n",
        "HloModule m\nENTRY e {\n ROOT %a = f32[] frobnicate()\n}\n",
        "HloModule m\nENTRY e {\n ROOT %a = f32[9999999999999999999] parameter(0)\n}\n",
        "HloModule m\nENTRY e {\n ROOT %a = f32[1000000000] constant({1, 2})\n}\n",
        "HloModule m\nENTRY e {\n ROOT %a = f32[] parameter(999999999999)\n}\n",
        "HloModule m\nENTRY e {\n ROOT %a = f32[] call(), to_apply=%e\n}\n",
        "HloModule m\nENTRY e {\n ROOT %a = " + "(" * 10_000 + ")" * 10_000 + " tuple()\n}\n",
        "HloModule m\nENTRY e {\n ROOT %a = f32[2] constant(" + "{" * 10_000 + ")\n}\n",
        '"' * 1000,
        "\0\0\0\0",
        "/* never closed",
    ],
    ids=lambda text: text[:40].replace("\n", " "),
)
def test_wrong_programs_are_refused(text):
    from hloom.ir.verify import verify

    with pytest.raises(HloError) as failure, time_limit(10):
        verify(parse_module(text))
    assert str(failure.value)


@pytest.mark.parametrize("dims", ["4294967296,4294967296", "9223372036854775807", "0,4294967296"])
def test_sizes_that_overflow_are_survived(dims):
    text = f"HloModule m\nENTRY e {{\n ROOT %a = f32[{dims}] parameter(0)\n}}\n"
    assert verdict(text) in ("valid", "refused", "invalid")
