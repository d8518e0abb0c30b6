"""Why the CPU target did what it did to each value of a program: fused, placed, laid out, slow.

    for row in explained(module, "memory").rows:
        print(row.value, row.verdict, row.why)

Decisions are asked of what took them: the plan of the fusion pass, the notes of buffer assignment,
the lowering rules. Nothing is compiled to machine code for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from hloom.base.clock import StageClock
from hloom.base.diagnostics import HloError, UsageError
from hloom.base.options import Options
from hloom.codegen.llvm.machine import Machine
from hloom.ir.copy import copy_module
from hloom.ir.instruction import Instruction
from hloom.ir.module import Module
from hloom.ir.verify import verify
from hloom.passes.fuse.explain import fusion_decisions
from hloom.passes.fuse.fusion import Fusion
from hloom.passes.fuse.fusion_plan import Decision
from hloom.passes.partition.explain import explained_partition
from hloom.passes.pipeline import Pipeline, title_of
from hloom.passes.sharding.sharding_propagation import explained_shardings
from hloom.plan.buffer_assignment import AssignedValue, BufferAssignment
from hloom.program.thunks.custom_call import Interpreter
from hloom.program.thunks.kernel import Kernel
from hloom.program.thunks.thunk import walk
from hloom.targets.cpu.lower.families import FAMILIES
from hloom.targets.cpu.options import is_strict
from hloom.targets.cpu.pipeline import cpu_pipeline
from hloom.targets.cpu.recovery import compiled, in_spite
from hloom.targets.cpu.slow_paths import slow_paths
from hloom.targets.cpu.target import CpuTarget
from hloom.types.mesh import MeshAxes

T = TypeVar("T")
ROW_MAJOR = "every kernel writes row by row"


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one value, and why."""

    value: str
    opcode: str
    verdict: str
    why: str
    size_bytes: int | None = None
    other: str | None = None
    """The value that it was fused into, or whose buffer it uses."""


@dataclass(frozen=True)
class Explained:
    """The rows of one topic, in the order of the program."""

    topic: str
    rows: list[Row] = field(default_factory=list)

    def about(self, name: str) -> Explained:
        """The rows that name this value."""
        plain = name.lstrip("%")
        rows = [r for r in self.rows if plain in (r.value, r.value.split("{")[0], r.other)]
        return Explained(self.topic, rows)

    @property
    def counts(self) -> list[tuple[str, str, int]]:
        """(verdict, why, how often), the most frequent first; names and numbers are left out."""
        counts_ = Counter((r.verdict, _without_names(r.why)) for r in self.rows)
        return [(verdict, why, n) for (verdict, why), n in counts_.most_common()]


def explained(
    module: Module,
    topic: str,
    machine: Machine | None = None,
    *,
    mesh: MeshAxes | None = None,
) -> Explained:
    """The decisions about one topic (a key of `EXPLANATIONS`) for a module, left as it is. `mesh`
    names the axes of the devices that `partition` communicates along."""
    if topic not in EXPLANATIONS:
        raise HloError(
            f"nothing is known about {topic!r}", hint=f"topics: {', '.join(EXPLANATIONS)}"
        )
    if mesh is not None and topic != "partition":
        raise UsageError(f"a mesh says nothing of {topic}", hint="it names axes of `partition`")
    verify(module)
    target = CpuTarget(machine or Machine.host(), is_strict=is_strict(Options()))
    if mesh is not None:
        return Explained(topic, _partition(module, target, mesh))
    return Explained(topic, EXPLANATIONS[topic](copy_module(module), target))


def _in_spite(
    module: Module, target: CpuTarget, attempt: Callable[[CpuTarget, Module], T]
) -> tuple[T, CpuTarget]:
    """What an attempt makes of a copy of a module; and the target, without what has a fault."""
    return in_spite(module, target, lambda t: (attempt(t, copy_module(module)), t), [])


# -- fusion


def _fusion(module: Module, target: CpuTarget) -> list[Row]:
    module.schedule = None
    decisions, _ = _in_spite(module, target, _decided_fusions)
    rows = []
    for d in decisions:
        verdict = "fused into" if d.is_fused else "not fused into"
        why = d.reason or "its reader computes it where it needs it"
        p, size = d.producer, _size(d.producer)
        rows.append(Row(p.name, p.opcode, verdict, why, size, d.consumer.name))
    return rows


