"""Shardings: each fits its value, and those of loops and branches agree."""

from collections.abc import Iterator

from hloom.base.diagnostics import VerifyError
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.sharding import Sharding
from hloom.ir.verify.rules import VerifyOptions, broken
from hloom.types.shape import Shape, tuple_shape


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
                shape = _sharded_shape(i)
                key = (i.sharding, shape)
                if key not in good:
                    wrong = i.sharding.validate(shape, devices)
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


def _sharded_shape(i: Instruction) -> Shape:
    """What a sharding is of: of an outfeed what it sends, of which it may say (data, token)."""
    if i.opcode != "outfeed":
        return i.shape
    data = i.operands[0].shape
    leaves = [*data.leaves(), i.shape]
    is_with_token = i.sharding.is_tuple and len(i.sharding.elements) == len(leaves)
    return tuple_shape(leaves) if is_with_token else data


def _check_agreement(i: Instruction, related: tuple[Instruction, ...]) -> Iterator[VerifyError]:
    first: Instruction | None = None
    for x in related:
        if x.sharding is None:
            continue
        if first is None:
            first = x
        elif x.sharding is not first.sharding and not _agree(x.sharding, first.sharding):
            yield broken(
                "loop-sharding",
                f"%{first.name} has sharding={first.sharding.text} but %{x.name} {x.sharding.text}",
                i,
            )
            return


def _agree(a: Sharding, b: Sharding) -> bool:
    """Whether they mean the same; one sharding of a tuple is that of all its elements."""
    if a.is_tuple == b.is_tuple:
        return a.same(b)
    whole, each = (a, b) if a.is_tuple else (b, a)
    return all(x.same(each) for x in whole.elements)
