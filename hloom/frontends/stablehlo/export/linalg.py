"""Linear algebra and Fourier transforms."""

from __future__ import annotations

from hloom.frontends.stablehlo.export.registry import export
from hloom.frontends.stablehlo.export.text import boolean, ints
from hloom.frontends.stablehlo.export.writer import Writer
from hloom.ir.instruction import Instruction


@export("cholesky", handles="lower")
def cholesky(w: Writer, i: Instruction) -> None:
    w.simple(i, "stablehlo.cholesky", {"lower": boolean(i.attrs.lower)})


@export("triangular-solve", handles="left_side lower unit_diagonal transpose_a")
def triangular_solve(w: Writer, i: Instruction) -> None:
    a = i.attrs
    fields = {name: boolean(getattr(a, name)) for name in ("left_side", "lower", "unit_diagonal")}
    fields["transpose_a"] = f"#stablehlo<transpose {a.transpose_a}>"
    w.simple(i, "stablehlo.triangular_solve", fields)


@export("fft", handles="fft_type fft_length")
def fft(w: Writer, i: Instruction) -> None:
    fields = {
        "fft_type": f"#stablehlo<fft_type {i.attrs.fft_type}>",
        "fft_length": ints(i.attrs.fft_length),
    }
    w.simple(i, "stablehlo.fft", fields)
