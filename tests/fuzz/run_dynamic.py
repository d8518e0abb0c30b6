"""Programs on arrays of run-time size: compiled code against the interpreter.

python -m tests.fuzz.run_dynamic --minutes 5 --first 0
"""

import argparse
import sys
import time
from collections import Counter

import numpy as np

import hloom
from hloom.ir.text import parse_module
from hloom.passes.expand.dynamic_padder import DynamicPadder
from tests.fuzz.programs_dynamic import Program


def leaves(x):
    if isinstance(x, tuple | list):
        return [leaf for part in x for leaf in leaves(part)]
    return [np.asarray(x)]


def literal_leaves(x):
    return [a for e in x.elements for a in literal_leaves(e)] if x.shape.is_tuple else [x.array]


def check(seed):
    """ "same", or "undefined: why" where the interpreter or the compiler refuses."""
    program = Program(seed)
    module = parse_module(program.text)
    hloom.verify(module)
    try:
        expected = literal_leaves(hloom.evaluate(module, *program.arguments))
    except hloom.HloError as error:
        return f"undefined: {str(error).splitlines()[0].split(':', 1)[-1][:60]}"
    try:
        compiled = hloom.compile(module)
    except hloom.HloError as error:
        return f"refused: {str(error).splitlines()[0][:90]}"
    found = leaves(compiled(*program.arguments))
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    padded = parse_module(program.text)
    DynamicPadder().run(padded)
    assert not DynamicPadder().run(padded).changed
    return "same"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    said, seed, wrong = Counter(), options.first, 0
    end = time.monotonic() + 60 * options.minutes
    while time.monotonic() < end:
        try:
            said[check(seed)] += 1
        except Exception as error:
            wrong += 1
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:400]}", flush=True)
        seed += 1
    for what, times in said.most_common():
        print(times, what)
    print(f"seeds {options.first} to {seed - 1}: {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
