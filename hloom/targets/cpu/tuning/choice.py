"""How the kernel of an instruction is written: by which family, and cut how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hloom.codegen.gemm_tiling import GemmTiling


@dataclass(frozen=True)
class Choice:
    """A family of kernels, and for a product how it is cut."""

    family: str
    tiling: GemmTiling | None = None

    @property
    def text(self) -> str:
        """`product packed height=8 ...`, `depthwise`; equal for equal choices."""
        return self.family if self.tiling is None else f"{self.family} {self.tiling.text}"
