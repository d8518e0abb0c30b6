"""Make one fusion of attention: dot, scale, mask, softmax, dot.

The code generator computes the softmax as the scores come and never keeps them, which pays when
there are many: it saves the passes over them and their memory, and packs keys and values again for
every chunk of rows. The fusion is `kCustom`, with `{"fusion_config":{"kind":"attention"}}`; its
body is the pattern as it was (`analysis/attention.py` finds the parts again from the second dot).
"""

from __future__ import annotations

from collections import Counter

from hloom.analysis.attention import PASSING, attention_pattern
from hloom.analysis.attention_form import AttentionForm, attention_form
from hloom.analysis.fusible import POINT, role
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.values.backend_config import BackendConfig
from hloom.passes.expand.dot_decomposer import canonical_dots
from hloom.passes.fuse.build import fuse_members
from hloom.passes.fuse.fusion_plan import is_sequential
from hloom.passes.layout.layout_normalization import row_major_inside
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult, register
from hloom.rewrite.driver import Trace

CONFIG = BackendConfig.from_json({"fusion_config": {"kind": "attention"}})
CARRIED = PASSING - {"reduce-precision"}


@register
class AttentionFusion(Pass):
    """Fuse dot, softmax, dot into one kCustom fusion."""

    name = "attention-fusion"
    needs = (canonical_dots, row_major_inside)

    min_scores: int = 1 << 18
    """Fewer scores than this stay as they are."""
    min_rows: int = 48
    """With fewer rows, keys and values are read once and need no packing."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        if module.schedule is not None:
            return PassResult()
        for c in module.computations_in_order():
            if not is_sequential(c) or (threads and c.execution_thread not in threads):
                continue
            fusions = 0
            for i in [i for i in c.instructions if i.opcode == "dot"]:
                if i not in c.instructions:
                    continue
                form = self._form(i)
                if isinstance(form, AttentionForm):
                    members = dict.fromkeys(form.of.members)
                    end = _with_neighbours(form, members)
                    fuse_members(c, module, members, end, "kCustom", CONFIG)
                    fusions += 1
                elif trace is not None:
                    trace.declined[self.name, form] += 1
            if fusions:
                fired["attention"] += fusions
                c.sort()
        return PassResult.of(fired)

    def _form(self, i: Instruction) -> AttentionForm | str:
        """The attention that ends with a dot, if it is worth a kernel of its own."""
        attention = attention_pattern(i)
        if isinstance(attention, str):
            return attention
        for x in attention.dependent:
            if not x.shape.dtype.is_floating or x.shape.dtype.bits > 32:
                return f"%{x.name} is {x.shape.dtype}: scores are summed in f32"
            if x.opcode == "reduce-precision":
                return f"%{x.name}: digits are cut between the dots"
        form = attention_form(attention)
        if isinstance(form, str):
            return form
        if form.rows < self.min_rows:
            return "few rows: nothing is packed"
        if form.batch * form.rows * form.keys < self.min_scores:
            return "few scores"
        return form


def _with_neighbours(form: AttentionForm, members: dict[Instruction, None]) -> Instruction:
    """Add what only moves or converts operands and result; return the last of all."""
    for dot, side in (
        (form.of.scores, 0),
        (form.of.scores, 1),
        (form.of.output, form.of.values_side),
    ):
        x = dot.operands[side]
        while x.opcode in CARRIED and all(u in members for u in x.users) and role(x)[0] == POINT:
            members.setdefault(x)
            x = x.operands[0]
    end = form.of.output
    while len(end.users) == 1 and not end.is_root:
        [user] = end.users
        if user.opcode not in CARRIED or role(user)[0] != POINT:
            break
        members.setdefault(user)
        end = user
    return end
