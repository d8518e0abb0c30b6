"""Which families of kernels and which decisions of fusion a program reaches.

Counted where they are made, by functions put around the compiler's own for as long as a process
fuzzes; what is never reached is a gap in what is drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any

Label = Callable[[tuple[Any, ...], Any], str]

FAMILIES = (
    *("rows", "long rows", "elements", "sequence", "columns", "crosswise", "concatenate"),
    *("cumulative", "attention", "depthwise", "depthwise gradient", "grouped", "narrow", "scatter"),
    *("product packed", "product packed in parts", "product direct", "product along-k"),
    *("whole loop", "select-and-scatter"),
)
"""All there are: what is not reached is named."""


def watch(counted: Counter[str]) -> None:
    """Count from now on, in this process, what is reached."""

    def around(room: str, name: str, label: Label) -> None:
        module = import_module(f"hloom.{room}")
        real = getattr(module, name)

        def counting(*arguments: Any, **options: Any) -> Any:
            made = real(*arguments, **options)
            if found := label(arguments, made):
                counted[found] += 1
            return made

        setattr(module, name, counting)

    def plain(text: str) -> Label:
        return lambda _, __: text

    rooms = "targets.cpu.lower"
    around(f"{rooms}.families", "column_kernel", plain("columns"))
    around(f"{rooms}.families", "cross_kernel", plain("crosswise"))
    around(f"{rooms}.families", "cumulative_kernel", plain("cumulative"))
    around(f"{rooms}.families", "concatenate_kernels", plain("concatenate"))
    around(f"{rooms}.families", "attention_kernel", plain("attention"))
    around(f"{rooms}.control", "whole_loop", lambda _, made: "whole loop" if made else "")
    around(f"{rooms}.control", "interchanged", plain("loop of tiles"))
    around(f"{rooms}.gather", "scatter_kernel", plain("scatter"))
    around(f"{rooms}.gather", "select_and_scatter_kernel", plain("select-and-scatter"))
    around("codegen.loops", "sequence_kernel", plain("sequence"))
    around("codegen.loops", "one_nest", lambda _, made: made and _nest(made))
    around(f"{rooms}.families", "depthwise_kernel", lambda given, _: _depthwise(given[1]))
    around(f"{rooms}.families", "grouped_kernel", plain("grouped"))
    around(f"{rooms}.families", "narrow_kernel", plain("narrow"))
    _watch_products(counted)
    _watch_decisions(counted)


def _nest(nest: Any) -> str:
    if nest.loops.blocks > 1:
        return "long rows"
    return "rows" if nest.rows or nest.loops.lanes == 1 else "elements"


def _depthwise(i: Any) -> str:
    from hloom.codegen.depthwise_shape import is_gradient

    return "depthwise gradient" if is_gradient(i) else "depthwise"


def _watch_products(counted: Counter[str]) -> None:
    from hloom.codegen.gemm_tiling import GemmTiling

    real = GemmTiling.of

    def of(p: Any, device: Any) -> GemmTiling:
        tiling = real(p, device)
        whole = tiling.form != "packed" or (
            tiling.piece == p.depths[tiling.split] and not tiling.split
        )
        counted[f"product {tiling.form}{'' if whole else ' in parts'}"] += 1
        return tiling

    GemmTiling.of = staticmethod(of)  # type: ignore[method-assign]


def _watch_decisions(counted: Counter[str]) -> None:
    from hloom.passes.fuse import fusion

    real = fusion.planned

    def planned(*arguments: Any) -> Any:
        made = real(*arguments)
        for d in made.decisions():
            counted[f"fusion: {d.reason or 'fused'}"] += 1
        return made

    fusion.planned = planned  # type: ignore[assignment]
