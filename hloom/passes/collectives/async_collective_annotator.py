"""Kinds of collectives that are not to run beside other things: their starts wait for their end."""

from __future__ import annotations

from collections import Counter

from hloom.base.diagnostics import UsageError, did_you_mean
from hloom.ir.instruction import COLLECTIVES
from hloom.ir.module import Module
from hloom.passes.collectives.halves import collective_of, set_sync, starts_in
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.rewrite.driver import Trace

ALL = "ALLCOLLECTIVES"
TOKENS = {kind.replace("-", "").upper(): kind for kind in sorted(COLLECTIVES)}


@register
class AsyncCollectiveAnnotator(Pass):
    """Mark the starts of some kinds of collectives as synchronous (`is_sync` in their config)."""

    name = "async-collective-annotator"

    disabled: frozenset[str] = frozenset()
    """Kinds, as ALLREDUCE or ALLCOLLECTIVES, in any letter case."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for token in sorted(self.disabled):
            if token.upper() != ALL and token.upper() not in TOKENS:
                raise UsageError(
                    f"{token!r} is no kind of collective",
                    rule="pass-option",
                    hint=did_you_mean(token.upper(), (*TOKENS, ALL))
                    or f"known: {', '.join(TOKENS)}",
                )

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        tokens = {t.upper() for t in self.disabled}
        kinds = set(TOKENS.values()) if ALL in tokens else {TOKENS[t] for t in tokens}
        fired: Counter[str] = Counter()
        for start in starts_in(module):
            if threads and start.parent.execution_thread not in threads:
                continue
            kind = collective_of(start)
            if kind in kinds and set_sync(start):
                fired[kind] += 1
        return PassResult.of(fired)
