"""The last resort: an instruction evaluated by the interpreter, called from the running program.

Where a fault of hloom leaves no way to write code for an instruction, it is still right to ask the
interpreter, which is slower and needs numpy. So this is never done silently: what comes here has
gone into `Lowering.faults`, which the user is warned of. The instruction stands as a module of its
own in the text of a call site; operands and results are handed over as bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

import numpy as np

from hloom.interp import EvalOptions, evaluate
from hloom.ir.builder import Builder
from hloom.ir.copy import copy_instructions
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.text.options import PrintOptions
from hloom.ir.text.parse import parse_module
from hloom.ir.text.show import show_module
from hloom.ir.traits import ASYNC_CHAIN, COLLECTIVE, DEVICE_ID, SIDE_EFFECT
from hloom.program.call_site import CallBuffer, CallSite
from hloom.program.slice import BufferSlice
from hloom.program.thunks.custom_call import Interpreter
from hloom.program.thunks.routine import Pointers
from hloom.program.thunks.thunk import Thunk
from hloom.runtime import ffi
from hloom.runtime.arguments import ordered_back
from hloom.runtime.buffer import in_layout, unpacked
from hloom.targets.cpu.lowering import Lowering
from hloom.types.dtype import U8
from hloom.types.literal import Literal
from hloom.types.shape import ProgramShape, Shape
from hloom.types.sizes import dynamic_size_offset, packed_bits, packed_form

INTERPRETER = "hloom.interpreter"
NEVER = opcodes(SIDE_EFFECT, COLLECTIVE, DEVICE_ID, also=("custom-call",))
"""What has to do with more than its operands, or what the interpreter means otherwise."""
HALVES = opcodes(ASYNC_CHAIN)
"""What only a whole program has all of: the chain of one start may cross computations."""


def can_be_hosted(i: Instruction, never: AbstractSet[str] = NEVER | HALVES) -> bool:
    """Whether the interpreter can do an instruction, and all it calls, by itself."""
    work, seen = [i], set[Instruction]()
    while work:
        x = work.pop()
        if x in seen:
            continue
        seen.add(x)
        if x.opcode in never or not all(leaf.is_array for leaf in x.shape.leaves()):
            return False
        work += [y for c in x.called for y in c.instructions]
    return all(leaf.is_array for x in i.operands for leaf in x.shape.leaves())


def hosted(cpu: Lowering, i: Instruction) -> list[Thunk] | None:
    """The thunk that has an instruction evaluated; None where that is impossible."""
    if not can_be_hosted(i):
        return None
    return hosted_module(cpu, i, alone(i))


def alone(i: Instruction) -> Module:
    """A module that computes an instruction of its operands."""
    b = Builder(i.name)
    callees = {c: b.copy_of(c) for c in i.called}
    new_for_old: dict[Instruction, Instruction] = {}
    for k, x in enumerate(dict.fromkeys(i.operands)):
        new_for_old[x] = b.parameter(x.shape, name=f"p{k}")
    module = b.build(next(iter(new_for_old.values())) if new_for_old else b.constant(0))
    copy_instructions([i], module.entry, new_for_old, callees)
    module.entry.root = new_for_old[i]
    return module


def hosted_module(cpu: Lowering, i: Instruction, module: Module) -> list[Thunk]:
    """The thunk that has a module evaluated of the operands of an instruction, as its result."""
    if ffi.find(INTERPRETER) is None:
        ffi.register(INTERPRETER, _execute, instantiate=_instantiate)
    distinct = list(dict.fromkeys(i.operands))
    # How they lie in memory, which may be otherwise than in the module.
    module.entry_layout = ProgramShape(tuple([x.shape for x in distinct]), (), i.shape)
    text = show_module(module, PrintOptions(large_constants=True))
    operands = [
        cpu.slice(x, index)
        for x in distinct
        for index, leaf in x.shape.subshapes()
        if leaf.is_array
    ]
    results = [cpu.slice(i, index) for index, leaf in i.shape.subshapes() if leaf.is_array]
    number = len(cpu.call_sites)
    buffers = [tuple([_bytes(s) for s in slices]) for slices in (operands, results)]
    cpu.call_sites.append(CallSite(i.name, INTERPRETER, False, text, *buffers))
    arguments = (number, Pointers((*operands, *results)))
    return [
        Interpreter(
            i.name,
            "hl_call_site_run",
            arguments,
            tuple(operands),
            tuple(results),
        )
    ]


def _bytes(place: BufferSlice) -> CallBuffer:
    return CallBuffer(U8.number, (place.size_bytes,), place)


# -- while the program runs


def _instantiate(call: ffi.Call) -> Module:
    return parse_module(call.text("opaque"))


def _execute(call: ffi.Call) -> None:
    module: Module = call.kept
    outside = module.entry_layout
    assert outside is not None, "who has it evaluated says how arrays lie in memory"
    operands = iter(call.arguments)
    arguments = [_argument(s, operands) for s in outside.parameters]
    result = evaluate(module, *arguments, options=EvalOptions(while_iteration_limit=1 << 62))
    leaves = [leaf for leaf in result.leaves() if leaf.shape.is_array]
    shapes = [leaf for _, leaf in outside.result.subshapes() if leaf.is_array]
    for shape, leaf, memory in zip(shapes, leaves, call.results, strict=True):
        _store(leaf.array, shape, memory)


def _argument(shape: Shape, arrays: Iterator[np.ndarray]) -> Literal:
    """The next argument, tuples put together."""
    if shape.is_tuple:
        return Literal.tuple([_argument(s, arrays) for s in shape.elements])
    raw = next(arrays)
    dims = shape.dims
    if shape.is_dynamic:
        at = dynamic_size_offset(shape, 0)
        dims = tuple(raw[at : at + 4 * shape.rank].view(np.int32).tolist())
    count = int(np.prod(dims, dtype=np.int64))
    dtype = shape.dtype.numpy
    if packed_bits(shape):
        flat = unpacked(raw, shape)
    else:
        flat = raw[: count * dtype.itemsize].view(dtype).copy()
    order = shape.layout.minor_to_major[::-1] if shape.layout is not None else range(shape.rank)
    array = ordered_back(flat.reshape([dims[d] for d in order]), shape)
    return Literal.of(array, shape)


def _store(array: np.ndarray, shape: Shape, memory: np.ndarray) -> None:
    """Write a result as a program keeps it: in its layout, sizes of run time behind the bound."""
    data = in_layout(array, shape).reshape(-1).view(np.uint8)
    memory[: data.size] = data
    if shape.is_dynamic:
        at = dynamic_size_offset(shape, 0)
        memory[at : at + 4 * shape.rank] = np.array(array.shape, np.int32).view(np.uint8)


def whole(module: Module) -> Module | None:
    """A module of one instruction, which is to be evaluated as this module; None where the
    interpreter alone cannot do that."""
    body = [i for i in module.entry.instructions if i.opcode != "parameter"]
    if not all(can_be_hosted(i, NEVER) for i in body):
        return None
    if any(not leaf.is_array for p in module.entry.parameters for leaf in p.shape.leaves()):
        return None
    b = Builder(module.name)
    parameters = sorted(module.entry.parameters, key=lambda p: p.attrs.number)
    parameters_ = [b.parameter(packed_form(p.shape), name=p.name) for p in parameters]
    root = b.emit(
        "custom-call",
        *parameters_,
        shape=packed_form(module.entry.root.shape),
        custom_call_target=INTERPRETER,
    )
    module_ = b.build(root)
    module_.entry_layout = module.entry_layout
    module_.input_output_alias = module.input_output_alias
    module_.buffer_donors = module.buffer_donors
    return module_
