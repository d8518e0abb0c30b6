"""Program shapes: the parameters and the result of a computation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hloom.types.shape import Shape


@dataclass(frozen=True, slots=True)
class ProgramShape:
    """The parameters and the result of a computation."""

    parameters: tuple[Shape, ...]
    parameter_names: tuple[str, ...]
    """One name per parameter, or `()` where none are known."""
    result: Shape

    @property
    def text(self) -> str:
        """`(f32[2]{0}, s32[])->f32[2]{0}`, as in `entry_computation_layout`."""
        shown = ", ".join(_indexed(p.text for p in self.parameters))
        return f"({shown})->{self.result.text}"

    @property
    def signature(self) -> str:
        """`(a: f32[2], b: s32[]) -> f32[2]`, as in the first line of a computation."""
        names = self.parameter_names or tuple(f"p{k}" for k in range(len(self.parameters)))
        shown = (
            f"{name}: {p.text_without_layout}"
            for name, p in zip(names, self.parameters, strict=True)
        )
        return f"({', '.join(shown)}) -> {self.result.text_without_layout}"

    def __str__(self) -> str:
        return self.text


def _indexed(texts: Iterable[str]) -> Iterator[str]:
    for position, shown in enumerate(texts):
        yield f"/*index={position}*/{shown}" if position and position % 5 == 0 else shown
