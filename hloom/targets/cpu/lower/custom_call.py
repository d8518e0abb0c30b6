"""Custom calls: handlers that somebody registered, and the few that the target itself knows.

A handler sees operands and results in the layouts that the instruction states, tuples taken apart.
A result that aliases an operand stands in the same memory: where buffer assignment gave them two
places, the operand is copied first.
"""

from __future__ import annotations

from hloom.analysis.alias_spaces import MOVE
from hloom.ir.custom_call_rules import SAME, wrong_front_end_call
from hloom.ir.instruction import Instruction
from hloom.program.call_site import CallBuffer, CallSite
from hloom.program.slice import BufferSlice
from hloom.program.thunks.copy import Copy
from hloom.program.thunks.custom_call import PYTHON, CustomCall
from hloom.program.thunks.dynamic import PadToStatic, SliceToDynamic
from hloom.program.thunks.routine import Numbers, Pointers
from hloom.program.thunks.thunk import Thunk
from hloom.runtime import ffi
from hloom.targets.cpu.lower.hosted import INTERPRETER, has_own_meaning, hosted_module
from hloom.targets.cpu.lower.linalg_work import lapack_work
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering, unsupported
from hloom.types.attributes import parsed_attributes
from hloom.types.shape import Shape
from hloom.types.sizes import dynamic_size_offset

Index = tuple[int, ...]

VALUES = SAME | {"xla.sdy.FunctionResultSharding"}
"""Targets that say where a value lives or how it is spread: the value itself, on one device."""
FRESH = frozenset(["AllocateBuffer"])
"""Targets that only give memory, of any content."""
TYPED = "API_VERSION_TYPED_FFI"


@CPU_LOWERS.of("custom-call")
def custom_call(cpu: Lowering, i: Instruction) -> list[Thunk]:
    target = i.attrs.custom_call_target
    if target in FRESH:
        return []
    if target == MOVE:
        source, place = cpu.slice(i.operands[0]), cpu.slice(i)
        return [] if source == place else [Copy(i.name, source, place)]
    if target in VALUES:
        return same(cpu, i)
    if cpu.whole is not None and target == INTERPRETER:
        return hosted_module(cpu, i, cpu.whole)
    if target == "PadToStatic":
        return pad_to_static(cpu, i)
    if target == "SliceToDynamic":
        return slice_to_dynamic(cpu, i)
    return handled(cpu, i)


def leaves(shape: Shape) -> list[tuple[Index, Shape]]:
    """What stands in a value, tuples taken apart."""
    return [(index, leaf) for index, leaf in shape.subshapes() if not leaf.is_tuple]


