"""The algebraic simplifier: local rules to a fixed point.

The rules stand in `algebra/<family>.py`, each with its law. A rule can be switched off by name.
"""

from hloom.base.diagnostics import UsageError
from hloom.passes.pass_ import RewritePass, register
from hloom.passes.simplify.algebra import arithmetic, data, fills, folds, logic, products
from hloom.rewrite.rule import Rule


@register
class AlgebraicSimplifier(RewritePass):
    """Simplify arithmetic, logic, choices and data movement by local laws."""

    name = "algsimp"
    rules = (
        *arithmetic.RULES,
        *logic.RULES,
        *data.RULES,
        *fills.RULES,
        *folds.RULES,
        *products.RULES,
    )

    disabled_rules: frozenset[str] = frozenset()
    """Names of rules not to use."""

    def active_rules(self) -> tuple[Rule, ...]:
        known = {r.name for r in self.rules}
        if unknown := set(self.disabled_rules) - known:
            raise UsageError(
                f"algsimp has no rule {sorted(unknown)[0]!r}", hint=f"known: {sorted(known)}"
            )
        return tuple(r for r in self.rules if r.name not in self.disabled_rules)
