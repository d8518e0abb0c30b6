"""Elements of kernels in types that few programs use, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import hloom
from hloom.compiler import compile_module


def agree(text: str) -> None:
    """Native code and interpreter give the same numbers."""
    module = hloom.parse("HloModule m\n" + text)
    literals = hloom.random_arguments(module)
    given = [part.array for literal in literals for part in literal.leaves()]
    found = compile_module(module)(*given)
    wanted = [part.array for part in hloom.evaluate(module, *literals).leaves()]
    found = found if isinstance(found, tuple | list) else [found]
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.asarray(ours), theirs)


@pytest.mark.parametrize("t", ["c64", "c128", "pred", "f8e4m3fn"])
def test_bits_of_the_same_type(t: str) -> None:
    agree(f"ENTRY e {{ x = {t}[3,5] parameter(0) ROOT r = {t}[3,5] bitcast-convert(x) }}")
