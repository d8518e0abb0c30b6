"""From a module with an order and places to thunks and kernels.

A rule per opcode (`@CPU_LOWERS.of("sort")`, in `lower/<family>.py`) says which thunks run an
instruction. Everything that is computed element by element needs no rule of its own: it becomes
tile kernels of one of the `FAMILIES`. Equal fusions share one kernel, whatever their names.

A family that fails is left out at that body, and an instruction that no family or rule can do is
evaluated by the interpreter (`lower/hosted.py`), unless faults are to be raised (`faults` None).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

from hloom.analysis.kernel_options import folding_options, kernel_options
from hloom.base.diagnostics import HloError
from hloom.base.diagnostics import UnsupportedError as UnsupportedError
from hloom.base.faults import Culprit, Fault, blame, culprit_of
from hloom.base.registry import Registry
from hloom.codegen.key import instruction_key
from hloom.codegen.product import Product
from hloom.codegen.tile import Body, Emitted, ShapeIndex
from hloom.device.device import Device
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.backend_schema import LlvmKernelOptions
from hloom.kernel import kernel as kernels
from hloom.kernel.proof.prove import Proof, masked, prove, proves_whole
from hloom.kernel.proof.tiling import Box
from hloom.kernel.text import show_kernel
from hloom.plan.buffer_assignment import BufferAssignment
from hloom.plan.order import Order
from hloom.program.call_site import CallSite
from hloom.program.slice import BufferSlice
from hloom.program.thunks.collective import CollectiveStart
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lower.families import FAMILIES, Family
from hloom.targets.cpu.tuning.choice import Choice
from hloom.types.shape import Shape

Rule = Callable[["Lowering", Instruction], "list[Thunk]"]
Place = Callable[[int | ShapeIndex], BufferSlice]
"""Where the operand of a number, or a part of the result, stands."""

CPU_LOWERS: Registry[str, Rule] = Registry("CPU lowering")


class LeftOut(Exception):
    """All that could write a kernel has been left out, for faults that are known already."""


class NeedsApart(Exception):
    """A fusion has to be taken apart: no kernel can be written for it."""

    def __init__(self, fusion: str, fault: Fault | None) -> None:
        """`fault` None: it is known already."""
        super().__init__(fusion)
        self.fusion, self.fault = fusion, fault


ELSEWHERE = (NeedsApart, RecursionError)
"""What is dealt with where all can be compiled again, if need be with a stack of its own."""
NOT_HERE = (UnsupportedError, RecursionError)


def unsupported(i: Instruction, why: str, hint: str | None = None) -> UnsupportedError:
    """The error for an instruction that cannot be run, and why."""
    return UnsupportedError(f"%{i.name}: {i.opcode} {why}", rule="cpu-unsupported", hint=hint)


def admit_kernel(kernel: kernels.Kernel) -> Proof:
    """Every kernel passes here, before LLVM text is made of it: what is proved of the memory that
    it touches. Raise for one that must not be used, and its family is left out at that body, with
    the error's message as the reason."""
    proof = prove(kernel)
    if proof.writes:
        raise _unproved(kernel, proof.writes[0])
    return proof


def _unproved(kernel: kernels.Kernel, why: str) -> HloError:
    return HloError(f"kernel @{kernel.name}: {why}", rule="kernel-unproved")


