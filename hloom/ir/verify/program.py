"""What is said of the whole program: entry layout, aliases, donors, schedule, original values."""

from collections.abc import Iterator

from hloom.base.diagnostics import VerifyError
from hloom.ir.computation import Computation
from hloom.ir.infer.compare import compatible
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.order import is_applied
from hloom.ir.values.aliasing import show_index, subshape
from hloom.ir.verify.rules import VerifyOptions, broken
from hloom.ir.verify.shapes import malformed
from hloom.types.shape import ProgramShape, Shape


def check_program(module: Module, options: VerifyOptions) -> Iterator[VerifyError]:
    """The rules of everything that is written in the header of a module."""
    sound = True
    for error in _check_entry_layout(module, options):
        sound = False
        yield error
    if sound:
        yield from _check_aliases(module, options)
        yield from _check_donors(module)
    if module.schedule is not None:
        yield from _check_schedule(module, module.schedule)
    for c in module.computations:
        for i in c.instructions:
            if i.extra and i.extra.get("original_value") is not None:
                yield from _check_original_value(i)


def _same(a: Shape, b: Shape, options: VerifyOptions) -> bool:
    if not options.layout_sensitive:
        return compatible(a, b)
    return a.with_default_layouts().same(
        b.with_default_layouts(), ignore_memory_space=True, ignore_tiles=True
    )


def _check_entry_layout(module: Module, options: VerifyOptions) -> Iterator[VerifyError]:
    layout, entry = module.entry_layout, module.entry
    if layout is None:
        return
    for shape in (layout.result, *layout.parameters):
        if wrong := malformed(shape, options):
            yield broken("entry-layout", f"{shape} in it is not a shape: {wrong[1]}", entry)
            return
    if not _same(entry.root.shape, layout.result, options):
        yield broken(
            "entry-layout",
            f"the entry returns {entry.root.shape} but its layout says {layout.result}",
            entry,
        )
    if len(layout.parameters) != len(entry.parameters):
        yield broken(
            "entry-layout",
            f"the entry takes {len(entry.parameters)} parameters but its layout says "
            f"{len(layout.parameters)}",
            entry,
        )
        return
    for p, shape in zip(entry.parameters, layout.parameters):
        if not _same(p.shape, shape, options):
            yield broken("entry-layout", f"it is {p.shape} but the entry layout says {shape}", p)


def _check_aliases(module: Module, options: VerifyOptions) -> Iterator[VerifyError]:
    aliases = module.input_output_alias
    if not aliases:
        return
    shape: ProgramShape = module.program_shape
    wrong = aliases.check(shape.parameters, shape.result)
    if wrong:
        yield broken("input-output-alias", wrong)
        return
    for e in aliases.entries:
        output = subshape(shape.result, e.output_shape_index)
        aliased = subshape(shape.parameters[e.parameter_number], e.parameter_shape_index)
        if output is None or aliased is None:
            continue
        index = show_index(e.output_shape_index)
        if not output.is_array or not aliased.is_array:
            yield broken("input-output-alias", f"output {index} and its alias must be arrays")
        elif e.kind == "must-alias":
            if output.with_default_layouts() is not aliased.with_default_layouts():
                yield broken(
                    "input-output-alias", f"output {index} is {output} but must alias {aliased}"
                )
        elif options.layout_sensitive and output.size_bytes != aliased.size_bytes:
            yield broken(
                "input-output-alias", f"output {index} is {output} but may alias {aliased}"
            )


def _check_donors(module: Module) -> Iterator[VerifyError]:
    donors = module.buffer_donors
    if not donors:
        return
    parameters = module.program_shape.parameters
    wrong = donors.check(parameters, module.input_output_alias)
    if wrong:
        yield broken("buffer-donor", wrong)
        return
    for number, index in donors.entries:
        part = subshape(parameters[number], index)
        if part is not None and not part.is_array:
            yield broken("buffer-donor", f"parameter {number} {show_index(index)} is no array")


def _check_schedule(
    module: Module, schedule: dict[Computation, list[Instruction]]
) -> Iterator[VerifyError]:
    for c in schedule:
        if c not in module.computations:
            yield broken("schedule", f"computation %{c.name} is scheduled but not in the module")
            return
    for c in module.computations:
        order = schedule.get(c)
        if order is None:
            if not c.is_fusion and not is_applied(c):
                yield broken("schedule", "the computation is not scheduled", c)
            continue
        done: set[Instruction] = set()
        for i in order:
            if i in done:
                yield broken("schedule", "it is scheduled twice", i)
                return
            for x in (*i.operands, *i.control_predecessors):
                if x not in done:
                    yield broken("schedule", f"it runs before %{x.name}, which it needs", i)
                    return
            done.add(i)
        if done != c.instructions.keys():
            missing = [i.name for i in c.instructions if i not in done][:1]
            what = f"%{missing[0]} is not scheduled" if missing else "others are scheduled as well"
            yield broken("schedule", what, c)


def _check_original_value(i: Instruction) -> Iterator[VerifyError]:
    assert i.extra is not None
    value = i.extra["original_value"]
    if value.is_synthetic_call:
        return
    have = {index for index, _ in value.leaves()}
    want = {index for index, part in i.shape.subshapes() if not part.is_tuple}
    if have != want:
        off = sorted(have ^ want)[0]
        yield broken(
            "original-value",
            f"leaf {show_index(off)} is in only one of {i.shape.bare} and origin",
            i,
        )