def _decided_fusions(target: CpuTarget, module: Module) -> list[Decision]:
    passes = cpu_pipeline(target.device, target.left_out, target.libraries).passes
    at = next(k for k, p in enumerate(passes) if title_of(p) == "fusion")
    before = Pipeline("before fusion", passes[:at])
    result, _ = before.run_recorded(module, target.pass_options())
    fusion = passes[at]
    assert isinstance(fusion, Fusion)
    return fusion_decisions(result.module or module, fusion)


def _size(i: Instruction) -> int | None:
    return i.shape.size_bytes if i.shape.is_array else None


# -- memory


def _memory(module: Module, target: CpuTarget) -> list[Row]:
    own = {i.name for i in module.instructions() if i.opcode == "copy"}
    assignment = _in_spite(module, target, CpuTarget.planned)[0].buffer_assignment
    first: dict[tuple[int, int], str] = {}
    rows = []
    for v in assignment.values:
        i, a = v.instruction, v.slice.allocation
        name = i.name + (f"{{{','.join(map(str, v.index))}}}" if v.index else "")
        key = (a.index, v.slice.offset)
        # Who shares is said by assignment; bytes that are only used again later are no sharing.
        other = first.get(key) if "in the buffer of" in v.note else None
        if other is None:
            first[key] = name
        verdict, why = _place(v, assignment, own)
        rows.append(Row(name, i.opcode, verdict, why, v.slice.size_bytes, other))
    return rows


def _place(v: AssignedValue, assignment: BufferAssignment, own: set[str]) -> tuple[str, str]:
    i, a = v.instruction, v.slice.allocation
    if i.opcode == "copy":
        return _where(v), why_copied(i, assignment, own)
    if i.opcode == "constant":
        return _where(v), "its bytes are used where they stand"
    if i.opcode == "parameter" and i.parent.is_entry:
        if a.is_donated:
            return _where(v), "donated: the program may overwrite it, and returns it as an output"
        return _where(v), "the caller's memory, read only"
    if v.note:
        return _where(v), v.note
    if a.kind == "temp":
        return _where(v), "a buffer of its own while it is alive"
    return _where(v), "handed to the caller" if a.kind == "output" else "the caller's memory"


def _where(v: AssignedValue) -> str:
    a, place = v.slice.allocation, v.slice
    if a.kind == "temp":
        return f"arena at {place.offset:,}"
    if a.kind == "parameter":
        return f"argument {a.parameter_number}"
    return a.kind


def why_copied(copy: Instruction, assignment: BufferAssignment, own: set[str]) -> str:
    """Why there is a copy: the program has it, or two values need one buffer at one time."""
    x = copy.operands[0]
    if copy.name in own:
        return f"the program copies %{x.name} itself, and both are needed"
    kind = "value"
    if copy.shape.is_array and (place := assignment.trees.get(x)) is not None:
        allocation = getattr(place, "allocation", None)
        if allocation is not None and allocation.is_read_only:
            kind = "constant" if allocation.kind == "constant" else "argument"
    is_read_only = kind != "value"
    reason = "is read only" if is_read_only else "is still needed, or goes elsewhere too"
    for u in _readers(copy):
        if u.opcode == "while":
            return f"loop %{u.name} changes its state in place, and {kind} %{x.name} {reason}"
        if u.opcode == "conditional":
            return f"the branches of %{u.name} share a buffer, and {kind} %{x.name} {reason}"
        if u.opcode in ("dynamic-update-slice", "scatter", "fusion", "custom-call"):
            return f"%{u.name} writes in place, and {kind} %{x.name} {reason}"
    if copy.parent.is_entry:
        return f"the result has a buffer of its own, and {kind} %{x.name} {reason}"
    loops = [c for c in copy.parent.callers if c.opcode == "while"]
    if loops and not is_read_only:
        return (
            f"loop %{loops[0].name} keeps its state in one place, where {kind} %{x.name} could not "
            "be computed: the old state was still needed there, or it goes elsewhere too"
        )
    return f"what %{copy.parent.name} returns has a fixed place, and {kind} %{x.name} {reason}"


def _readers(i: Instruction) -> list[Instruction]:
    """Who reads a value, seen through tuples and what only names memory."""
    readers_, work, seen = [], list(i.users), set[Instruction]()
    while work:
        u = work.pop()
        if u in seen:
            continue
        seen.add(u)
        if u.opcode in ("tuple", "bitcast", "get-tuple-element"):
            work += u.users
        else:
            readers_.append(u)
    return readers_


# -- layout


def _layout(module: Module, target: CpuTarget) -> list[Row]:
    plan, _ = _in_spite(module, target, CpuTarget.planned)
    rows = []
    for i in plan.module.instructions():
        if i not in plan.buffer_assignment.trees or not i.shape.is_array or i.shape.rank < 2:
            continue
        rows.append(_laid_out(i))
    return rows


