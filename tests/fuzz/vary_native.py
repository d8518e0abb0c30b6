"""The same programs in other clothes: what callers and other compilers do to a program around its
operations.

Arguments in tuples, nested results, a schedule, edges of order, parts in calls and fusions of
several results, sizes known at run time only. Each change is made in place and leaves the module
valid, or `False` says that it does not fit and the module is to be thrown away.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from hloom.base.diagnostics import HloError
from hloom.ir.computation import Computation
from hloom.ir.copy import copy_module
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import OPS, ShapeError
from hloom.types.dtype import S32
from hloom.types.literal import Literal
from hloom.types.shape import Shape, shape, tuple_shape

WHOLE = frozenset("parameter constant".split())
NOT_FUSED = frozenset(
    """while conditional call fusion custom-call async-start async-update async-done copy-start
    copy-done after-all add-dependency opt-barrier rng rng-bit-generator rng-get-and-update-state
    sort scatter tuple get-tuple-element domain cholesky triangular-solve fft""".split()
)
NOT_MOVED = frozenset(
    """async-start async-update async-done copy-start copy-done after-all add-dependency
    rng-get-and-update-state domain""".split()
)


def varied(module: Module, rng: random.Random) -> Module:
    """The module with one change or two, or as it was where none fits."""
    for change in rng.sample(CHANGES, rng.choice((1, 1, 2))):
        made = copy_module(module)
        try:
            fits = change(made, rng)
        except (ShapeError, HloError):
            continue  # an operation has no such form with run-time sizes
        if fits:
            made.entry_layout = None
            module = made
    return module


def pack_arguments(module: Module, rng: random.Random) -> bool:
    """All arguments in one tuple, or the last few."""
    c = module.entry
    if not c.parameters or module.input_output_alias is not None or module.schedule is not None:
        return False
    kept = rng.choice((0, 0, len(c.parameters) // 2))
    packed = c.parameters[kept:]
    of = tuple_shape([p.shape for p in packed])
    whole = c.add("parameter", shape=of, number=len(c.parameters), name="arguments")
    for k, p in enumerate(packed):
        part = c.add("get-tuple-element", whole, shape=p.shape, index=k)
        c.replace(p, part)
        c.erase(p)
    whole.attrs = OPS["parameter"].attrs(number=kept)
    c.parameters.sort(key=lambda p: p.attrs.number)
    c.reorder(c.in_order())
    return True


def nest_result(module: Module, rng: random.Random) -> bool:
    """The first results in a tuple of their own, and nothing in another."""
    c = module.entry
    if c.root.opcode != "tuple" or module.input_output_alias is not None or module.schedule:
        return False
    parts = list(c.root.operands)
    at = rng.randrange(len(parts) + 1)
    inner = c.add("tuple", *parts[:at])
    c.root = c.add("tuple", inner, *parts[at:], c.add("tuple", shape=tuple_shape(())))
    return True


def schedule(module: Module, rng: random.Random) -> bool:
    """Every computation in an order."""
    module.schedule = {c: c.in_order() for c in module.computations}
    return True


def order(module: Module, rng: random.Random) -> bool:
    """Edges of order, from earlier instructions to later ones."""
    c = rng.choice([c for c in module.computations if not c.is_fusion])
    inside = c.in_order()
    if len(inside) < 2 or module.schedule is not None:
        return False
    for _ in range(rng.randint(1, 4)):
        first, second = sorted(rng.sample(range(len(inside)), 2))
        inside[second].add_control_predecessor(inside[first])
    c.reorder(c.in_order())
    return True


def outline(module: Module, rng: random.Random) -> bool:
    """A stretch of the entry as a call or a fusion, which may have several results."""
    if module.schedule is not None:
        return False
    c = module.entry
    steps = [i for i in c.in_order() if i.opcode not in WHOLE]
    if not steps:
        return False
    start = rng.randrange(len(steps))
    part = steps[start : start + rng.randint(1, 8)]
    fused = rng.random() < 0.6
    bad = NOT_FUSED if fused else NOT_MOVED
    if any(i.opcode in bad or i.has_control_edges or not _arrays(i.shape) for i in part):
        return False
    if any(not i.users and not i.is_root for i in part):
        return False  # fusions hold nothing that is not read
    inside = dict.fromkeys(part)
    results = [i for i in part if i.is_root or any(u not in inside for u in i.users)]
    if fused and any(not i.shape.is_array for i in results):
        return False
    inputs = dict.fromkeys(x for i in part for x in i.operands if x not in inside)
    if any(not x.shape.is_array for x in inputs):
        return False
    made = _outlined(module, part, list(inputs), results, fused)
    opcode, attributes = ("fusion", {"kind": "kLoop"}) if fused else ("call", {})
    of = made.root.shape
    caller = c.add(opcode, *inputs, shape=of, called=(made,), **attributes)
    for k, i in enumerate(results):
        new = caller
        if len(results) > 1:
            new = c.add("get-tuple-element", caller, shape=i.shape, index=k)
        c.replace(i, new)
    for i in reversed(part):
        c.erase(i)
    c.reorder(c.in_order())
    return True


def _arrays(of: Shape) -> bool:
    return all(leaf.is_array and not leaf.is_dynamic for leaf in of.leaves())


def _outlined(
    module: Module,
    part: list[Instruction],
    inputs: list[Instruction],
    results: list[Instruction],
    fused: bool,
) -> Computation:
    made = module.add_computation("outlined")
    new: dict[Instruction, Instruction] = {}
    for k, x in enumerate(inputs):
        if x.opcode == "constant" and not fused and k % 2:
            new[x] = made.add("constant", shape=x.shape, literal=x.attrs.literal)
            made.add("parameter", shape=x.shape, number=k, name=f"a{k}")
            continue
        new[x] = made.add("parameter", shape=x.shape, number=k, name=f"a{k}")
    for i in part:
        operands = tuple(new[x] for x in i.operands)
        new[i] = made.append(i.opcode, i.attrs, operands, i.shape, i.name, i.called)
    roots = [new[i] for i in results]
    made.root = roots[0] if len(roots) == 1 else made.add("tuple", *roots)
    return made


def dynamise(module: Module, rng: random.Random) -> bool:
    """One dimension of an argument gets a run-time size, and what is made of it accordingly."""
    c = module.entry
    fit = [p for p in c.parameters if p.shape.is_array and p.shape.rank and p.shape.is_static]
    if not fit or module.schedule is not None or module.input_output_alias is not None:
        return False
    x = rng.choice(fit)
    d = rng.randrange(x.shape.rank)
    number = len(c.parameters)
    size = c.add("parameter", shape=shape(S32), number=number, name="size")
    ends = [c.add("constant", shape=shape(S32), literal=Literal.of(n, S32))
            for n in (rng.randint(0, 1), x.shape.dims[d])]  # fmt: skip
    size = c.add("clamp", ends[0] if x.shape.dims[d] else ends[1], size, ends[1], shape=size.shape)
    flags = [k == d for k in range(x.shape.rank)]
    readers = list(x.users)
    of = x.shape.with_dims(x.shape.dims, flags)
    cut = c.add("set-dimension-size", x, size, shape=of, dimensions=(d,))
    for u in readers:
        u.replace_operand(x, cut)
    c.reorder(c.in_order())
    return all(_follows(i) for i in c.in_order())


def _follows(i: Instruction) -> bool:
    """Give an instruction the run-time sizes of its operands; False where that is not simple."""
    if i.opcode == "set-dimension-size" or all(o.shape.is_static for o in i.operands):
        return True
    if i.opcode == "tuple":
        i.shape = tuple_shape([o.shape for o in i.operands])
        return True
    if i.opcode == "get-tuple-element":
        i.shape = i.operands[0].shape.elements[i.attrs.index]
        return True
    if i.opcode == "broadcast":
        flags = [False] * i.shape.rank
        for k, d in enumerate(i.attrs.dimensions):
            flags[d] = i.operands[0].shape.is_dynamic_dim(k)
        i.shape = i.shape.with_dims(i.shape.dims, flags)
        return True
    if not i.op.infers or (i.called and i.opcode in ("while", "conditional", "call", "fusion")):
        return False
    alike = [o.shape for o in i.operands if o.shape.dims == i.shape.dims]
    if len({s.dynamic for s in alike}) > 1:
        return False  # sizes of run time that differ: no program that anybody defines
    called = tuple(c.program_shape for c in i.called)
    made = i.op.infer(i.attrs, tuple(o.shape for o in i.operands), called)
    i.shape = made.with_default_layouts()
    return True


CHANGES: tuple[Callable[[Module, random.Random], bool], ...] = (
    *(pack_arguments, nest_result, schedule, order, outline, outline, outline, dynamise, dynamise),
)
