"""Names of passes and pipelines in options, and those that nothing here is called."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from hloom.base.options import Options
from hloom.passes.pass_ import Pass
from hloom.passes.pipeline import FixedPoint, Pipeline, title_of

LISTS = ("disable_hlo_passes", "enable_hlo_passes_only")


def unknown_passes(options: Options) -> list[str]:
    """`option=name` for each name in a list of passes that no pass and no pipeline has, as XLA's
    own passes and misspelt ones."""
    listed = [(option, name) for option in LISTS for name in sorted(options[option])]
    if not listed:
        return []
    from hloom.passes import PASSES
    from hloom.targets.cpu.pipeline import cpu_pipeline

    titles = {*PASSES, *_titles(cpu_pipeline())}
    return [f"{option}={name}" for option, name in listed if name not in titles]


def _titles(p: Pass) -> Iterator[str]:
    yield title_of(p)
    while p.kind == "fixed-point":
        p = cast(FixedPoint, p).inner
    if p.kind == "pipeline":
        for inner in cast(Pipeline, p).passes:
            yield from _titles(inner)
