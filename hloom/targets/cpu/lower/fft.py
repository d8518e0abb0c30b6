"""Fourier transforms: a routine of the runtime."""

from __future__ import annotations

from math import prod

from hloom.ir.instruction import Instruction
from hloom.program.thunks.fft import FFT
from hloom.program.thunks.routine import Numbers
from hloom.program.thunks.thunk import Thunk
from hloom.targets.cpu.lower.sort import require_row_major
from hloom.targets.cpu.lowering import CPU_LOWERS, Lowering, unsupported

_KINDS = {"FFT": 0, "IFFT": 1, "RFFT": 2, "IRFFT": 3}


@CPU_LOWERS.of("fft")
def fft(cpu: Lowering, i: Instruction) -> list[Thunk]:
    require_row_major(i)
    x = i.operands[0]
    if {x.shape.dtype.component.name, i.shape.dtype.component.name} not in ({"f32"}, {"f64"}):
        raise unsupported(i, f"from {x.shape.dtype.name} to {i.shape.dtype.name}")
    lengths = tuple(i.attrs.fft_length)
    longest = (i if i.attrs.fft_type == "IRFFT" else x).shape.dims
    if longest[len(longest) - len(lengths) :] != lengths:
        # XLA's verifier asks this of real transforms only; the routine goes by the lengths.
        sizes = ",".join(map(str, lengths))
        raise unsupported(i, f"has fft_length={{{sizes}}}, which is not the length of the data")
    batch = prod(x.shape.dims[: x.shape.rank - len(lengths)])
    if not i.shape.size:
        return []
    double = int(x.shape.dtype.name in ("f64", "c128"))
    source, target = cpu.slice(x), cpu.slice(i)
    kind = _KINDS[i.attrs.fft_type]
    arguments = (kind, double, len(lengths), Numbers(lengths), batch, source, target)
    return [FFT(i.name, "hl_fft", arguments, (source,), (target,))]
