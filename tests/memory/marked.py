"""Says of some values of a module that they are in other memory spaces."""

from __future__ import annotations

import numpy as np

from hloom.ir.module import Module
from hloom.memory.flat import laid_out
from hloom.memory.spaces import HANDED_ON


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
