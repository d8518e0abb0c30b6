"""The LLVM text of everything that a program calls, and who is given it.

The text of a kernel is written as soon as the kernel is, while others are still lowered, so that
threads that generate code begin early: on two cores, lowering and most of LLVM's work take place at
once. The order of the functions is that in which kernels are lowered, whoever is quicker.

What cannot be written early is left for the end, with all after it: a fault in a text is raised
where nothing but texts is written, and is the fault of the family that the kernel is of. Texts of
another plan for the same program (`apart.py`) take the place of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING

from hloom.base.clock import StageClock
from hloom.base.faults import Culprit, blame, blamed
from hloom.codegen.llvm.compile import CodeCompiler
from hloom.codegen.llvm.emit import Emit
from hloom.codegen.llvm.main_function import main_text
from hloom.codegen.llvm.module import kernel_function
from hloom.program.thunks.thunk import Thunk

if TYPE_CHECKING:
    from hloom.targets.cpu.lowering import Lowering
    from hloom.targets.cpu.target import CpuTarget

ENTRY = "hloom_main"
CODE = Culprit("llvm", "code generation")
STAGE = "llvm text"
WHOLE_ADDRESSES = frozenset(("product", "crosswise", "columns"))
"""Families of kernels with many accesses a loop, all at constant distances: nothing is to be split
off."""
REWRITTEN_ADDRESSES = frozenset(("depthwise",))
"""Families in whose loops LLVM looks for better addresses, which takes it a third of its time or
more (most of its time for convolutions). Elsewhere the code is no better for it: of 69 single
operations and 30 programs half are the same code without, the others run in 1.00 of the time on the
mean, with AVX2 in 1.00, and compile in 0.95. Depthwise convolutions have more rows than AVX2 has
registers for their addresses (1.08)."""


class FunctionTexts:
    """The functions of one lowering, by symbol."""

    def __init__(self, target: CpuTarget, lowering: Lowering, clock: StageClock) -> None:
        self.texts: dict[str, str] = {}
        self._target, self._lowering, self._clock = target, lowering, clock
        self._code: CodeCompiler | None = None
        self._common: dict[str, Callable[[], Emit]] = {}
        """What kernels call, and those of other programs, too."""
        self._is_given = False
        """Whether all texts so far, and no others, were given to a code generator."""

    def write_early(self, code: CodeCompiler) -> None:
        """Write kernels from now on as the lowering makes them, for a code generator."""
        self._code, self._is_given = code, True
        self._lowering.kernel_made = self._write_kernel_early

    def _write_kernel_early(self, symbol: str) -> None:
        if self._is_given:
            try:
                with self._clock.inside(STAGE):
                    self._write_kernel(symbol)
            except Exception:
                self._is_given = False  # it is raised at the end, when the text is written again

    def whole(self, thunks: tuple[Thunk, ...], code: CodeCompiler | None) -> dict[str, str]:
        """All texts, the program's entry the last, once all kernels are there; `code` has them."""
        lowering, self._code = self._lowering, code
        lowering.kernel_made = None
        with self._clock.stage(STAGE):
            if not self._is_given:
                if code is not None:
                    code.begin_again()
                self.texts, self._common = {}, {}
            for symbol in lowering.kernels:
                if symbol not in self.texts:
                    self._write_kernel(symbol)
            for name, write in self._common.items():
                self._give(name, write().whole_text(), is_common=True)
            for symbol, text in lowering.functions.items():
                self._give(symbol, text)
            with blamed("step", "main function"):
                text = main_text(ENTRY, thunks, self._target.device)
            self._give(ENTRY, text)
        return self.texts

    def _write_kernel(self, symbol: str) -> None:
        target, lowering = self._target, self._lowering
        kernel = lowering.kernels[symbol]
        kernel.excess_precision = target.excess_precision and symbol not in lowering.exact
        option = target.kernels
        if chosen := lowering.options.get(symbol):
            option = option._replace(**asdict(chosen))
        family = lowering.families.get(symbol, CODE)
        is_plain = family.name not in REWRITTEN_ADDRESSES
        is_split = is_plain and family.name not in WHOLE_ADDRESSES
        option = option._replace(plain_addresses=is_plain, split_addresses=is_split)
        try:
            function = kernel_function(kernel, target.machine, option)
            text = function.whole_text()
        except Exception as error:
            blame(error, family)
            raise
        self._common |= function.common
        self._give(symbol, text)

    def _give(self, symbol: str, text: str, *, is_common: bool = False) -> None:
        self.texts[symbol] = text
        if self._code is not None:
            # One call after another, or what hardly ever runs: good code is not faster to speak
            # of, and takes LLVM several times as long.
            is_plain = is_common or symbol == ENTRY
            self._code.add(symbol, text, 0 if is_plain else None, is_common)
