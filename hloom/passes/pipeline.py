"""Pipelines: passes in an order that is checked when built; fixed points."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, cast

from hloom.base.clock import monotonic
from hloom.base.diagnostics import HloError, UsageError
from hloom.base.faults import Culprit, blame
from hloom.ir.module import Module
from hloom.ir.text.options import PrintOptions
from hloom.ir.text.places import forget_text
from hloom.ir.text.show import show_module
from hloom.passes.facts import Claims, Fact, KnownFacts, needed_before
from hloom.passes.pass_ import ALL_THREADS, Contents, Pass, PassResult, checked_option
from hloom.rewrite.driver import Trace


class PassError(HloError):
    """A pass did not do what it says: a bug in the pass, caught by a debug option."""


@dataclass(frozen=True)
class PipelineOptions:
    """Switches of a run (names as in `docs/options`, see the option table of the specification)."""

    disable_hlo_passes: frozenset[str] = frozenset()
    enable_hlo_passes_only: frozenset[str] = frozenset()
    disable_all_hlo_passes: bool = False
    left_out: frozenset[str] = frozenset()
    """Passes that do not run whatever else is asked: they have a fault."""
    crash_on_noop_change: bool = False
    crash_on_silent_change: bool = False
    crash_on_fix_max_iterations: bool = False
    detect_cycles: bool = False
    check_facts: bool = False
    invariants: tuple[Callable[[Module], None], ...] = ()
    """Run at the start and after every pass that changed something; raise on a broken module."""
    dump_pass_re: str | None = None
    dump: Callable[[str, Module], str | None] | None = None
    """Called with a stage name such as `pipeline.0001.after_dce`; returns where it wrote."""
    log: Callable[[str], None] | None = None
    """Gets a line before every pass: name, instruction count, module hash."""
    threads: frozenset[str] = ALL_THREADS

    def __post_init__(self) -> None:
        for name in ("disable_hlo_passes", "enable_hlo_passes_only", "threads"):
            names = checked_option(name, getattr(self, name), frozenset())
            object.__setattr__(self, name, names)
        if self.disable_hlo_passes and self.enable_hlo_passes_only:
            raise UsageError(
                "disable_hlo_passes and enable_hlo_passes_only exclude each other",
                rule="pass-lists",
                hint="give one of the two lists",
            )

    def runs(self, name: str) -> bool:
        """Whether a pass or pipeline of this name is to run."""
        if self.disable_all_hlo_passes or name in self.disable_hlo_passes or name in self.left_out:
            return False
        return not self.enable_hlo_passes_only or name in self.enable_hlo_passes_only


@dataclass
class PassRecord:
    """What happened when one pass ran. Times in seconds of the monotonic clock."""

    pipeline: str
    name: str
    start_s: float
    end_s: float
    changed: bool
    fired: Counter[str] = field(default_factory=Counter)
    instructions_before: int = 0
    instructions_after: int = 0
    dumps: list[str] = field(default_factory=list)
    stopped: str = ""
    """Of a fixed point that was not reached: what went on changing the module."""


def module_hash(module: Module) -> str:
    """A hash of everything the text shows, for telling whether a module changed at all."""
    text = show_module(module, PrintOptions(large_constants=True))
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True)
class Pipeline(Pass):
    """Passes one after another; every need must be given before, and not broken since.

    A pipeline is itself a pass, so pipelines nest; what the passes of an inner one need from
    outside it `assumes`, and the outer one must give. Building one in an impossible order raises
    `ValueError`. One that assumes something and is run by itself asks the module.
    """

    title: str
    passes: tuple[Pass, ...]
    assumes: tuple[Fact, ...] = ()
    """What must hold before it; `assuming` says what passes need."""
    leaves: tuple[Fact, ...] = ()
    """What must hold behind it: one that cannot promise it is refused."""
    where: Callable[[Module], bool] | None = None
    """Which modules it is for; others it leaves as they are. What it gives holds of those too."""

    name: ClassVar[str] = "pipeline"
    kind: ClassVar[str] = "pipeline"

    def __post_init__(self) -> None:
        self.after()

    @classmethod
    def assuming(cls, title: str, passes: tuple[Pass, ...]) -> Pipeline:
        """A pipeline that assumes what its passes need: who runs it by itself is told where a
        module has it not."""
        return cls(title, passes, needed_before((title_of(p), p.claims()) for p in passes))

    def after(self) -> KnownFacts:
        """What is known when all passes have run; `ValueError` for an impossible order."""
        order = KnownFacts(self.title, self.assumes)
        for p in self.passes:
            order.add(title_of(p), p.claims())
        order.add("whoever comes behind", Claims(needs=self.leaves))
        return order

    def claims(self) -> Claims:
        order = self.after()
        return Claims(self.assumes, tuple(order.holds), tuple(order.broken))

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        result, _ = self.run_recorded(module, PipelineOptions(threads=threads), trace=trace)
        return result

    def run_recorded(
        self, module: Module, options: PipelineOptions, *, trace: Trace | None = None
    ) -> tuple[PassResult, list[PassRecord]]:
        """Run every pass that the options allow; also return a record of each."""
        for fact in self.assumes:
            if not fact.holds(module):
                raise UsageError(
                    f"{self.title} needs {fact}, which does not hold of {module.name}: {fact.law}",
                    rule="pass-order",
                    hint="let a pass run before that gives it (hloom opt --list-passes)",
                )
        run = PipelineRun(options, trace)
        result = run.pipeline(self, module)
        return result, run.records


@dataclass(frozen=True)
class FixedPoint(Pass):
    """Repeats a pass or pipeline until it changes nothing, at most `limit` times.

    At the limit it reports "unchanged", so that an enclosing fixed point does not spin, unless
    silent changes are being caught.
    """

    inner: Pass
    limit: int = 25

    name: ClassVar[str] = "fixed-point"
    kind: ClassVar[str] = "fixed-point"

    def __post_init__(self) -> None:
        """A second round must be possible too."""
        order = KnownFacts(title_of(self), None)
        for _ in range(2):
            order.add(title_of(self.inner), self.inner.claims())

    def claims(self) -> Claims:
        return self.inner.claims()

    def run(
        self, module: Module, *, trace: Trace | None = None, threads: frozenset[str] = ALL_THREADS
    ) -> PassResult:
        return PipelineRun(PipelineOptions(threads=threads), trace).fixed_point(self, module)


def title_of(p: Pass) -> str:
    """The name a pass goes by in options, dumps and records."""
    while p.kind == "fixed-point":
        p = cast(FixedPoint, p).inner
    return cast(Pipeline, p).title if p.kind == "pipeline" else p.name


def _what_went_on(passes: list[str], fired: Counter[str]) -> str:
    """The passes and rules of the last round: they undo one another, or have not finished."""
    rules = ", ".join(f"{name} {n}" for name, n in fired.most_common(4))
    return f"{', '.join(passes)} ({rules})" if passes else rules


@dataclass
class PipelineRun:
    """One run of a pipeline: options, trace and the records made so far."""

    options: PipelineOptions
    trace: Trace | None
    records: list[PassRecord] = field(default_factory=list)
    path: tuple[str, ...] = ()
    stopped: str = ""
    """Why the last fixed point ended before nothing changed."""
    known: KnownFacts = field(default_factory=lambda: KnownFacts("run"))
    """What is said to hold, where that is checked."""
    steps: int = 0
    count: int | None = None
    """Instructions of the module, where they have been counted since it changed."""
    contents: Contents | None = None
    """What is in it, likewise."""

    def pipeline(self, p: Pipeline, module: Module) -> PassResult:
        total = PassResult()
        options = self.options
        if options.disable_all_hlo_passes or p.title in options.disable_hlo_passes:
            return total
        if p.title in options.left_out or (p.where is not None and not p.where(module)):
            return total
        whole = p.title in options.enable_hlo_passes_only
        outer = self.path
        self.path = (*outer, p.title)
        self.check_invariants(module, f"before {p.title}")
        for step in p.passes:
            name = title_of(step)
            if name in options.left_out:
                continue
            is_pipeline = step.kind == "pipeline"
            if not is_pipeline and not whole and not options.runs(name):
                continue
            if is_pipeline:
                result = self.pipeline(cast(Pipeline, step), module)
            else:
                result = self.step(step, name, module)
            if result.fired:
                total.fired += result.fired
            total.changed |= result.changed
            if result.module is not None:
                module = total.module = result.module
                total.changed = True
        self.path = outer
        return total

    def step(self, p: Pass, name: str, module: Module) -> PassResult:
        """Run one pass of this title, which is no pipeline, with everything that watches it."""
        options = self.options
        is_fixed_point = p.kind == "fixed-point"
        watch = options.crash_on_noop_change or options.crash_on_silent_change
        before = module_hash(module) if watch else None
        count = module.instruction_count if self.count is None else self.count
        if options.log is not None:
            options.log(f"{name}: {count} instructions, hash {module_hash(module)[:16]}")
        dumped = bool(options.dump_pass_re) and self.matches(name)
        dumps = self.dump(f"before_{name}", module) if dumped and not self.dumps_all() else []
        start = monotonic()
        try:
            if is_fixed_point:
                result = self.fixed_point(cast(FixedPoint, p), module)
            elif not p.is_for(self.contents_of(module)):
                result = PassResult()
            else:
                result = p.run(module, trace=self.trace, threads=options.threads)
        except Exception as error:
            blame(error, Culprit("pass", name))
            raise
        end = monotonic()
        after = result.module or module
        if watch:
            self.check_truth(name, result.changed, before != module_hash(after))
        if result.changed:
            forget_text(after)
            self.check_invariants(after, f"after {name}")
        if dumped and (result.changed or not self.dumps_all()):
            dumps += self.dump(f"after_{name}", after)
        if options.check_facts:
            self.check_facts(p, after)
        # Counted anew only after a change: modules have hundreds of computations.
        if result.changed:
            self.count, self.contents = after.instruction_count, None
        else:
            self.count = count
        self.records.append(
            PassRecord(
                ".".join(self.path),
                name,
                start,
                end,
                result.changed,
                result.fired,
                count,
                self.count,
                dumps,
                self.stopped if is_fixed_point else "",
            )
        )
        return result

    def contents_of(self, module: Module) -> Contents:
        """What is in the module, which is looked at again after each change."""
        if self.contents is None:
            self.contents = Contents.of(module)
        return self.contents

    def fixed_point(self, p: FixedPoint, module: Module) -> PassResult:
        options, name = self.options, title_of(p)
        total, last = PassResult(), Counter[str]()
        self.stopped = ""
        seen = {module_hash(module)} if options.detect_cycles else set()
        passes: list[str] = []
        for _ in range(p.limit):
            records = len(self.records)
            if p.inner.kind == "pipeline":
                result = self.pipeline(cast(Pipeline, p.inner), module)
            else:
                result = p.inner.run(module, trace=self.trace, threads=options.threads)
                if result.changed:
                    self.contents = None
            last = result.fired
            total.fired += last
            if result.module is not None:
                module = total.module = result.module
            if not result.changed:
                self.stopped = ""
                return total
            total.changed = True
            if options.detect_cycles:
                now = module_hash(module)
                if now in seen and options.log is not None:
                    options.log(f"{name} came back to a module it had before")
                seen.add(now)
            passes = [r.name for r in self.records[records:] if r.changed]
        self.stopped = f"still changed after {p.limit} rounds: {_what_went_on(passes, last)}"
        if options.log is not None:
            options.log(f"{name} {self.stopped}")
        if options.crash_on_fix_max_iterations:
            raise PassError(
                f"{name} still changes the module after {p.limit} iterations: "
                f"{_what_went_on(passes, last)}",
                rule="fixed-point",
            )
        if not options.crash_on_silent_change:
            total.changed = False
        return total

    def check_truth(self, name: str, reported: bool, truth: bool) -> None:
        if reported and not truth and self.options.crash_on_noop_change:
            raise PassError(f"{name} says it changed the module but did not", rule="pass-truth")
        if truth and not reported and self.options.crash_on_silent_change:
            raise PassError(f"{name} changed the module but says it did not", rule="pass-truth")

    def check_invariants(self, module: Module, when: str) -> None:
        for check in self.options.invariants:
            try:
                check(module)
            except HloError as error:
                error.message = f"{when}: {error.message}"
                raise

    def check_facts(self, p: Pass, module: Module) -> None:
        """All that is said to hold after a pass holds: what it gives, and what came before and it
        does not say that it breaks."""
        name = title_of(p)
        self.known.step(name, p.claims())
        for claim, giver in self.known.holds.items():
            if not claim.holds(module):
                claimed = "says it gives" if giver == name else "does not say it breaks"
                raise PassError(
                    f"{name} {claimed} {claim} ({claim.law}), but it does not hold",
                    rule="pass-facts",
                )

    def matches(self, name: str) -> bool:
        pattern = self.options.dump_pass_re
        return bool(pattern and self.options.dump and re.search(pattern, name))

    def dumps_all(self) -> bool:
        return self.options.dump_pass_re == ".*"

    def dump(self, stage: str, module: Module) -> list[str]:
        assert self.options.dump
        self.steps += 1
        where = self.options.dump(f"{self.steps:04d}.{'.'.join(self.path)}.{stage}", module)
        return [where] if where else []
