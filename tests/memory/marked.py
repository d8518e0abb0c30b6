"""Says of some values of a module that they are in other memory spaces."""

from __future__ import annotations

import numpy as np

from hloom.ir.module import Module
from hloom.memory.flat import laid_out
from hloom.memory.spaces import HANDED_ON
from hloom.types.shape import tuple_shape


def mark(module: Module, seed: int, spaces: tuple[int, ...] = (1,), part: float = 0.3) -> int:
    """Give some of what is computed, and some parameters, a memory space; how many."""
    rng = np.random.default_rng(seed)
    donated: set[int] = set()
    if module.input_output_alias:
        donated |= {e.parameter_number for e in module.input_output_alias.entries}
    count = 0
    for c in laid_out(module):
        for i in c.instructions:
            handed = i.opcode in HANDED_ON
            if i.opcode == "parameter" and c.is_entry and i.attrs.number not in donated:
                handed = False
            if handed or not i.shape.is_array or i.shape.is_dynamic or rng.random() > part:
                continue
            if i is c.root and (not c.is_entry or donated):
                continue
            plain = i.shape.with_default_layouts()
            space = spaces[int(rng.integers(len(spaces)))]
            i.shape = plain.with_layout(plain.layout.replace(memory_space=space))
            count += 1
    return count


def prefetch(module: Module, seed: int, space: int = 1, part: float = 0.4) -> int:
    """Let some readers have copies in another memory space, each made in two halves; how many."""
    rng = np.random.default_rng(seed)
    count = 0
    for c in laid_out(module):
        for i in list(c.instructions):
            readers = [u for u in i.users if u.opcode not in HANDED_ON]
            is_plain = i.shape.is_array and not i.shape.is_dynamic
            if not readers or not is_plain or rng.random() > part:
                continue
            plain = i.shape.with_default_layouts()
            there = plain.with_layout(plain.layout.replace(memory_space=space))
            start = c.add("copy-start", i)
            start.shape = tuple_shape([there, plain, start.shape.elements[2]])
            done = c.add("copy-done", start)
            done.shape = there
            readers[int(rng.integers(len(readers)))].replace_operand(i, done)
            count += 1
        c.reorder(c.in_order())
    return count
