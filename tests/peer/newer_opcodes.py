"""Opcodes that the XLA of the installed jaxlib does not have yet."""

import re

import pytest

jaxlib = pytest.importorskip("jaxlib")

ADDED = {"collective-reduce exp2 log2 shuffle": (0, 12)}
"""Opcodes, and the first jaxlib that has them."""
_HERE = tuple(int(n) for n in re.findall(r"\d+", jaxlib.__version__)[:2])
MISSING = frozenset(
    opcode for words, since in ADDED.items() if since > _HERE for opcode in words.split()
)


def has_missing(text: str) -> bool:
    """Whether a program has an instruction of such an opcode."""
    return any(f" {opcode}(" in text for opcode in MISSING)
