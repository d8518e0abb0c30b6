"""From a scheduled module with places to thunks and kernels.

A rule per opcode (`@CPU_LOWERS.of("sort")`, in `lower/<family>.py`) says which thunks run an
instruction. Everything that is computed element by element needs no rule of its own: it becomes
a tile kernel. Equal fusions share one kernel, whatever their names.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from hloom.analysis.kernel_options import kernel_options
from hloom.base.diagnostics import HloError
from hloom.base.registry import Registry
from hloom.codegen.key import instruction_key
from hloom.codegen.tile import Emitted
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.backend_schema import LlvmKernelOptions
from hloom.kernel import kernel as kernels
from hloom.kernel.text import show_kernel
from hloom.plan.places import Places
from hloom.program.call_site import CallSite
from hloom.program.slice import BufferSlice
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import Thunk
from hloom.types.shape import Shape

Rule = Callable[["Lowering", Instruction], "list[Thunk]"]

CPU_LOWERS: Registry[str, Rule] = Registry("CPU lowering")


class UnsupportedError(HloError):
    """The CPU target cannot run an instruction."""


def unsupported(i: Instruction, why: str, hint: str | None = None) -> UnsupportedError:
    """The error for an instruction that cannot be run, and why."""
    return UnsupportedError(f"%{i.name}: {i.opcode} {why}", rule="cpu-unsupported", hint=hint)


@dataclass
class Lowering:
    """What is known while the instructions of one module become thunks."""

    module: Module
    places: Places
    vector_bytes: int
    kernels: dict[str, kernels.Kernel] = field(default_factory=dict)
    options: dict[str, LlvmKernelOptions] = field(default_factory=dict)
    """Of the kernels whose instruction asks for some."""
    functions: dict[str, str] = field(default_factory=dict)
    """LLVM text of functions that are no kernels."""
    call_sites: list[CallSite] = field(default_factory=list)
    infeeds: list[Shape] = field(default_factory=list)
    outfeeds: list[Shape] = field(default_factory=list)
    _by_key: dict[Hashable, tuple[str, Emitted]] = field(default_factory=dict)
    _by_size: dict[tuple[int, int], list[kernels.Kernel]] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)

    def slice(self, i: Instruction, index: tuple[int, ...] = ()) -> BufferSlice:
        """Where (a part of) a value stands."""
        return self.places.slice(i, index)

    def sequence(self, c: Computation) -> tuple[Thunk, ...]:
        """The thunks of a computation in the order of its schedule."""
        thunks: list[Thunk] = []
        assert self.module.schedule is not None
        for i in self.module.schedule[c]:
            rule = CPU_LOWERS.get(i.opcode)
            if rule is None:
                raise unsupported(i, "has no lowering for CPUs")
            thunks += rule(self, i)
        return tuple(thunks)

    # -- kernels

    def kernel(
        self, i: Instruction, write: Callable[[], Emitted], variant: Hashable = ()
    ) -> list[Thunk]:
        """The thunk that runs the kernel of an instruction; equal kernels are written once."""
        options = kernel_options(i)
        key = (instruction_key(i), variant, options)
        known = self._by_key.get(key)
        if known is None:
            emitted = write()
            symbol = self.symbol(i.name)
            emitted.kernel.name = symbol
            self.kernels[symbol] = emitted.kernel
            if options is not None:
                self.options[symbol] = options
            known = self._by_key[key] = (symbol, emitted)
        symbol, emitted = known
        arguments, writes = [], []
        for what, param in zip(emitted.arguments, emitted.kernel.params):
            is_operand = isinstance(what, int)
            place = self.slice(i.operands[what]) if isinstance(what, int) else self.slice(i, what)
            arguments.append(place)
            writes.append(not is_operand and param.role != "in")
        k = emitted.kernel
        return [Kernel(i.name, symbol, tuple(arguments), tuple(writes), k.steps, k.cost_ns)]

    def shared(self, kernel: kernels.Kernel, name: str) -> str:
        """The symbol of a kernel that no instruction's structure is the key of: that of an equal
        one, if there is one. Only kernels of one size are compared, as text."""
        size = len(kernel.params), sum(1 for _ in kernel.ops())
        alike = self._by_size.setdefault(size, [])
        kernel.name = "kernel"
        text = show_kernel(kernel) if alike else ""
        for known in alike:
            known.name, symbol = "kernel", known.name
            is_same = show_kernel(known) == text
            known.name = symbol
            if is_same:
                return symbol
        kernel.name = self.symbol(name)
        self.kernels[kernel.name] = kernel
        alike.append(kernel)
        return kernel.name

    def symbol(self, name: str) -> str:
        """A C identifier for a kernel, not used before: module and instruction (CPU-13)."""
        base = f"k_{_plain(self.module.name)[:40]}_{_plain(name)}"[:100]
        symbol, number = base, 0
        while symbol in self._taken:
            number += 1
            symbol = f"{base}_{number}"
        self._taken.add(symbol)
        return symbol


def _plain(name: str) -> str:
    """A name as part of a C identifier."""
    return "".join([c if c.isascii() and c.isalnum() else "_" for c in name])