@dataclass
class Lowering:
    """What is known while the instructions of one module become thunks."""

    module: Module
    order: Order
    buffer_assignment: BufferAssignment
    device: Device
    left_out: frozenset[Culprit] = frozenset()
    faults: list[Fault] | None = None
    """Gets what was gone around; None: a fault is raised as it is."""
    whole: Module | None = None
    """What the interpreter is to evaluate instead of code, where nothing else is left."""
    choices: Mapping[Instruction, Choice] = field(default_factory=dict)
    """How kernels are written that are not to be as the device's costs say."""
    is_ahead: bool = False
    """Whether code is for a library: its kernels are linked together and have the same options, but
    for those that a backend config asks for, and copies are kernels too."""
    kernels: dict[str, kernels.Kernel] = field(default_factory=dict)
    options: dict[str, LlvmKernelOptions] = field(default_factory=dict)
    """Of the kernels whose instruction asks for some."""
    masked: list[tuple[kernels.Kernel, int]] = field(default_factory=list)
    """Kernels with accesses that were given a mask, and how many: see `admit`."""
    exact: set[str] = field(default_factory=set)
    """Symbols of kernels that keep no excess precision, whatever others do."""
    families: dict[str, Culprit] = field(default_factory=dict)
    """By symbol, the family of a kernel and the instruction that it was written for."""
    functions: dict[str, str] = field(default_factory=dict)
    """LLVM text of functions that are no kernels."""
    call_sites: list[CallSite] = field(default_factory=list)
    started: dict[Instruction, CollectiveStart] = field(default_factory=dict)
    """First halves of collectives, by instruction."""
    made_by: dict[Thunk, Instruction] = field(default_factory=dict)
    """The instruction of each step of each sequence."""
    stepwise: dict[Instruction, str] = field(default_factory=dict)
    """Loops that are not one kernel, and why."""
    infeeds: list[Shape] = field(default_factory=list)
    outfeeds: list[Shape] = field(default_factory=list)
    kernel_made: Callable[[str], None] | None = None
    """Is told the symbol of every kernel when that is whole."""
    _by_key: dict[Hashable, list[tuple[str, Emitted]]] = field(default_factory=dict)
    _by_size: dict[tuple[int, int], dict[str, kernels.Kernel]] = field(default_factory=dict)
    """By text; by none the only one of a size, whose text nobody has asked for."""
    _used_symbols: set[str] = field(default_factory=set)
    _operations: Iterator[int] = field(default_factory=lambda: count(1))

    def slice(self, i: Instruction, index: tuple[int, ...] = ()) -> BufferSlice:
        """Where (a part of) a value stands."""
        return self.buffer_assignment.slice(i, index)

    def sequence(self, c: Computation) -> tuple[Thunk, ...]:
        """The thunks of a computation in the order in which it runs."""
        thunks: list[Thunk] = []
        for i in self.order.of(c):
            try:
                rule = CPU_LOWERS.get(i.opcode)
                if rule is None:
                    raise unsupported(i, "has no lowering for CPUs")
                steps = rule(self, i)
            except Exception as error:
                blame(error, Culprit("step", "lowering", i.name))
                steps = self._instead(i, error)
            thunks += steps
            self.made_by.update(dict.fromkeys(steps, i))
        return tuple(thunks)

    def _instead(self, i: Instruction, error: Exception) -> list[Thunk]:
        """What runs an instruction whose own way failed; raises where there is none."""
        # What cannot be run is the program's matter, unless a pass is missing that rewrites it.
        is_ours = not isinstance(error, UnsupportedError) or bool(self.left_out)
        if self.faults is None or not is_ours or isinstance(error, ELSEWHERE):
            raise error
        remedy = f"fusion {i.name} was taken apart"
        if i.opcode == "fusion":
            raise NeedsApart(i.name, _fault(error, remedy)) from error
        from hloom.targets.cpu.lower.hosted import hosted

        thunks = hosted(self, i)
        if thunks is None:
            raise error
        if (fault := _fault(error, f"{i.opcode} {i.name} is evaluated by the interpreter")) is None:
            fault = Fault(
                Culprit("step", "lowering", i.name), f"{error}", "the interpreter evaluates it"
            )
        self.faults.append(fault)
        return thunks

    # -- kernels

    def is_left_out(self, family: str, i: Instruction) -> bool:
        """Whether a family is not to write the kernel of an instruction."""
        left = self.left_out
        return bool(left) and (
            Culprit("kernel", family, i.name) in left or Culprit("kernel", family) in left
        )

    def body(
        self,
        i: Instruction,
        body: Body,
        computed: Instruction | None = None,
        place: Place | None = None,
    ) -> list[Thunk]:
        """The thunks that run the kernels of a body, in the first family that can write them;
        equal kernels are written once. `computed`: what the body is of, where it is not `i`.
        `place`: where its operands and results stand, if not where those of `i` do."""
        options = self._kernel_options(i)
        key = (instruction_key(computed or i), options)
        known = self._by_key.get(key)
        if known is None:
            family, all_emitted = self._written(i, body)
            known = [
                (self._add_kernel(i, emitted, family.name, options), emitted)
                for emitted in all_emitted
            ]
            self._by_key[key] = known
        return [self._thunk(i, symbol, emitted, place) for symbol, emitted in known]

    def kernel(self, i: Instruction, write: Callable[[], Emitted], family: str) -> list[Thunk]:
        """The thunk that runs the kernel of an instruction that only this family can write."""
        options = self._kernel_options(i)
        key = (instruction_key(i), options)
        known = self._by_key.get(key)
        if known is None:
            if self.is_left_out(family, i):
                raise LeftOut(family)
            try:
                emitted = write()
                self.admit([emitted.kernel])
            except Exception as error:
                blame(error, Culprit("kernel", family, i.name))
                raise
            symbol = self._add_kernel(i, emitted, family, options)
            known = self._by_key[key] = [(symbol, emitted)]
        return [self._thunk(i, symbol, emitted) for symbol, emitted in known]

    def function(
        self, i: Instruction, key: Hashable, write: Callable[[], Emitted], family: str
    ) -> tuple[str, Emitted]:
        """The symbol of a kernel that no thunk runs by itself; equal keys share one. What it
        computes is rounded at every step, as devices that pass values on would do."""
        known = self._by_key.get(key)
        if known is None:
            try:
                emitted = write()
                self.admit([emitted.kernel])
            except Exception as error:
                blame(error, Culprit("kernel", family, i.name))
                raise
            symbol = self._add_kernel(i, emitted, family, None, is_exact=True)
            known = self._by_key[key] = [(symbol, emitted)]
        return known[0]

    def operation_number(self) -> int:
        """What tells the next collective from the others of the program."""
        return next(self._operations)

    def _written(self, i: Instruction, body: Body) -> tuple[Family, list[Emitted]]:
        """The family that writes a body, and its kernels."""
        chosen = self.choices.get(i)
        for family in FAMILIES:
            if chosen is not None and family.name != chosen.family:
                continue
            is_left_out = self.is_left_out(family.name, i)
            if is_left_out and not family.is_alone:
                continue
            try:
                form = family.form(body, self.device)
                if form is None:
                    continue
                if is_left_out:
                    break
                if chosen is not None and isinstance(form, Product):
                    form = replace(form, tiling=chosen.tiling)
                all_emitted = family.write(body, form, self.device)
                self.admit([emitted.kernel for emitted in all_emitted])
                return family, all_emitted
            except Exception as error:
                blame(error, Culprit("kernel", family.name, i.name))
                is_last = family.is_alone or family is FAMILIES[-1]
                if self.faults is None or is_last or isinstance(error, NOT_HERE):
                    raise
                remedy = f"{i.name} was left to the families behind it"
                self.faults.append(Fault.of(error, Culprit("kernel", family.name, i.name), remedy))
        raise LeftOut(i.name)

    def admit(self, together: list[kernels.Kernel]) -> None:
        """Admit the kernels of one result, or raise.

        An access that is not proved to stay inside its buffer gets a mask that keeps it there; it
        is a fault where faults are to be raised. What several kernels write parts of must be
        written whole.
        """
        parts: dict[str, tuple[int, list[list[Box]]]] = {}
        for kernel in together:
            proof = admit_kernel(kernel)
            if proof.accesses:
                if self.faults is None:
                    raise _unproved(kernel, proof.accesses[0].why)
                self.masked.append((masked(kernel, proof.accesses), len(proof.accesses)))
            for op in proof.far:
                op.attrs["far"] = True
            sizes = {p.name: p.size for p in kernel.params}
            for name, boxes in proof.parts.items():
                parts.setdefault(name, (sizes[name], []))[1].append(boxes)
        for name, (size, boxes) in parts.items():
            if not proves_whole(boxes, size):
                raise _unproved(together[0], f"{name} is not written whole by its kernels")

    def _kernel_options(self, i: Instruction) -> LlvmKernelOptions | None:
        """What its backend config asks for, or what pays for what it folds."""
        asked = kernel_options(i)
        if asked is not None or self.is_ahead:
            return asked
        return folding_options(i, self.device.compute.vector_bytes)

    def _add_kernel(
        self,
        i: Instruction,
        emitted: Emitted,
        family: str,
        options: LlvmKernelOptions | None,
        *,
        is_exact: bool = False,
    ) -> str:
        """The symbol of a new kernel."""
        symbol = self.symbol(i.name)
        if options is not None:
            self.options[symbol] = options
        if is_exact:
            self.exact.add(symbol)
        self.add_kernel(symbol, emitted.kernel, Culprit("kernel", family, i.name))
        return symbol

    def add_kernel(self, symbol: str, kernel: kernels.Kernel, family: Culprit) -> None:
        """A new kernel, which does not change any more, under a symbol of its own."""
        kernel.name = symbol
        self.kernels[symbol] = kernel
        self.families[symbol] = family
        if self.kernel_made is not None:
            self.kernel_made(symbol)

    def _thunk(
        self, i: Instruction, symbol: str, emitted: Emitted, place: Place | None = None
    ) -> Thunk:
        arguments, writes = [], []
        for what, param in zip(emitted.arguments, emitted.kernel.params):
            arguments.append(place(what) if place else self.place(i, what))
            writes.append(not isinstance(what, int) and param.role != "in")
        k = emitted.kernel
        return Kernel(i.name, symbol, tuple(arguments), tuple(writes), k.steps, k.cost_ns)

    def place(self, i: Instruction, what: int | ShapeIndex) -> BufferSlice:
        """Where an operand stands, or a part of the result."""
        return self.slice(i.operands[what]) if isinstance(what, int) else self.slice(i, what)

    def shared(self, kernel: kernels.Kernel, name: str) -> str:
        """The symbol of a kernel that no instruction's structure is the key of: that of an equal
        one, if there is one. Only kernels of one size are compared, by their texts."""
        texts = self._by_size.setdefault((len(kernel.params), len(kernel.ops())), {})
        if (only := texts.pop("", None)) is not None:
            texts[_text_without_name(only)] = only
        text = _text_without_name(kernel) if texts else ""
        if (known := texts.get(text)) is not None:
            return known.name
        self.add_kernel(self.symbol(name), kernel, Culprit("kernel", "whole-loop", name))
        texts[text] = kernel
        return kernel.name

    def symbol(self, name: str) -> str:
        """A C identifier for a kernel, not used before: module and instruction."""
        base = f"k_{_plain(self.module.name)[:40]}_{_plain(name)}"[:100]
        symbol, number = base, 0
        while symbol in self._used_symbols:
            number += 1
            symbol = f"{base}_{number}"
        self._used_symbols.add(symbol)
        return symbol


def _fault(error: Exception, remedy: str) -> Fault | None:
    """The fault that an exception shows; None for one that says that others are known."""
    if isinstance(error, LeftOut | UnsupportedError):
        return None
    return Fault.of(error, culprit_of(error) or Culprit("step", "lowering"), remedy)


def _text_without_name(kernel: kernels.Kernel) -> str:
    """What equal kernels have in common, whatever they are called. How precise one is follows for
    all alike, when its code is written."""
    kept = kernel.name, kernel.excess_precision
    kernel.name, kernel.excess_precision = "kernel", True
    text = show_kernel(kernel)
    kernel.name, kernel.excess_precision = kept
    return text


def _plain(name: str) -> str:
    """A name as part of a C identifier."""
    return "".join([c if c.isascii() and c.isalnum() else "_" for c in name])
