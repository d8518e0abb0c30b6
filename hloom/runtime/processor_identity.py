"""Which processor this is, without a compiler: what programs made for it are kept under, and
whether a program that was made for another one may run here.

LLVM asks the processor (x86: CPUID) or reads what the kernel says (ARM: /proc/cpuinfo); so does
this, and says the same in every process for as long as the answers are the same.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from hloom.base.diagnostics import HloError
from hloom.runtime.library import library

if TYPE_CHECKING:
    from hloom.program.program import Processor, Program

_WORDS = 128
_NAME_WORDS = 12
_CPUINFO_FIELDS = ("Features", "CPU implementer", "CPU part", "CPU variant", "CPU architecture")


@cache
def missing_features(processor: Processor) -> str:
    """What a program made for `processor` needs and this one lacks, in words; empty: nothing."""
    architecture, features = processor.architecture.encode(), ",".join(processor.features).encode()
    size = len(architecture) + len(features) * 2 + 18 * len(processor.features) + 64
    text = ctypes.create_string_buffer(size)
    library().hl_missing_features(architecture, features, text, size)
    return text.value.decode(errors="replace")


def check_processor(program: Program, is_lenient: bool = False) -> None:
    """Raise if this processor cannot run the program's machine code; `is_lenient`: not where it
    only lacks features, and the loader, which warns of them, has been told to try it."""
    if program.processor is None or not (missing := missing_features(program.processor)):
        return
    is_tried = is_lenient and os.environ.get("HLOOM_MISSING_FEATURES") == "warn"
    if is_tried and not missing.startswith("architecture "):
        return
    what = f"{program.name} was compiled for processors with {missing}, which this one has not"
    if missing.startswith("architecture "):
        _, compiled_for, *_, here = missing.rstrip(")").split(" ")
        what = f"Target arch mismatch expected {compiled_for} got {here}: {what}"
    raise HloError(
        f"{what}: it may end with SIGILL",
        rule="processor",
        hint="compile it again here, or there with cpu_max_isa for older processors; for missing"
        " features HLOOM_MISSING_FEATURES=warn tries it all the same",
    )


@cache
def processor_identity() -> str | None:
    """Its name, and a hash of what it can do; None where nobody can tell."""
    machine = os.uname().machine
    words = (ctypes.c_uint32 * _WORDS)()
    count = library().hl_processor(words, _WORDS)
    if count:
        data = bytes(words)[: 4 * count]
        name = data[: 4 * _NAME_WORDS].split(b"\0")[0].decode("ascii", "replace").strip()
    else:
        data, name = told_by_kernel(Path("/proc/cpuinfo")), machine
        if not data:
            return None
    where = f"{sys.platform} {machine}"
    return f"{name or machine} {sha256(where.encode() + data).hexdigest()[:16]}"


def told_by_kernel(file: Path) -> bytes:
    """The lines that say what the cores can do, each once; empty where the kernel has none."""
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return b""
    return "\n".join(sorted({x for x in lines if x.startswith(_CPUINFO_FIELDS)})).encode()
