"""What the compiler is fuzzed with: one operation of any opcode, or a random program; then odd
layouts, and results that are returned in the memory of arguments.
"""

from __future__ import annotations

import numpy as np

from hloom.interp.draw import DRAW, draw_instance, load_drawers
from hloom.ir.module import Module
from hloom.ir.op import OPS
from hloom.ir.values.aliasing import AliasEntry, InputOutputAlias
from hloom.types.layout import layout
from tests.fuzz.sketch_native import COLLECTIVE, LargerSketch, ProgramSketch

_GIVEN_WRONG_RESULTS = "send recv send-done recv-done infeed".split()


def single() -> list[str]:
    """The opcodes that are tried alone: all of one device that compute the same every time."""
    load_drawers()
    left_out = {
        "rng",
        "ragged-all-to-all",
        "outfeed",
        "partition-id",
        "replica-id",
        *_GIVEN_WRONG_RESULTS,
    }
    return [
        op
        for op in sorted(OPS)
        if DRAW.get(op) and op not in left_out and not op.startswith(COLLECTIVE)
    ]


def with_odd_layouts(module: Module, rng: np.random.Generator, share: float) -> None:
    """Give some parameters of the entry, and some results of simple operations, other layouts."""
    simple = {"add", "multiply", "transpose", "broadcast", "select", "copy", "negate", "slice",
              "dot", "reverse", "maximum", "convert"}  # fmt: skip
    for i in module.entry.instructions:
        if not i.shape.is_array or i.shape.rank < 2 or rng.random() > share:
            continue
        fixed = {"bitcast", "fusion", "custom-call", "bitcast-convert"}
        if any(u.opcode in fixed for u in i.users):
            continue
        if i.opcode == "parameter" or i.opcode in simple:
            order = tuple(int(d) for d in rng.permutation(i.shape.rank))
            i.shape = i.shape.with_layout(layout(order))
    module.entry_layout = None


def with_aliases(module: Module) -> None:
    """Let every result that can be returned in an argument's memory be returned there."""
    left = [p for p in module.entry.parameters if p.shape.is_array]
    entries = []
    for index, leaf in module.entry.root.shape.subshapes():
        found = next((p for p in left if leaf.is_array and p.shape is leaf), None)
        if found is not None:
            left.remove(found)
            entries.append(AliasEntry(index, found.attrs.number, ()))
    module.input_output_alias = InputOutputAlias(tuple(entries)) if entries else None


def drawn_program(number: int, integral: bool) -> Module:
    """The random program of a number."""
    sketch = ProgramSketch(np.random.default_rng(number), integral)
    load_drawers()
    for _ in range(sketch.integer(2, 14) if sketch.chance(0.93) else 40):
        sketch.step()
    module = sketch.finish()
    if sketch.chance(0.3):
        with_aliases(module)
    return module


def drawn_single(number: int, opcode: str) -> Module:
    """One operation, at sizes as drawn for the interpreter or at larger ones."""
    if number % 2:
        return draw_instance(opcode, number)
    load_drawers()
    sketch = LargerSketch(np.random.default_rng(number))
    sketch.entry.root = DRAW[opcode](sketch)
    return sketch.finished()
