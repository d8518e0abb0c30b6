"""The last resort: an instruction evaluated by the interpreter, called from the running program.

Where a fault of hloom leaves no way to write code for an instruction, it is still right to ask the
interpreter, which is slower and needs numpy. So this is never done silently: what comes here has
gone into `Lowering.faults`, which the user is warned of. The instruction stands as a module of its
own in the text of a call site; operands and results are handed over as bytes.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np

from hloom.interp import EvalOptions, evaluate, evaluate_lockstep
from hloom.interp.call import TARGETS
from hloom.ir.builder import Builder
from hloom.ir.copy import copy_instructions
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes, opcodes_where
from hloom.ir.text.options import PrintOptions
from hloom.ir.text.parse import parse_module
from hloom.ir.text.show import show_module
from hloom.ir.traits import ASYNC_CHAIN, COLLECTIVE, DEVICE_ID, SIDE_EFFECT, TRANSFER
from hloom.program.call_site import CallBuffer, CallSite
from hloom.program.slice import BufferSlice
from hloom.program.thunks.custom_call import Interpreter, JointInterpreter
from hloom.program.thunks.routine import Pointers
from hloom.program.thunks.thunk import Thunk
from hloom.runtime import ffi
from hloom.runtime.arguments import ordered_back
from hloom.runtime.buffer import in_layout, unpacked
from hloom.runtime.library import library
from hloom.targets.cpu.lowering import Lowering
from hloom.types.dtype import U8
from hloom.types.literal import Literal
from hloom.types.shape import ProgramShape, Shape
from hloom.types.sizes import dynamic_size_offset, packed_bits, packed_form

INTERPRETER = "hloom.interpreter"
BETWEEN = opcodes(COLLECTIVE, DEVICE_ID, TRANSFER) | opcodes_where(
    lambda declared: declared.done_of in opcodes(COLLECTIVE)
)
"""What only all devices together can do."""
STATEFUL = opcodes(SIDE_EFFECT) - BETWEEN
"""What has to do with more than its operands."""
RANDOM = frozenset(["rng", "rng-get-and-update-state"])
"""Of these, what the interpreter does with the random state of the run that asks it."""
BUILT_IN = "lapack_"
"""How names of handlers begin that are hloom's own."""
HALVES = opcodes(ASYNC_CHAIN)
"""What only a whole program has all of: the chain of one start may cross computations."""


def can_be_hosted(i: Instruction) -> bool:
    """Whether the interpreter can do an instruction, and all it calls, by itself."""
    never = (STATEFUL | BETWEEN | HALVES) - RANDOM
    return _can_evaluate([i], never, with_tokens=False) and all(
        leaf.is_array for x in i.operands for leaf in x.shape.leaves()
    )


def _can_evaluate(
    instructions: Sequence[Instruction], never: AbstractSet[str], with_tokens: bool
) -> bool:
    """Whether the interpreter can do these, and all they call."""
    work, seen = [*instructions], set[Instruction]()
    while work:
        x = work.pop()
        if x in seen:
            continue
        seen.add(x)
        if x.opcode in never or getattr(x.attrs, "is_host_transfer", False):
            return False
        if x.opcode == "custom-call" and not has_own_meaning(x):
            return False
        if not (with_tokens or all(leaf.is_array for leaf in x.shape.leaves())):
            return False
        work += [y for c in x.called for y in c.instructions]
    return True


def has_own_meaning(i: Instruction) -> bool:
    """Whether a custom call means one thing everywhere, and nobody has given it another."""
    target = i.attrs.custom_call_target
    if target not in TARGETS:
        return False
    return target.startswith(BUILT_IN) or ffi.find(target) is None


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
    kind = JointInterpreter if module.replica_count * module.num_partitions > 1 else Interpreter
    return [
        kind(
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


OPTIONS = EvalOptions(while_iteration_limit=1 << 62)
WAIT_S = 0.1
"""Between two looks at whether a run has ended meanwhile."""


@dataclass
class _Hosted:
    """A module that is evaluated, and the runs whose devices have not all come."""

    module: Module
    changed: threading.Condition = field(default_factory=threading.Condition)
    runs: list[_Run] = field(default_factory=list)
    """In the order in which they began; runs of one program on several devices do not overlap."""

    def result(self, call: ffi.Call, arguments: list[Literal]) -> Literal:
        """What this device has of the evaluation, for which it waits."""
        module = self.module
        count = module.replica_count * module.num_partitions
        if count == 1:
            return self._alone(call, arguments)
        with self.changed:
            run = next((r for r in self.runs if call.device not in r.arguments), None)
            if run is None:
                run = _Run()
                self.runs.append(run)
            run.arguments[call.device] = arguments
            if len(run.arguments) == count:
                self.runs.remove(run)
                run.evaluate(module)
                self.changed.notify_all()
            while run.results is None and run.error is None:
                self.changed.wait(WAIT_S)
                if ffi.RawContext.from_address(call.context).cancel:
                    self.runs = [r for r in self.runs if r is not run]
                    raise ffi.HandlerError("the run has ended", "CANCELLED")
        if run.error is not None:
            raise run.error
        assert run.results is not None
        return run.results[call.device]

    def _alone(self, call: ffi.Call, arguments: list[Literal]) -> Literal:
        """The value on one device; a random state goes on where the run's stands."""
        if not any(i.opcode in RANDOM for i in self.module.instructions()):
            return evaluate(self.module, *arguments, options=OPTIONS)
        used = [0]

        def note(i: Instruction) -> None:
            if i.opcode in RANDOM:
                used[0] += 1 if i.opcode == "rng" else i.attrs.delta

        with _STATE:
            state = _state_after(call, 0)
            options = replace(OPTIONS, rng_state=state, seed=state, on_instruction=note)
            result = evaluate(self.module, *arguments, options=options)
            _state_after(call, used[0])
        return result


_STATE = threading.Lock()


def _state_after(call: ffi.Call, delta: int) -> int:
    """The random state of the run that calls, which grows by `delta` then."""
    words = (ctypes.c_uint64 * 2)()
    low, high = delta & (2**64 - 1), (delta >> 64) & (2**64 - 1)
    if library().hl_rng_get_and_update_state(call.context, words, low, high):
        raise ffi.HandlerError("the run has no random state")
    return words[0] | (words[1] << 64)


@dataclass(eq=False)
class _Run:
    """What the devices of one run have brought, and get."""

    arguments: dict[int, list[Literal]] = field(default_factory=dict)
    results: list[Literal] | None = None
    error: Exception | None = None

    def evaluate(self, module: Module) -> None:
        by_device = [self.arguments[d] for d in sorted(self.arguments)]
        try:
            self.results = evaluate_lockstep(module, by_device, options=OPTIONS)
        except Exception as error:
            self.error = error


def _instantiate(call: ffi.Call) -> _Hosted:
    return _Hosted(parse_module(call.text("opaque")))


def _execute(call: ffi.Call) -> None:
    hosted: _Hosted = call.kept
    outside = hosted.module.entry_layout
    assert outside is not None, "who has it evaluated says how arrays lie in memory"
    operands = iter(call.arguments)
    arguments = [_argument(s, operands) for s in outside.parameters]
    result = hosted.result(call, arguments)
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
    never = STATEFUL
    if module.replica_count * module.num_partitions == 1:
        never -= RANDOM
    if not _can_evaluate(body, never, with_tokens=True):
        return None
    ends = (*module.entry.parameters, module.entry.root)
    if any(not leaf.is_array for x in ends for leaf in x.shape.leaves()):
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
    module_.replica_count, module_.num_partitions = module.replica_count, module.num_partitions
    return module_
