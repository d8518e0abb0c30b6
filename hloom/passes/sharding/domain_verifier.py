"""Check what domains say against the shardings of what is in them; changes nothing."""

from __future__ import annotations

from hloom.base.diagnostics import VerifyError
from hloom.ir.module import Module
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, on_threads, register
from hloom.passes.sharding.domains import said, same
from hloom.rewrite.driver import Trace


@register
class DomainVerifier(Pass):
    """Refuse a domain whose sides say other shardings than its operand and its readers have."""

    name = "domain-verifier"

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        for c in on_threads(module, threads):
            for i in c.in_order():
                if i.opcode != "domain":
                    continue
                sides = [("exit", i.attrs.domain.exit, i.operands[0])]
                sides += [("entry", i.attrs.domain.entry, y) for y in i.users]
                for word, stated, y in sides:
                    if y.opcode != "domain" and not same(stated, y.sharding):
                        raise VerifyError(
                            f"%{i.name} says {word}={stated.text}, but %{y.name} has "
                            f"{said(y.sharding).text}",
                            instruction=f"%{i.name} (domain)",
                            rule="domain",
                            hint="domain-remover shards what has no sharding, as its domain says",
                        )
        return PassResult()
