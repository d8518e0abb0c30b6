"""Every instruction on floats of one precision, with converts around those that mix them.

What a mixed instruction means, and so what is written in its place, is in `ir/mixed_precision.py`:
the interpreter computes the same.
"""

from __future__ import annotations

from collections import Counter

from hloom.ir.mixed_precision import is_mixed, unify
from hloom.ir.module import Module
from hloom.passes.facts import fact
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.passes.simplify.dce import remove_dead_computations
from hloom.rewrite.driver import Trace


@fact
def one_precision(module: Module) -> bool:
    """No instruction mixes floats of different precision."""
    return not is_mixed(module)


@register
class MixedPrecisionRemoval(Pass):
    """Write converts where an instruction mixes floats of different precision."""

    name = "mixed-precision-removal"
    gives = (one_precision,)

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        count = unify(module, threads)
        if count:
            remove_dead_computations(module)
        return PassResult.of(+Counter(unified=count))
