"""Sums within an offset that facts bound, although their terms alone reach further.

Of a window's position and the place within it only the sum is known to be inside of a row. Whether
two steps write one element is asked of more places than are written: of all numbers from the least
to the greatest that the sum may be.
"""

from __future__ import annotations

from hloom.kernel.proof.linear import Linear, Symbol
from hloom.kernel.proof.search import greatest, least
from hloom.kernel.proof.tiling import Digit


def bounded_sums(
    offset: Linear, facts: list[Linear], steps: set[Symbol], fixed: bool
) -> tuple[Linear, int, list[Digit]]:
    """An offset less what no step of the grid chooses; the sums of that, as digits and a constant.

    Terms are bounded together that facts tie, or that overlap; none are across a stride of
    `steps`, the symbols that a step chooses. With `fixed`, uniform ones stay in the offset.
    """
    strides = {abs(c) for s, c in offset.terms.items() if s in steps}
    others: dict[int, dict[Symbol, int]] = {}
    for s, c in offset.terms.items():
        if s not in steps and not (fixed and s.uniform):
            others.setdefault(abs(c), {})[s] = c
    sums: list[dict[Symbol, int]] = []
    last = extent = 0
    for c, more in sorted(others.items()):
        terms = sums[-1] if sums else {}
        tied = any(fact.terms.keys() & terms and fact.terms.keys() & more for fact in facts)
        if not terms or (c > extent and not tied) or any(last < t <= c for t in strides):
            sums.append(terms := {})
        terms |= more
        last, part = c, Linear(0, terms)
        extent = greatest(part, facts) - least(part, facts)
    const, digits = 0, []
    for terms in sums:
        part = Linear(0, terms)
        rest, step = part.residue()
        low, high = least(part, facts), greatest(part, facts)
        if not step or (len(terms) == 1 and (low, high) == part.bounds()):
            continue
        low += (rest - low) % step
        const += low
        digits.append(Digit(step, (high - low) // step + 1))
        offset = offset.plus(part, -1)
    return offset, const, digits
