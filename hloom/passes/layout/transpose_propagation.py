"""Hold values in the order of dimensions in which their neighbours want them.

A program that keeps images as [batch, channel, y, x] has a transpose at both sides of every
convolution, once convolutions are in their canonical form; one that keeps heads before positions
has them around products. Nothing says that what stands between has to be computed in the order in
which it was written. This pass chooses an order for everything that has to be in one order
(`order_graph.py`, `order_rules.py`), so that little is left to be moved (`order_choice.py`), and
rewrites the operations for it (`reorder.py`). First transposes go to where dimensions are split
(`split_dimensions.py`), and what is done on joined dimensions is done on those that were joined
(`joined_dimensions.py`). Parameters and results of the entry keep theirs.

Linear in the module: every value is looked at a bounded number of times.
"""

from __future__ import annotations

from collections import Counter

from hloom.ir.module import Module
from hloom.passes.expand.dot_decomposer import canonical_dots
from hloom.passes.facts import no_dead_code
from hloom.passes.layout.joined_dimensions import split_joined
from hloom.passes.layout.order_choice import choose_orders
from hloom.passes.layout.order_graph import looked_at
from hloom.passes.layout.order_rules import graph_of, is_reason
from hloom.passes.layout.reorder import reorder
from hloom.passes.layout.split_dimensions import move_transposes
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.rewrite.driver import Trace

ROUNDS = 3
"""Transposes that went may have kept values apart that gain together."""


@register
class TransposePropagation(Pass):
    """Choose orders of dimensions between convolutions and dots that need few transposes."""

    name = "transpose-propagation"
    breaks = (canonical_dots, no_dead_code)

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        if module.schedule is not None:
            return PassResult()
        if threads and any(c.execution_thread not in threads for c in looked_at(module)):
            return PassResult()
        for _ in range(ROUNDS):
            if not any(is_reason(i) for i in module.instructions()):
                break
            for c in looked_at(module):
                move_transposes(c, fired)
                split_joined(c, fired)
            g = graph_of(module)
            if not choose_orders(g):
                break
            g.settle()
            for c in g.computations:
                reorder(g, c, fired)
        return PassResult.of(fired)