def same(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """Copies of the operands."""
    sources = [cpu.slice(x, k) for x in i.operands for k, s in leaves(x.shape) if s.is_array]
    targets = [cpu.slice(i, k) for k, s in leaves(i.shape) if s.is_array]
    if [s.size_bytes for s in sources] != [t.size_bytes for t in targets]:
        raise unsupported(i, f"to {i.attrs.custom_call_target} gives another shape than it takes")
    arrays = [s for x in i.operands for _, s in leaves(x.shape) if s.is_array]
    for x, y in zip(arrays, [s for _, s in leaves(i.shape) if s.is_array], strict=True):
        require_one_order(i, x, y)
    pairs = zip(sources, targets, strict=True)
    return [Copy(f"{i.name}.{k}", s, t) for k, (s, t) in enumerate(pairs) if s != t]


# -- arrays of run-time size


def pad_to_static(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """From the form that callers hand in to an array of the bounds, and the sizes."""
    x = i.operands[0]
    require_one_order(i, x.shape, i.shape.elements[0])
    source, padded = cpu.slice(x), cpu.slice(i, (0,))
    sizes = tuple([cpu.slice(i, (d + 1,)) for d in range(x.shape.rank)])
    arguments = (*_form(x.shape), source, padded, Pointers(sizes))
    return [PadToStatic(i.name, "hl_pad_ordered", arguments, (source,), (padded, *sizes))]


def slice_to_dynamic(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """From an array of the bounds and its sizes to the form that callers take."""
    x, *rest = i.operands
    require_one_order(i, x.shape, i.shape)
    source, packed = cpu.slice(x), cpu.slice(i)
    sizes = tuple([cpu.slice(size) for size in rest])
    if len(sizes) != i.shape.rank or x.shape.dims != i.shape.dims:
        raise unsupported(i, f"to SliceToDynamic makes {i.shape.text} of {x.shape.text}")
    arguments = (*_form(i.shape), source, Pointers(sizes), packed)
    return [SliceToDynamic(i.name, "hl_slice_ordered", arguments, (source, *sizes), (packed,))]


def require_one_order(i: Instruction, x: Shape, y: Shape) -> None:
    """Raise where the two forms of an array have other layouts."""
    if _order(x) != _order(y):
        raise unsupported(i, f"wants one layout, not {x.text} and {y.text}")


def _order(shape: Shape) -> tuple[int, ...]:
    """The dimensions as they lie in memory, the slowest first."""
    layout = shape.layout
    return tuple(range(shape.rank)) if layout is None else layout.minor_to_major[::-1]


def _form(shape: Shape) -> tuple[int, Numbers, Numbers, int, int]:
    """Rank, bounds, order, bytes of an element, and where the sizes stand."""
    size_bytes = max(shape.dtype.size_bytes, 1)
    order = Numbers(_order(shape))
    return shape.rank, Numbers(shape.dims), order, size_bytes, dynamic_size_offset(shape, 0)


# -- handlers


def handled(cpu: Lowering, i: Instruction) -> list[Thunk]:
    """A call of the handler that is registered for the target when the program is loaded."""
    if cpu.left_out and has_own_meaning(i):
        raise unsupported(i, f"to {i.attrs.custom_call_target} is left, which a pass writes out")
    wrong = wrong_front_end_call(i)
    if wrong and not ffi.is_handled(i.attrs.custom_call_target):
        raise unsupported(i, f"is not as its target takes it: {wrong}", "or register a handler")
    moved, replaced = aliased(cpu, i)
    operands: list[CallBuffer] = []
    for number, x in enumerate(i.operands):
        for index, leaf in leaves(x.shape):
            place = replaced.get((number, index))
            operands.append(buffer(cpu, i, x, index, leaf, place))
    results = [buffer(cpu, i, i, index, leaf) for index, leaf in leaves(i.shape)]
    is_typed = i.attrs.api_version == TYPED
    config = i.backend_config.raw if i.backend_config is not None else ""
    if is_typed:
        parsed_attributes(config)  # what is wrong with them is said now
    target = i.attrs.custom_call_target
    number = len(cpu.call_sites)
    site = CallSite(i.name, target, is_typed, config, tuple(operands), tuple(results))
    cpu.call_sites.append(site)
    slices = Pointers(tuple([b.slice for b in (*operands, *results)]))
    reads = tuple([b.slice for b in operands if b.slice is not None])
    writes = tuple([b.slice for b in results if b.slice is not None])
    arguments = (number, slices)
    has_effect = i.attrs.custom_call_has_side_effect or target in PYTHON
    symbol, work = "hl_call_site_run", lapack_work(i)
    call = CustomCall(i.name, symbol, arguments, reads, writes, has_effect, work)
    return [*moved, call]


def buffer(
    cpu: Lowering,
    i: Instruction,
    x: Instruction,
    index: Index,
    leaf: Shape,
    place: BufferSlice | None = None,
) -> CallBuffer:
    """What the handler of `i` is told of one array or token of `x`."""
    if leaf.is_token:
        return CallBuffer(leaf.dtype.number, (), None)
    if not leaf.is_array or leaf.is_dynamic:
        raise unsupported(i, f"to {i.attrs.custom_call_target} cannot take or give {leaf.text}")
    return CallBuffer(leaf.dtype.number, leaf.dims, place or cpu.slice(x, index))


def aliased(
    cpu: Lowering, i: Instruction
) -> tuple[list[Thunk], dict[tuple[int, Index], BufferSlice]]:
    """Copies of operands to the results that alias them; which operands then stand there."""
    thunks: list[Thunk] = []
    replaced: dict[tuple[int, Index], BufferSlice] = {}
    declared = i.attrs.output_to_operand_aliasing
    for entry in declared.entries if declared else ():
        x = i.operands[entry.operand_index]
        part = tuple(entry.operand_shape_index)
        source, target = cpu.slice(x, part), cpu.slice(i, tuple(entry.output_shape_index))
        replaced[entry.operand_index, part] = target
        if source != target:
            thunks.append(Copy(f"{i.name}.operand{entry.operand_index}", source, target))
    return thunks, replaced
