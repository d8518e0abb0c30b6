"""Names of passes and pipelines in options, and those that nothing here is called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from hloom.passes import PASSES
from hloom.passes.pass_ import Pass
from hloom.passes.pipeline import FixedPoint, Pipeline, title_of
from hloom.targets.cpu.pipeline import cpu_pipeline


def unknown_passes(lists: Mapping[str, Iterable[str]]) -> list[str]:
    """`option=name` for each name in a list of passes that no pass and no pipeline has, as XLA's
    own passes and misspelt ones."""
    titles = {*PASSES, *_titles(cpu_pipeline())}
    listed = [(option, name) for option, names in lists.items() for name in sorted(names)]
    return [f"{option}={name}" for option, name in listed if name not in titles]


def _titles(p: Pass) -> Iterator[str]:
    yield title_of(p)
    while p.kind == "fixed-point":
        p = cast(FixedPoint, p).inner
    if p.kind == "pipeline":
        for inner in cast(Pipeline, p).passes:
            yield from _titles(inner)
