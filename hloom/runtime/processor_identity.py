"""Which processor this is, without a compiler: what programs made for it are kept under.

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

from hloom.runtime.library import library

_WORDS = 128
_NAME_WORDS = 12
_TOLD = ("Features", "CPU implementer", "CPU part", "CPU variant", "CPU architecture")


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
    return "\n".join(sorted({x for x in lines if x.startswith(_TOLD)})).encode()
