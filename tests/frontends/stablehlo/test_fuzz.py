"""Programs with a few words changed: read, or refused with one message, never anything else."""

import os
import random
import re
from pathlib import Path

import pytest

pytest.importorskip("jaxlib", reason="StableHLO is read with jaxlib")

import hloom
from hloom.frontends.stablehlo.read import module_of_text
from tests.fuzz.stablehlo.families import FAMILIES, drawn

CASES = sorted((Path(__file__).parent / "cases").glob("*.mlir"))
TEXTS = [
    text for path in CASES for text in re.split(r"^// case .+\n", path.read_text(), flags=re.M)[1:]
]
TEXTS += [drawn(name, 0).text for name in FAMILIES]
WORDS = re.findall(r'[\w.%@#<>\[\]"{}():,=-]+', " ".join(TEXTS))
ODD = "0 -1 1 2 3 99999999999 true i4 f64 ui8 ? *".split()
COUNT = 20_000 if "HLOOM_PEER_ALL" in os.environ else 400


def changed(text: str, rng: random.Random) -> str:
    """The text with one to three of its words left out, replaced or exchanged."""
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        words = re.split(r"(\s+|[<>\[\](){},=:]|\b)", text)
        k, other = rng.randrange(len(words)), rng.randrange(len(words))
        match rng.randrange(4):
            case 0:
                words[k] = ""
            case 1:
                words[k] = rng.choice(WORDS)
            case 2:
                words[k] = rng.choice(ODD)
            case _:
                words[k], words[other] = words[other], words[k]
        text = "".join(words)
    return text


@pytest.mark.parametrize("seed", range(4))
def test_changed_programs_are_read_or_refused(seed):
    rng = random.Random(seed)
    read = refused = 0
    for _ in range(COUNT // 4):
        text = changed(rng.choice(TEXTS), rng)
        try:
            module = module_of_text(text)
            found = list(hloom.violations(module))
        except hloom.HloError:
            refused += 1
            continue
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error}\n{text}") from error
        assert not found, f"{found[0]}\n{text}"
        read += 1
    assert read > 5
    assert refused > 5
