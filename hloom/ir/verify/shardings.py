"""Shardings: each fits its value, and those of loops and branches agree."""

from collections.abc import Iterator

from hloom.base.diagnostics import VerifyError
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.verify.rules import VerifyOptions, broken


def check_shardings(module: Module, options: VerifyOptions) -> Iterator[VerifyError]:
    """Device numbers are compared only when the module says how many devices it is for."""
    if not options.check_shardings:
        return
    spmd = module.use_spmd_partitioning and module.num_partitions > 1
    devices = module.num_partitions if spmd else None
    good: set[tuple] = set()
    for c in module.computations:
        for i in c.instructions:
            if i.sharding is not None:
                key = (i.sharding, i.shape)
                if key not in good:
                    wrong = i.sharding.validate(i.shape, devices)
                    if wrong:
                        yield broken("sharding", f"sharding={i.sharding.text}: {wrong}", i)
                        continue
                    good.add(key)
            if i.opcode == "while":
                condition, body = i.called
                related = (i, body.root, body.parameters[0], condition.parameters[0])
                yield from _check_agreement(i, related)
            elif i.opcode == "conditional":
                yield from _check_agreement(i, (i, *(b.root for b in i.called)))


def _check_agreement(i: Instruction, related: tuple[Instruction, ...]) -> Iterator[VerifyError]:
    first: Instruction | None = None
    for x in related:
        if x.sharding is None:
            continue
        if first is None:
            first = x
        elif x.sharding is not first.sharding and not x.sharding.same(first.sharding):
            yield broken(
                "loop-sharding",
                f"%{first.name} has sharding={first.sharding.text} but %{x.name} {x.sharding.text}",
                i,
            )
            return