def _laid_out(i: Instruction) -> Row:
    row = partial(Row, i.name, i.opcode, size_bytes=_size(i))
    verdict = i.shape.text
    is_default = i.shape.layout is None or i.shape.layout.is_default
    if i.opcode == "parameter" and i.parent.is_entry:
        return row(verdict, "as the caller hands it over")
    if i.opcode == "bitcast":
        x = i.operands[0]
        return row(verdict, f"the same bytes as {x.shape.text}", other=x.name)
    if i.opcode == "transpose":
        x = i.operands[0]
        return row(verdict, f"moved from {x.shape.text}: its readers want it so", other=x.name)
    if i.opcode == "copy" and i.operands[0].shape.layout is not i.shape.layout:
        x = i.operands[0]
        return row(verdict, f"moved from {x.shape.text}", other=x.name)
    return row(verdict, ROW_MAJOR if is_default else "asked for by the program")


# -- what runs slowly


def _fallback(module: Module, target: CpuTarget) -> list[Row]:
    plan, target = _in_spite(module, target, CpuTarget.planned)
    return [
        Row(s.instruction.name, s.instruction.opcode, s.path, s.why, _size(s.instruction))
        for s in slow_paths(plan, target.device, target.left_out)
    ]


# -- what runs side by side


def _concurrency(module: Module, target: CpuTarget) -> list[Row]:
    """For each sequence of steps how many runs it is cut into, or why it is not."""
    return [
        Row(d.where, "sequence", f"{d.runs} runs" if d.runs else "one after another", d.why)
        for d in _in_spite(module, target, CpuTarget.written)[0].decisions
    ]


# -- families of kernels, and faults


def _kernels(module: Module, target: CpuTarget) -> list[Row]:
    """What was left out for a fault, then who wrote each kernel."""
    stages = compiled(module, target, StageClock())
    rows = []
    for f in stages.faults:
        c = f.culprit
        rows.append(Row(c.where or c.name, c.kind, f"{c.name} left out", f"{f.error}; {f.remedy}"))
    opcodes = {i.name: i.opcode for i in stages.module.instructions()}
    written = {family.name: family.what for family in FAMILIES}
    for t in walk(stages.program.thunks):
        if isinstance(t, Kernel):
            family = stages.lowering.families[t.symbol].name
            opcode = opcodes.get(t.name, "kernel")
            rows.append(Row(t.name, opcode, family, written.get(family, ALONE)))
        elif isinstance(t, Interpreter):
            rows.append(Row(t.name, "kernel", "interpreter", "no code could be made of it"))
    return rows


ALONE = "the one family for it"


# -- sharding


def _sharding(module: Module, target: CpuTarget) -> list[Row]:
    """Of the program as it is given: what the pass would decide."""
    rows = []
    for r in explained_shardings(module):
        i, leaves = r.value, list(r.value.shape.leaves())
        name = i.name + (f"{{{r.leaf}}}" if i.shape.is_tuple else "")
        size = leaves[r.leaf].size_bytes if leaves[r.leaf].is_array else None
        verdict = r.sharding.text if r.sharding is not None else "whole on every device"
        rows.append(Row(name, i.opcode, verdict, r.why, size, r.source or None))
    return rows


# -- partitioning


def _partition(module: Module, target: CpuTarget, mesh: MeshAxes | None = None) -> list[Row]:
    """What is communicated, and what every device computes alike, most bytes first."""
    explained_ = explained_partition(module, mesh)
    rows = []
    for r in explained_.inserted:
        c = r.communication
        runs = f", {c.runs:.4g} runs" if c.runs != 1 else ""
        verdict = f"{c.kind} along {c.axis}{runs}"
        rows.append(Row(r.name, r.opcode, verdict, r.why, round(c.total_bytes), c.place or None))
    for r in explained_.replicated:
        rows.append(Row(r.name, r.opcode, "the same on several devices", r.reason, r.bytes))
    return rows


EXPLANATIONS: dict[str, Callable[[Module, CpuTarget], list[Row]]] = {
    "fusion": _fusion,
    "memory": _memory,
    "layout": _layout,
    "fallback": _fallback,
    "kernels": _kernels,
    "concurrency": _concurrency,
    "sharding": _sharding,
    "partition": _partition,
}
"""The topics, and what finds the rows."""


def _without_names(why: str) -> str:
    words = ["..." if w.startswith("%") or w[:1].isdigit() else w for w in why.split(" ")]
    return " ".join(words)
