"""The normal form of random tiled shardings against jaxlib's."""

import random
from math import prod

import pytest

from hloom.ir.text.cursor import Cursor
from hloom.ir.values.sharding import parse_sharding
from hloom.ir.values.sharding_tiles import SUBGROUP_TYPES
from tests.peer.jaxlib_answers import ask

pytest.importorskip("jaxlib")

MODULE = """HloModule m
ENTRY e {
  p = f32[4,8]{1,0} parameter(0)
  ROOT n = f32[4,8]{1,0} negate(p), sharding=
}
"""


def factors(chance, number):
    """A random factoring, with ones put in."""
    found = []
    for prime in (2, 3):
        while number % prime == 0:
            found.append(prime)
            number //= prime
    chance.shuffle(found)
    merged = []
    for factor in found:
        if merged and chance.random() < 0.4:
            merged[-1] *= factor
        else:
            merged.append(factor)
    while chance.random() < 0.2:
        merged.insert(chance.randrange(len(merged) + 1), 1)
    return merged or [1]


def numbers(values):
    return ",".join(map(str, values))


def random_sharding(chance):
    """The text of a tiled sharding of rank 2."""
    types = [chance.choice(SUBGROUP_TYPES) for _ in range(chance.choice([0, 1, 1, 2, 2, 3]))]
    dims = [chance.choice([1, 2, 3, 4]) for _ in range(2)] + [
        chance.choice([1, 2, 2, 3, 4]) for _ in types
    ]
    if prod(dims) == 1:
        dims[0] = 2
    if chance.random() < 0.75:
        cut = factors(chance, prod(dims))
        devices = f"<=[{numbers(cut)}]"
        if len(cut) > 1:
            devices += f"T({numbers(chance.sample(range(len(cut)), len(cut)))})"
    else:
        devices = numbers(chance.sample(range(prod(dims)), prod(dims)))
    last = f" last_tile_dims={{{numbers(types)}}}" if types else ""
    return f"{{devices=[{numbers(dims)}]{devices}{last}}}"


@pytest.mark.parametrize("seed", [1, 2])
def test_normal_form(seed):
    chance = random.Random(seed)
    texts = [random_sharding(chance) for _ in range(200)]
    wrong = []
    for text, said in zip(texts, ask([MODULE.replace("=\n", f"={text}\n") for text in texts])):
        ours = parse_sharding(Cursor(text)).text
        # jaxlib leaves one case that it would itself read as {unreduced}.
        if f"sharding={ours}\n" not in said and ours != "{unreduced}":
            wrong.append(f"{text}: we say {ours}, jaxlib {said[said.find('sharding=') :][:200]}")
    assert not wrong, "\n".join(wrong)
