"""Who draws execution graphs: what the process has registered.

A renderer is registered once for the process. Every program that is loaded from then on is shown to
it once: its own sequence, in which the sequences of loops and choices are parts of a step. Without
one nothing that draws (picture.py) is imported.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hloom.program.program import Program

if TYPE_CHECKING:
    from hloom.program.picture import DrawnStep

LOG = logging.getLogger(__name__)


class GraphRenderer(ABC):
    """Makes pictures of graphs, and puts them where they can be looked at."""

    @abstractmethod
    def render(self, name: str, steps: Sequence[DrawnStep]) -> str:
        """The picture of a program, in whatever language the renderer draws."""

    @abstractmethod
    def publish(self, name: str, picture: str) -> str:
        """Put a picture somewhere; the address or the path of it."""


_RENDERERS: list[GraphRenderer] = []


def register_renderer(renderer: GraphRenderer | None) -> None:
    """Show every program that is loaded from now on to this renderer; None: to nobody.

    There is one at a time: the last one wins, and a warning says so.
    """
    if renderer is not None and _RENDERERS:
        known, new = type(_RENDERERS[-1]).__name__, type(renderer).__name__
        LOG.warning("execution graphs are drawn by %s from now on, no longer by %s", new, known)
    _RENDERERS[:] = [] if renderer is None else [renderer]


def published(program: Program) -> str | None:
    """Where the registered renderer has put the picture of a program; None where there is none."""
    if not _RENDERERS:
        return None
    from hloom.program.picture import operations

    renderer = _RENDERERS[-1]
    picture = renderer.render(program.name, operations(program.thunks))
    place = renderer.publish(program.name, picture)
    LOG.info("the execution graph of %s: %s", program.name, place)
    return place
