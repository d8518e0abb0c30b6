"""Compiling in spite of faults of our own: what failed is left out, and all is compiled again.

Nothing is kept on the way for it, so a compilation without faults costs nothing more. What is at
fault was said where it happened (`base/faults.py`); what is then left out is the least that helps:

1. that pass, kind of fusions, kernel family at one kernel, or way of a step; a fusion that no
   kernel can be written for is taken apart;
2. every pass that only makes programs faster, and all fusions;
3. all code: the interpreter evaluates the program, called from native code.

What is wrong with the program itself is raised as ever.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from hloom.base.clock import StageClock
from hloom.base.faults import CompilerFaultError, Culprit, Fault, culprit_of, is_fault
from hloom.ir.copy import copy_module
from hloom.ir.module import Module
from hloom.passes.control.call_inliner import CallInliner
from hloom.passes.control.flatten_call_graph import FlattenCallGraph
from hloom.passes.layout.layout_normalization import LayoutNormalization
from hloom.passes.layout.reshape_to_bitcast import ReshapeToBitcast
from hloom.passes.layout.sub_byte_normalization import SubByteNormalization
from hloom.passes.pipeline import FixedPoint, Pipeline, title_of
from hloom.passes.simplify.dce import DeadCodeElimination
from hloom.passes.simplify.tuple_simplifier import TupleSimplifier
from hloom.targets.cpu.lower.hosted import whole
from hloom.targets.cpu.lowering import NeedsApart
from hloom.targets.cpu.pipeline import cpu_pipeline
from hloom.targets.cpu.target import CpuTarget
from hloom.targets.stages import Stages

T = TypeVar("T")
MOST_FAULTS = 40
"""After so many attempts nothing is left out one by one any more."""
MOST_OF_ONE = 4
"""A family of kernels that failed at so many of them is left out at all."""
STEPS = frozenset(("schedule", "sharing", "buffers", "runs"))
"""Steps of compilation that have a simpler way."""
PACKED = SubByteNormalization.name
"""Without it, callers and programs would have arrays below a byte in two forms."""
FORMS = (SubByteNormalization, LayoutNormalization, ReshapeToBitcast, CallInliner, FlattenCallGraph)
PLAIN = Culprit("step", "all that makes programs faster")
NO_CODE = Culprit("step", "all code")


def compiled(
    module: Module, target: CpuTarget, clock: StageClock, fault: Exception | None = None
) -> Stages:
    """All stages of a verified module, which is not changed. A strict target raises faults as they
    are; else they are in `Stages.faults`, and `CompilerFaultError` where none could be avoided.
    `fault`: why the code that was made is of no use."""
    if _has_callers(max(sys.getrecursionlimit() - HEADROOM, CALLERS)):
        return with_own_stack(partial(compiled, module, target, clock, fault))
    faults: list[Fault] = []
    if fault is not None:
        if target.is_strict or not is_fault(fault):
            raise fault
        faults.append(Fault.of(fault, Culprit("llvm", "linking"), HOSTED))
        target = _with_last(target, NO_CODE)
    stages = in_spite(module, target, lambda t: _attempt(module, t, clock), faults)
    stages.faults = [*faults, *stages.faults]
    return stages


def in_spite(
    module: Module, target: CpuTarget, attempt: Callable[[CpuTarget], T], faults: list[Fault]
) -> T:
    """What an attempt at a module gives for a target, without what fails; `faults` gets that. A
    strict target raises faults as they are."""
    while True:
        try:
            return attempt(target)
        except Exception as error:
            if target.is_strict or (not is_fault(error) and not target.left_out):
                raise
            if isinstance(error, RecursionError) and not faults and _has_callers(CALLERS):
                return with_own_stack(partial(in_spite, module, target, attempt, faults))
            following = without(error, target, faults, has_packed_arrays(module))
            if following is None:
                raise _beyond_help(module, error, faults) from error
            target = following


CALLERS = 100
"""Calls above a compilation from which on the depth of the stack may be the caller's doing."""


HEADROOM = 300
"""Calls below a compilation that it may need: with fewer left it gets a stack of its own at once,
since what runs out of stack inside a library may raise anything."""


def _has_callers(most: int) -> bool:
    """Whether more than so many calls are above this one."""
    frame, count = sys._getframe(), 0
    while frame is not None and count <= most:
        frame, count = frame.f_back, count + 1
    return count > most


def with_own_stack(call: Callable[[], T]) -> T:
    """What a call returns or raises that has all of Python's stack, in a thread of its own."""
    answer: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(call())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="hloom-compiler", daemon=True)
    thread.start()
    thread.join()
    for error in raised:
        raise error
    return answer[0]


def _attempt(module: Module, target: CpuTarget, clock: StageClock) -> Stages:
    with clock.stage("copy"):
        copied = copy_module(module)
    if NO_CODE not in target.left_out:
        return target.compile(copied, clock)
    wrapper = whole(copied)
    if wrapper is None:
        raise CompilerFaultError(
            f"{module.name} does what the interpreter cannot do for it", rule="compiler-fault"
        )
    return target.compile(wrapper, clock, copied)


