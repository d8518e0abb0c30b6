"""A kernel as machine code against the same kernel in numpy.

Buffers of the machine code lie in guarded memory (hloom/runtime/native/guard.h), so writes outside
of them are noticed. Steps run in parts, the last part first.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache
from typing import Any

import numpy as np

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.machine import Machine, object_bytes
from hloom.codegen.llvm.module import kernel_module
from hloom.interp.draw_kernel import DrawnKernel
from hloom.interp.kernel import run_kernel
from hloom.kernel.kernel import Kernel
from hloom.kernel.text import parse_kernel, show_kernel
from hloom.kernel.verify import verify_kernel
from hloom.runtime.library import allocated, library
from hloom.types.dtype import DType
from tests.runtime.native_parts import LoadedObjects

Array = np.ndarray[Any, Any]
ALIGNMENT, MARGIN_BYTES = 64, 256
UNSUPPORTED = re.compile(r"^[\w-]+ is not defined for (c64|c128) operands")
"""Functions of complex numbers, which are expanded before kernels are made."""
NUMERIC = ("host", "avx2", "sse")


@cache
def machine(name: str) -> Machine:
    """The host, or the host without newer instructions."""
    host = Machine.host()
    caps = {"avx2": "AVX2", "sse": "SSE4_2"}
    return host.capped(caps[name]) if name in caps and host.is_x86 else host


class Guarded:
    """A copy of an array at an aligned address, with a margin around it and pages behind that."""

    def __init__(self, array: Array) -> None:
        size = array.nbytes
        made = library().hl_guard_alloc(size, ALIGNMENT, MARGIN_BYTES)
        self.block = allocated(made, "a guarded array")
        raw = (ctypes.c_uint8 * size).from_address(self.block)
        self.array = np.frombuffer(raw, array.dtype) if size else array.copy()
        self.array[:] = array

    def broken(self) -> int | None:
        """The place of a changed byte outside, in bytes from the start of the array."""
        stray = library().hl_guard_stray(self.block)
        return (stray + self.array.nbytes - 1 if stray > 0 else stray) if stray else None

    def __del__(self) -> None:
        library().hl_guard_free(self.block)


def run_native(kernel: Kernel, buffers: list[Array], where: str) -> str:
    """Run the machine code of a kernel on buffers, in place; a complaint about guards, or ''."""
    target = machine(where)
    module = kernel_module([kernel], target)
    code = LoadedObjects([object_bytes(module.text, target, 1)])
    address = code.symbol(module.symbols[0])
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(address)
    guarded = [Guarded(x) for x in buffers]
    addresses = [g.array.ctypes.data if g.array.size else 0 for g in guarded]
    pointers = (ctypes.c_void_p * max(1, len(guarded)))(*addresses)
    steps = kernel.steps
    for begin, end in ((steps // 2, steps), (0, steps // 3), (steps // 3, steps // 2)):
        function(ctypes.addressof(pointers), begin, end)
    for param, g, buffer in zip(kernel.params, guarded, buffers):
        if (at := g.broken()) is not None:
            return f"%{param.name}: wrote byte {at} of {buffer.nbytes}"
        buffer[:] = g.array
    return ""


def difference(drawn: DrawnKernel, where: str = "host") -> str:
    """What differs between machine code and numpy: one line, empty if nothing does."""
    wanted = [b.copy() for b in drawn.buffers]
    run_kernel(drawn.kernel, wanted, races=True)
    made = [b.copy() for b in drawn.buffers]
    try:
        if complaint := run_native(drawn.kernel, made, where):
            return complaint
    except Exception as error:
        if isinstance(error, HloError) and UNSUPPORTED.search(error.message):
            return ""
        return f"{type(error).__name__}: {str(error)[:300]}"
    for param, want, got in zip(drawn.kernel.params, wanted, made):
        bad = different(want, got, param.value.dtype, drawn.loose.get(param.name, 0.0))
        if bad.size:
            k = int(bad[0])
            start = drawn.buffers[[p.name for p in drawn.kernel.params].index(param.name)][k]
            return (
                f"%{param.name}: {bad.size} of {want.size}: [{k}] is {got[k]!r}, "
                f"not {want[k]!r} (was {start!r})"
            )
    return ""


def different(want: Array, got: Array, dtype: DType, tolerance: float) -> Array:
    """Places where two arrays differ: bit for bit but for NaN, or by more than a tolerance."""
    if dtype.is_complex:
        part = dtype.component
        if not tolerance:
            bad = different(want.view(part.numpy), got.view(part.numpy), part, 0.0)
            return np.unique(bad // 2)
        with np.errstate(all="ignore"):
            far = np.abs(want - got) > tolerance * np.abs(want) + 1e-30
        # What infinities make of the parts of a complex result is left to the single functions.
        return np.flatnonzero(far & np.isfinite(want) & np.isfinite(got))
    if not dtype.is_floating:
        a, b = want, got
        if dtype.is_sub_byte or dtype.is_pred:
            a, b = (x.view(np.uint8) for x in (want, got))
        return np.flatnonzero(a != b)
    wide = np.float64 if dtype.bits == 64 else np.float32
    a, b = want.astype(wide), got.astype(wide)
    with np.errstate(all="ignore"):
        # NaN, of which nobody promises the sign, is a zero in types that have none.
        signed = (np.signbit(a) == np.signbit(b)) | (not dtype.has_nan)
        same = ((a == b) & signed) | (np.isnan(a) & np.isnan(b))
        if tolerance:
            least = 8 * 2.0 ** (1 - dtype.exponent_bias - dtype.mantissa_bits)
            same |= np.abs(a - b) <= tolerance * np.abs(a) + least
            same |= (
                np.isinf(a) & (np.abs(b) > 0.98 * float(np.finfo(dtype.numpy).max))
                if (dtype.bits in (16, 32, 64) and dtype.name != "bf16")
                else np.isinf(a) & (np.abs(b) > 3e38)
            )
    return np.flatnonzero(~same)


# -- finds on disk: the text of a kernel, and comments that hold its buffers


def as_text(drawn: DrawnKernel, where: str, what: str) -> str:
    """A find as a file: comments, then the kernel."""
    lines = [f"// {what}", f"// machine {where}"]
    for param, buffer in zip(drawn.kernel.params, drawn.buffers):
        loose = drawn.loose.get(param.name, 0.0)
        lines.append(f"// buffer {param.name} {loose!r} {buffer.tobytes().hex()}")
    return "\n".join(lines) + "\n" + show_kernel(drawn.kernel)


def from_text(text: str) -> tuple[DrawnKernel, str]:
    """What `as_text` wrote: the kernel with its buffers, and the machine it was found on."""
    kernel = parse_kernel(text)
    verify_kernel(kernel)
    types = {p.name: p.value.dtype.numpy for p in kernel.params}
    where, loose, buffers = "host", {}, {}
    for line in text.split("\n"):
        words = line.split()
        if words[:2] == ["//", "machine"]:
            where = words[2]
        elif words[:2] == ["//", "buffer"]:
            data = bytes.fromhex(words[4] if len(words) > 4 else "")
            buffers[words[2]] = np.frombuffer(data, types[words[2]]).copy()
            loose[words[2]] = float(words[3])
    return DrawnKernel(kernel, [buffers[p.name] for p in kernel.params], loose), where
