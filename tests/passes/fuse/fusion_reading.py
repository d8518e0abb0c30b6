"""Reads back what form a finished fusion has.

The body of a fusion is a computation like others, so the form is derived from it by the same code
that planned it (`hloom/analysis/fusion_form.py`), readers first.
"""

from __future__ import annotations

from hloom.analysis.fusion_form import Form, derived
from hloom.ir.instruction import Instruction


def form_of(fusion: Instruction) -> list[Form] | str:
    """The form of a fusion; one for each iteration space when its results have several (a
    sequence), in the order of the results. A text says why it has none."""
    body = fusion.called[0]
    roots = list(body.root.operands) if body.root.opcode == "tuple" else [body.root]
    order = [p for p in reversed(body.in_order()) if p.opcode not in ("parameter", "tuple")]
    whole = derived(roots, order)
    if isinstance(whole, Form):
        return [whole]
    forms: list[Form] = []
    for r in roots:
        form = derived([r], _ancestors(r, order))
        if isinstance(form, str):
            return f"{whole}; alone, %{r.name}: {form}"
        forms.append(form)
    return forms


def _ancestors(r: Instruction, order: list[Instruction]) -> list[Instruction]:
    """What `r` is computed from, itself included, in the given order."""
    wanted = {r}
    found: list[Instruction] = []
    for p in order:
        if p in wanted:
            found.append(p)
            if p.opcode == "dynamic-update-slice":
                wanted.update(p.operands[1:])
            else:
                wanted.update(p.operands)
    return found