def has_packed_arrays(module: Module) -> bool:
    """Whether there are elements below a byte."""
    leaves = (leaf for i in module.instructions() for leaf in i.shape.leaves())
    return any(leaf.is_array and leaf.dtype.is_sub_byte for leaf in leaves)


def without(
    error: Exception, target: CpuTarget, faults: list[Fault], has_packed: bool = True
) -> CpuTarget | None:
    """The target that does without what failed, which goes to `faults`; None: there is none."""
    left, attempts = target.left_out, len(faults)
    if isinstance(error, NeedsApart):
        apart = Culprit("fused", error.fusion)
        if apart not in left and attempts < MOST_FAULTS:
            if error.fault is not None:
                faults.append(error.fault)
            return _also(target, _gathered(error.fault, faults), apart)
        error = error.__cause__ if isinstance(error.__cause__, Exception) else error
    culprit = culprit_of(error) or Culprit("step", "compilation")
    remedy = "" if culprit == Culprit("pass", PACKED) and has_packed else _remedy(culprit)
    if remedy and not _knows(left, culprit) and attempts < MOST_FAULTS and is_fault(error):
        faults.append(Fault.of(error, culprit, remedy))
        return _also(target, _gathered(faults[-1], faults) or culprit)
    for last, remedy in ((PLAIN, "all optional passes were left out"), (NO_CODE, HOSTED)):
        if last not in left:
            is_told = is_fault(error) or last == NO_CODE  # the interpreter is never silent
            if is_told and not isinstance(error, CompilerFaultError):
                faults.append(Fault.of(error, culprit, remedy))
            return _with_last(target, last)
    return None


HOSTED = "the interpreter evaluates the whole program, slowly"


def _remedy(c: Culprit) -> str:
    """What leaving it out means; empty where it cannot be left out alone."""
    if c.kind == "pass":
        return "that pass was left out"
    if c.kind == "fusion":
        return f"fusions of kind {c.name} were left out"
    if c.kind == "kernel":
        return "that family of kernels was left out there"
    if c.kind == "step" and c.name in STEPS:
        return "it was done in its simplest way"
    return ""


def _knows(left: frozenset[Culprit], c: Culprit) -> bool:
    """Whether it is left out already."""
    plain = c if c.kind == "kernel" else Culprit(c.kind, c.name)
    return plain in left or Culprit(c.kind, c.name) in left


def _gathered(fault: Fault | None, faults: list[Fault]) -> Culprit | None:
    """The whole family of a kernel, once it failed often; else None."""
    if fault is None or fault.culprit.kind != "kernel":
        return None
    name = fault.culprit.name
    same = [f for f in faults if f.culprit.kind == "kernel" and f.culprit.name == name]
    return Culprit("kernel", name) if len(same) >= MOST_OF_ONE else None


def _also(target: CpuTarget, *culprits: Culprit | None) -> CpuTarget:
    """The target without these, too."""
    plain = {c if c.kind in ("kernel", "fused") else Culprit(c.kind, c.name) for c in culprits if c}
    return replace(target, left_out=target.left_out | plain)


def _with_last(target: CpuTarget, last: Culprit) -> CpuTarget:
    """The target without all that `PLAIN` or `NO_CODE` stands for."""
    needed = set() if last == NO_CODE else needed_passes()
    left = {last, *(Culprit("pass", name) for name in pass_names() - needed)}
    left |= {Culprit("step", name) for name in STEPS}
    return replace(target, left_out=target.left_out | left)


def pass_names(pipeline: Pipeline | None = None) -> set[str]:
    """The passes that run for a CPU, those in pipelines and fixed points among them."""
    names: set[str] = set()
    for p in (pipeline or cpu_pipeline()).passes:
        inner = p.inner if isinstance(p, FixedPoint) else p
        names |= pass_names(inner) if isinstance(inner, Pipeline) else {title_of(inner)}
    return names


def needed_passes() -> set[str]:
    """Those that bring programs into the form that kernels are written for."""
    expansion = next(
        p for p in cpu_pipeline().passes if isinstance(p, Pipeline) and p.title == "expansion"
    )
    cleaning = (TupleSimplifier, DeadCodeElimination)
    names = {p.name for p in expansion.passes if type(p).__module__.startswith(EXPANDERS)}
    return names | {p.name for p in (*FORMS, *cleaning)}


EXPANDERS = "hloom.passes.expand."


def _beyond_help(module: Module, error: Exception, faults: list[Fault]) -> Exception:
    """What is raised when nothing is left that could be left out."""
    if isinstance(error, MemoryError) or not faults:
        return error
    messages = "; ".join(dict.fromkeys(f"{f.culprit}: {f.error}" for f in faults[:3]))
    return CompilerFaultError(
        f"hloom has a fault, and cannot compile {module.name}: {messages}",
        rule="compiler-fault",
        hint="hloom eval runs it in the interpreter, if that knows all of its operations",
    )
