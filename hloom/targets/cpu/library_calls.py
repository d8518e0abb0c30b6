"""Fusions of libraries as calls of their handlers, once it is plain what they compute.

A custom call is opaque to everything that comes after: nothing is fused into it, laid out for it or
written over its operands.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloom.ir.instruction import Instruction
from hloom.ir.text.options import PrintOptions
from hloom.ir.text.show import show_module
from hloom.ir.values.backend_config import BackendConfig
from hloom.passes.expand.defuser import kind_of
from hloom.passes.expand.expansion import Expander, Expansion
from hloom.targets.cpu.lower.hosted import alone
from hloom.targets.cpu.tuning.library_fusion import uses_threadpool
from hloom.types.program_shape import ProgramShape


@dataclass(frozen=True)
class LibraryCalls(Expander):
    """Replace fusions of libraries by custom calls that hold their program as text."""

    name = "library-calls"
    opcodes = frozenset(["fusion"])

    kinds: frozenset[str] = frozenset()
    """Of the libraries that are there."""

    def wants(self, i: Instruction) -> bool:
        return kind_of(i) in self.kinds

    def expand(self, b: Expansion, i: Instruction) -> Instruction | None:
        operands = list(dict.fromkeys(i.operands))
        module = alone(i)
        module.entry_layout = ProgramShape(tuple([x.shape for x in operands]), (), i.shape)
        program = show_module(module, PrintOptions(large_constants=True))
        threads = "true" if uses_threadpool(i) else "false"
        call = b.emit(
            "custom-call",
            *operands,
            custom_call_target=kind_of(i),
            api_version="API_VERSION_TYPED_FFI",
            shape=i.shape,
        )
        call.backend_config = BackendConfig(
            f'{{computation = "{_escaped(program)}", use_threadpool = {threads}}}'
        )
        return call


def _escaped(text: str) -> str:
    """As a text of an attribute has it."""
    return text.replace("\\", "\\5C").replace('"', "\\22").replace("\n", "\\0A")
