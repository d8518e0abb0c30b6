"""Fusions for libraries: what a library accepts, grouped into `kCustom` fusions of its kind.

A library is a kind (a name such as `__ynn_fusion`, which the `fusion_config` of its fusions has)
and a predicate that says of an instruction whether the library computes it. It is asked about what
kernels are made of: elementwise operations, what moves elements, reductions and dots. A group grows
from its result to the operands that nothing outside of it reads, so that a fusion never closes a
cycle. What only moves elements is no group of its own. Without libraries nothing is changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from hloom.analysis.fusible import ALONE, POINT, UPDATE, role
from hloom.base.diagnostics import UsageError
from hloom.ir.computation import Computation
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.op import opcodes
from hloom.ir.traits import ELEMENTWISE
from hloom.ir.values.backend_config import BackendConfig
from hloom.passes.expand.dot_decomposer import canonical_dots
from hloom.passes.fuse.build import fuse_members
from hloom.passes.fuse.fusion_plan import is_sequential
from hloom.passes.layout.layout_normalization import row_major_inside
from hloom.passes.pass_ import ALL_THREADS, Pass, PassResult
from hloom.rewrite.driver import Trace

Accepts = Callable[[Instruction], bool]
COMPUTING = opcodes(ELEMENTWISE)


@dataclass(frozen=True)
class LibraryRewriter(Pass):
    """Fuse what libraries accept into kCustom fusions that name them. No option of a command line
    can say what a library accepts, so that it is no pass of `hloom opt`."""

    name = "library-rewriter"
    needs = (canonical_dots, row_major_inside)

    libraries: tuple[tuple[str, Accepts], ...] = ()
    """Kind and predicate of each; the first that accepts an instruction has it."""

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        fired: Counter[str] = Counter()
        if module.schedule is not None or not self.libraries:
            return PassResult()
        for c in module.computations_in_order():
            if not is_sequential(c) or (threads and c.execution_thread not in threads):
                continue
            for kind, accepts in self.libraries:
                fired[kind] += _fuse(c, module, kind, accepts)
        return PassResult.of(+fired)


def _fuse(c: Computation, module: Module, kind: str, accepts: Accepts) -> int:
    """How many fusions of a kind were made in a computation; results come before operands."""
    config = BackendConfig.from_json({"fusion_config": {"kind": kind}})
    able = {i for i in c.instructions if _is_groupable(i) and _accepted(i, kind, accepts)}
    count = 0
    for root in reversed(c.in_order()):
        if root not in able:
            continue
        members = _group(root, able)
        if not any(_computes(x) for x in members):
            continue
        able.difference_update(members)
        fuse_members(c, module, members, root, "kCustom", config)
        count += 1
    if count:
        c.sort()
    return count


def _is_groupable(i: Instruction) -> bool:
    """Whether it can be in a fusion; a constant is, where it is one number."""
    return role(i)[0] not in (ALONE, UPDATE)


def _accepted(i: Instruction, kind: str, accepts: Accepts) -> bool:
    try:
        return bool(accepts(i))
    except Exception as error:
        raise UsageError(
            f"the library {kind} fails where it is asked about %{i.name}: {error!r}",
            rule="fusion-library",
        ) from error


def _computes(i: Instruction) -> bool:
    """Whether it is more than a move of elements."""
    return role(i)[0] != POINT or (i.opcode in COMPUTING and i.opcode != "copy")


def _group(root: Instruction, able: set[Instruction]) -> dict[Instruction, None]:
    """A result and all operands, one behind another, that are read inside of the group only."""
    members = dict.fromkeys([root])
    waiting = [*root.operands]
    while waiting:
        x = waiting.pop()
        if x in members or x not in able or x.is_root:
            continue
        if all(u in members for u in x.users):
            members[x] = None
            waiting += x.operands
    return members
