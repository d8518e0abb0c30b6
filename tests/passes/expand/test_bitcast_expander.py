"""Bitcasts from or to elements below a byte read the bits that layouts say are there."""

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError
from hloom.interp import evaluate, random_arguments
from hloom.ir.text import parse_module
from hloom.ir.verify import verify
from hloom.passes import pass_named
from hloom.types.dtype import BY_NAME
from tests.pass_case import difference, leaves

NARROW = "s4 u4 s2 u2 s1 u1 f4e2m1fn".split()
OTHERS = "s8 u8 f8e4m3fn s16 f32 u64 s4 u2 f4e2m1fn pred".split()


def stored(name, packed):
    t = BY_NAME[name]
    return t.bits if packed and t.is_sub_byte else 8 * t.size_bytes


def text_of(before, after):
    return f"""HloModule m
ENTRY m {{
  x = {before} parameter(0)
  ROOT b = {after} bitcast(x)
}}"""


def laid_out(name, dims, packed, order):
    layout = ",".join(str(d) for d in order)
    size = f":E({BY_NAME[name].bits})" if packed and BY_NAME[name].is_sub_byte else ""
    return f"{name}[{','.join(str(d) for d in dims)}]{{{layout}{size}}}"


def pairs(rng):
    """Shapes of which the second needs no more bits than the first has."""
    for narrow in NARROW:
        for other in OTHERS:
            for to_narrow in (False, True):
                packed = [bool(rng.integers(4)), bool(rng.integers(4))]
                names = [other, narrow] if to_narrow else [narrow, other]
                dims = [int(rng.integers(1, 8)), int(rng.integers(1, 40))]
                bits = dims[0] * dims[1] * stored(names[0], packed[0])
                count = bits // stored(names[1], packed[1])
                if count == 0 or names[0] == names[1]:
                    continue
                rows = int(rng.choice([r for r in range(1, 6) if r <= count]))
                made = [rows, count // rows - int(rng.integers(2)) * (count // rows > 1)]
                orders = [[(1, 0), (0, 1)][rng.integers(2)] for _ in names]
                before = laid_out(names[0], dims, packed[0], orders[0])
                yield text_of(before, laid_out(names[1], made, packed[1], orders[1]))


def same(text, have, want):
    found = difference(want, have, 0)
    assert found is None, f"{text}\n{found}"


def test_bits_are_those_that_layouts_say():
    number = 0
    for number, text in enumerate(pairs(np.random.default_rng(3))):
        module = parse_module(text)
        arguments = random_arguments(module, number)
        (want,) = leaves(evaluate(module, *arguments))
        assert pass_named("bitcast-expander").run(module).changed
        verify(module)
        same(text, leaves(evaluate(module, *arguments))[0], want)
        if number % 9 == 0:
            same(text, np.asarray(hloom.compile(text)(*arguments)), want)
    assert number > 100


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("s8[4]{0}", "s4[8]{0:E(4)}"),  # read past its end when it was a name for the same bytes
        ("u2[4]{0:E(2)}", "u8[1]{0}"),
        ("s4[5]{0}", "s8[5]{0}"),
        ("u8[3,2]{0,1}", "u4[3,4]{1,0:E(4)}"),
        ("s4[2,3]{0,1}", "s4[3,2]{1,0:E(4)}"),
    ],
)
def test_compiled_bitcasts_are_those_of_the_evaluator(before, after):
    text = text_of(before, after)
    module = parse_module(text)
    arguments = random_arguments(module, 1)
    (want,) = leaves(evaluate(module, *arguments))
    same(text, np.asarray(hloom.compile(text)(*arguments)), want)


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("c64[2]{0}", "s4[32]{0:E(4)}", "elements of c64"),
        ("f6e2m3fn[4]{0}", "s4[8]{0:E(4)}", "elements of f6e2m3fn"),
    ],
)
def test_bits_that_are_not_known_are_refused(before, after, what):
    with pytest.raises(HloError, match=f"bitcast from .* to .*: how {what}"):
        hloom.compile(text_of(before, after))


def test_what_reads_more_than_there_is_is_refused_by_the_pass_too():
    module = parse_module(text_of("s4[2]{0}", "s4[6]{0:E(4)}"))
    with pytest.raises(HloError, match=r"reads 24 bits, but .* has 16"):
        pass_named("bitcast-expander").run(module)
