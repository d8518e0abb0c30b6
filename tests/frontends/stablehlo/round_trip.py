"""HLO written as StableHLO and read again: is it the same graph, up to names?"""

from __future__ import annotations

import hashlib
from difflib import unified_diff

from hloom.frontends.stablehlo.read import module_of_text
from hloom.frontends.stablehlo.write import text_of_module
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.ir.text.options import PrintOptions
from hloom.ir.text.show import Printer
from hloom.ir.verify import verify, violations

# What a program for StableHLO is not: scheduled, or told what the partitioner may do.
LEFT_OUT = {
    "schedule": None,
    "allow_spmd_sharding_propagation_to_parameters": (),
    "allow_spmd_sharding_propagation_to_output": (),
    "use_spmd_partitioning": False,
}


def plain(module: Module) -> Module:
    """A copy without what nothing reads, and without tuples of all the elements of a tuple."""
    made = copy_module(module)
    for name, value in LEFT_OUT.items():
        setattr(made, name, value)
    for c in made.computations:
        if c.root.shape.is_tuple and not c.root.shape.elements and not c.root.has_side_effect:
            c.root = c.add("tuple")
        for i in list(c.instructions):
            if i.opcode == "tuple" and (whole := taken_apart(i)) is not None:
                c.replace(i, whole)
        while dead := [i for i in c.instructions if is_dead(i)]:
            for i in dead:
                c.erase(i)
    return made


def taken_apart(i):
    if not i.operands or any(x.opcode != "get-tuple-element" for x in i.operands):
        return None
    whole = i.operands[0].operands[0]
    elements = [(x.operands[0], x.attrs.index) for x in i.operands]
    return whole if elements == [(whole, k) for k in range(len(whole.shape.elements))] else None


def is_dead(i) -> bool:
    return not (i.users or i.is_root or i.opcode == "parameter" or i.has_side_effect)


def computations(module: Module) -> set[str]:
    """The text of each computation, names left out and callees by what they are."""
    options = PrintOptions.module_fingerprint()
    printer = Printer(options, module)
    found = set()
    for c in module.computations_in_order([module.entry]):
        text = printer.computation_text(c, 0)
        printer.digests[c] = hashlib.sha256(text.encode()).hexdigest()[:12]
        found.add(text)
    return found


def reread(module: Module) -> Module:
    """What comes back, as well formed as what went."""
    made = module_of_text(text_of_module(module))
    if not list(violations(module)):
        verify(made)
    return made


def lost(module: Module, *, layouts: bool = True) -> str:
    """The first thing in which the module that comes back differs; empty when nothing does."""
    before = plain(module)
    after = plain(reread(before))
    if not layouts:
        for i in [*before.instructions(), *after.instructions()]:
            i.shape = i.shape.bare.with_default_layouts()
    mine, theirs = computations(before), computations(after)
    if mine == theirs:
        return ""
    pair = [sorted(x)[:1] for x in (mine - theirs, theirs - mine)]
    lines = unified_diff(*("".join(p).split("\n") for p in pair), lineterm="", n=0)
    return "\n".join(line[:400] for line in list(lines)[:10]) or "another set of computations"
