"""Fourier transforms."""

from __future__ import annotations

from typing import Any

from hloom.frontends.stablehlo.attributes import enumerated, ints
from hloom.frontends.stablehlo.registry import IMPORT
from hloom.frontends.stablehlo.scope import Scope
from hloom.ir.instruction import Instruction


@IMPORT.of("stablehlo.fft")
def fft(scope: Scope, op: Any) -> Instruction:
    return scope.emit(
        "fft",
        scope.operands(op),
        scope.result_shape(op),
        fft_type=enumerated(op, "fft_type", "FftTypeAttr"),
        fft_length=ints(op, "fft_length"),
    )
