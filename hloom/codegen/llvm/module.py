"""Several kernels as the text of one LLVM module, and what may be said of each of them.

Options become properties of single functions and instructions, never of the module, so kernels
with different options live side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from copy import copy
from typing import NamedTuple

from hloom.codegen.llvm.emit import Emit, module_text
from hloom.codegen.llvm.lower import lower_function
from hloom.codegen.llvm.lower_state import Freedom
from hloom.codegen.llvm.machine import PLAIN_ADDRESSES, Machine
from hloom.kernel.kernel import Kernel


class KernelOptions(NamedTuple):
    """What the backend config of an instruction asks for its kernel, and the fast-math
    switches of the module it comes from."""

    slp_vectorizer_disabled: bool = False
    """Marks the function for optimizers that may run later; our own code has explicit vectors."""
    disable_loop_unrolling: bool = False
    """Keeps every loop of a kernel a loop, also one of two or three known steps."""
    optimize_for_size: bool = False
    """LLVM's `optsize`; no loop is unrolled either."""
    disable_platform_dependent_math: bool = False
    """No fused multiply-add, so results are the same on machines with and without one."""
    fast_math: bool = False
    """Sums, differences, products and quotients may be rearranged and contracted."""
    honor_nans: bool = True
    honor_infs: bool = True
    honor_division: bool = True
    honor_functions: bool = True
    plain_addresses: bool = False
    """Addresses in loops are computed as they are written, which takes LLVM a third of the time."""
    split_addresses: bool = False
    """What stays of them while a loop turns is computed before it."""

    @property
    def flags(self) -> str:
        """The fast-math flags of an instruction, with a space after each."""
        if not self.fast_math:
            return ""
        honours = (self.honor_nans, self.honor_infs, self.honor_division, self.honor_functions)
        if not any(honours):
            return "fast "
        words = ["reassoc", "nsz", "contract"]
        words += [w for w, h in zip(("nnan", "ninf", "arcp", "afn"), honours) if not h]
        return " ".join(words) + " "

    @property
    def attributes(self) -> str:
        """The attributes of the function."""
        words = ["nounwind"]
        if self.optimize_for_size:
            words.append("optsize")
        if self.slp_vectorizer_disabled:
            words.append('"slp-vectorizer-disabled"="true"')
        if self.disable_loop_unrolling:
            words.append('"loop-unrolling-disabled"="true"')
        if self.plain_addresses:
            words.append(PLAIN_ADDRESSES)
        return " ".join(words)


class KernelModule(NamedTuple):
    """The text of a module, and the symbol of each of its kernels, in their order."""

    text: str
    symbols: list[str]


DEFAULT = KernelOptions()


def kernel_module(
    kernels: Iterable[Kernel],
    machine: Machine,
    options: Iterable[KernelOptions] | None = None,
    prefix: str = "",
) -> KernelModule:
    """All kernels in one module; `options` has one entry for each kernel.

    With a `prefix`, the name of the HLO module, symbols are valid C identifiers that begin with it
    and differ from each other.
    """
    kernels = list(kernels)
    chosen = list(options) if options is not None else [DEFAULT] * len(kernels)
    names = symbol_names([kernel.name for kernel in kernels], prefix)
    functions = []
    for kernel, name, option in zip(kernels, names, chosen, strict=True):
        functions.append(kernel_function(kernel, machine, option, name))
    return KernelModule(module_text(functions, machine), names)


def kernel_function(
    kernel: Kernel, machine: Machine, option: KernelOptions, name: str = ""
) -> Emit:
    """The function of one kernel, as its options want it."""
    target = _portable(machine) if option.disable_platform_dependent_math else machine
    rolled = option.disable_loop_unrolling or option.optimize_for_size
    freedom = Freedom(option.flags, not rolled, option.split_addresses)
    e = lower_function(kernel, target, freedom, name)
    e.attributes = option.attributes
    return e


def _portable(machine: Machine) -> Machine:
    """The machine without what rounds differently from others."""
    portable = copy(machine)
    object.__setattr__(portable, "has_fma", False)
    return portable


_NO_IDENTIFIER = re.compile(r"[^A-Za-z0-9_]")


def symbol_names(names: Iterable[str], prefix: str = "") -> list[str]:
    """A valid, unique C identifier for each name; `prefix` is the name of their module."""
    used_symbols: set[str] = set()
    symbols: list[str] = []
    head = _NO_IDENTIFIER.sub("_", prefix) + "_" if prefix else ""
    for name in names:
        word = head + _NO_IDENTIFIER.sub("_", name)
        if not word or word[0].isdigit():
            word = "_" + word
        symbol, count = word, 1
        while symbol in used_symbols:
            symbol = f"{word}_{count}"
            count += 1
        used_symbols.add(symbol)
        symbols.append(symbol)
    return symbols
