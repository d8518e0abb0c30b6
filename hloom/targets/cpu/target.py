"""The CPU as a target: which machine, which passes, and how a module becomes a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from hloom.base.clock import StageClock
from hloom.base.diagnostics import HloError
from hloom.base.faults import Culprit, Fault, blame, blamed
from hloom.base.guarding import GUARDING
from hloom.base.registry import load_room
from hloom.codegen.llvm.compile import CodeCompiler, FailedFunctionError, Objects
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.module import KernelOptions
from hloom.codegen.runs import Decision, with_runs
from hloom.device.device import Device, MemorySpace
from hloom.ir.entry_layout import keep_own_sizes
from hloom.ir.instruction import Instruction
from hloom.ir.meaning import check_meaning
from hloom.ir.module import Module
from hloom.memory.assign import AssignOptions, assign_buffers
from hloom.memory.copies import CopyOptions, insert_copies
from hloom.memory.spaces import take_spaces, tell_spaces
from hloom.passes.layout.layout_normalization import LayoutNormalization
from hloom.passes.pipeline import PipelineOptions
from hloom.plan.branches import BranchPlan
from hloom.plan.flights import flights
from hloom.plan.order import Order, Schedule
from hloom.program.program import Processor, Program
from hloom.program.thunks.thunk import Thunk
from hloom.runtime.crash_notes import CrashNotes
from hloom.runtime.processors import granted_threads
from hloom.schedule.least_memory import least_memory_order, order_as_it_stands, stated_order
from hloom.targets.cpu.apart import kept_apart
from hloom.targets.cpu.device import device_of, without_tiles
from hloom.targets.cpu.foreign_spaces import keep_foreign_spaces_here
from hloom.targets.cpu.function_texts import CODE, ENTRY, FunctionTexts
from hloom.targets.cpu.leaves import parameters_of, results_of
from hloom.targets.cpu.lowering import Lowering, UnsupportedError
from hloom.targets.cpu.pipeline import cpu_pipeline
from hloom.targets.cpu.planned import Lowered, Planned, Prepared
from hloom.targets.cpu.share import CpuShare, never
from hloom.targets.cpu.shown import SHOWN
from hloom.targets.cpu.supported import (
    check_expansion,
    check_one_order,
    check_one_precision,
    check_static,
    check_supported,
)
from hloom.targets.cpu.tuning.choice import Choice
from hloom.targets.stages import Stages

if TYPE_CHECKING:
    from hloom.runtime.communicator.in_process import InProcess
    from hloom.runtime.executor import Executor
    from hloom.targets.cpu.debug import DebugRun
    from hloom.targets.cpu.libraries import Libraries

load_room("hloom.targets.cpu.lower")

EVERY_PASS = PipelineOptions()
STRICT = KernelOptions()


class Chooser(Protocol):
    """Chooses how the kernels of instructions are written, where not as the device's costs say."""

    def choices(self, instructions: Sequence[Instruction]) -> Mapping[Instruction, Choice]: ...


@dataclass(frozen=True)
class CpuTarget:
    """A processor to compile for, and how."""

    keeps_foreign_spaces: ClassVar[bool] = True
    machine: Machine
    opt_level: int = 2
    kernel_device: Device | None = None
    """The device to cut kernels for; None: this machine. Code is for `machine` in any case."""
    compile_threads: int | None = None
    """How many threads may generate code, the caller's counted; None: as many as there are
    processors for."""
    passes: PipelineOptions = EVERY_PASS
    kernels: KernelOptions = STRICT
    excess_precision: bool = True
    """Whether results of narrow floats may stay wider inside a kernel."""
    scheduler: str = "default"
    """Who runs side by side: those for whom it pays (`default`), all who may (`concurrency`),
    nobody (`memory`)."""
    is_strict: bool = True
    """Whether a fault of ours is raised as it is; else what can be left out is (`recovery.py`)."""
    left_out: frozenset[Culprit] = frozenset()
    """What is not used, for its faults."""
    tuning: Chooser | None = None
    """Who chooses how kernels are written; None: the device's costs."""
    object_cache: Objects | None = None
    """Code of kernels that other programs have, too."""
    is_ahead: bool = False
    """Whether code is for a library."""
    libraries: Libraries = ()
    """Those that compute what they accept of a program, by kind."""

    @property
    def device(self) -> Device:
        """What kernels are cut for: the one that was named, or the processor at hand, of which this
        process may use some cores."""
        device = self.kernel_device or device_of(self.machine, granted_threads())
        return without_tiles(device) if self.is_ahead else device

    @property
    def memories(self) -> tuple[MemorySpace, ...]:
        """The memory spaces, as large as they are. A system may have more main memory for a program
        than there is, and tells when it does not: the host's is not counted here."""
        return tuple([replace(m, size_bytes=0) for m in self.device.memory_spaces])

    def check(self, module: Module) -> None:
        """Raise for a module that no processor can run by itself."""
        check_supported(module)

    def compiled(self, module: Module, clock: StageClock, fault: Exception | None = None) -> Stages:
        """All stages of a verified module, which is not changed, in spite of faults of hloom."""
        from hloom.targets.cpu.recovery import compiled

        try:
            return compiled(module, self, clock, fault)
        except HloError as error:
            if error.rule == "cpu-unsupported" and error.hint is None:
                error.hint = "hloom eval runs every operation, in the interpreter"
            raise

    def text(self, stages: Stages, stage: str) -> str:
        """A stage of compilation as text."""
        return SHOWN[stage](stages, self)

    def debug(
        self,
        stages: Stages,
        executor: Executor,
        leaves: Sequence[Sequence[Any]],
        together: InProcess | None,
        **watched: bool,
    ) -> list[DebugRun]:
        """Run step by step on each device, and watch."""
        from hloom.targets.cpu.debug import debug_run

        return debug_run(stages, executor, self.device, leaves, together, **watched)

    def compile(
        self, module: Module, clock: StageClock | None = None, whole: Module | None = None
    ) -> Stages:
        """From a graph, which is changed, to a program; each line uses what those above made.

        `whole`: what the interpreter evaluates where the graph says so.
        """
        clock = clock or StageClock()
        with CodeCompiler(
            self.machine,
            self.opt_level,
            self.helpers,
            is_strict=self.is_strict,
            crash_notes=CrashNotes(),
            object_cache=self.object_cache,
        ) as code:
            stages = self.written(module, clock, code, whole)
            with clock.stage("machine code"):
                try:
                    stages.program.objects = code.objects()
                except FailedFunctionError as error:
                    blame(error, stages.lowering.families.get(error.symbol, CODE))
                    raise
        stages.faults += code.faults
        return stages

    def written(
        self,
        module: Module,
        clock: StageClock | None = None,
        code: CodeCompiler | None = None,
        whole: Module | None = None,
    ) -> Stages:
        """All stages of a graph, which is changed, but the last: the program has no objects yet.

        Every function is given to `code` as soon as its text is there.
        """
        clock, m = clock or StageClock(), self.machine
        lowered = self._decided(self.prepared(module, clock), clock, whole, code)
        module, order, buffers, records = lowered.plan
        lowering, thunks = lowered.lowering, lowered.thunks
        decisions, faults = lowered.decisions, lowered.faults
        texts = lowered.functions.whole(thunks, code)
        tell_spaces(module, buffers)
        program = Program(
            module.name,
            buffers.allocations,
            thunks,
            parameters_of(module, buffers),
            results_of(module, buffers),
            module.entry.root.shape,
            [],
            ENTRY,
            call_sites=lowering.call_sites,
            infeeds=lowering.infeeds,
            outfeeds=lowering.outfeeds,
            argument_shapes=[p.shape for p in module.entry.parameters],
            processor=Processor(m.triple, m.cpu, m.required, m.data_layout),
            replicas=module.replica_count,
            partitions=module.num_partitions,
        )
        return Stages(module, order, buffers, lowering, program, texts, records, faults, decisions)

    def _decided(
        self,
        prepared: Prepared,
        clock: StageClock,
        whole: Module | None = None,
        code: CodeCompiler | None = None,
    ) -> Lowered:
        """A plan and the steps that run it; other places where those keep long steps waiting."""
        lowered = self.lowered(self.placed(prepared, clock), clock, whole, code)
        if any(d.is_open for d in lowered.decisions):
            lowered = kept_apart(self, lowered, prepared.spaces, clock, whole)
        return lowered

    def lowered(
        self,
        plan: Planned,
        clock: StageClock,
        whole: Module | None = None,
        code: CodeCompiler | None = None,
    ) -> Lowered:
        """The steps of a planned module, those side by side for which that pays. `code` gets the
        kernels as they are lowered."""
        faults: list[Fault] = []
        lowering = Lowering(
            plan.module,
            plan.order,
            plan.buffer_assignment,
            self.device,
            self.left_out,
            None if self.is_strict else faults,
            whole,
            self._choices(plan, clock),
            self.is_ahead,
        )
        functions = FunctionTexts(self, lowering, clock)
        if code is not None:
            functions.write_early(code)
        with clock.stage("kernels"):
            thunks = lowering.sequence(plan.module.entry)
        with clock.stage("runs"), blamed("step", "runs"):
            thunks, decisions = self._with_runs(thunks)
        return Lowered(plan, lowering, functions, thunks, decisions, faults)

    def _choices(self, plan: Planned, clock: StageClock) -> Mapping[Instruction, Choice]:
        """How kernels are written that are not to be as the device's costs say."""
        if self.tuning is None:
            return {}
        with clock.stage("autotune"):
            return self.tuning.choices([i for steps in plan.order.steps.values() for i in steps])

    def _with_runs(self, thunks: tuple[Thunk, ...]) -> tuple[tuple[Thunk, ...], list[Decision]]:
        """The thunks, with those side by side for which that pays, and why."""
        if self.is_left_out("runs"):
            return thunks, [Decision("main", 0, "a fault of hloom was found there")]
        if self.scheduler == "memory":
            return thunks, [Decision("main", 0, "cpu_scheduler_type asks for least memory")]
        return with_runs(thunks, self.concurrency_device)

    @property
    def concurrency_device(self) -> Device:
        """The device whose costs say who runs side by side."""
        device = self.device
        if self.scheduler != "concurrency":
            return device
        free = replace(
            device.costs,
            run_ns=0.0,
            concurrency_gain_ns=0.0,
            concurrency_gain=0.0,
            concurrency_memory=float("inf"),
        )
        return replace(device, costs=free)

    @property
    def helpers(self) -> int:
        """How many other threads may generate code."""
        return (self.compile_threads or granted_threads()) - 1

    def planned(self, module: Module, clock: StageClock | None = None) -> Planned:
        """All that is decided about a graph, which is changed, before code is written."""
        clock = clock or StageClock()
        prepared = self.prepared(module, clock)
        plan = self.placed(prepared, clock)
        try:
            lowered = self.lowered(plan, clock)
        except UnsupportedError:
            return plan  # what cannot run has its places all the same
        if any(d.is_open for d in lowered.decisions):
            lowered = kept_apart(self, lowered, prepared.spaces, clock)
        return lowered.plan

    def prepared(self, module: Module, clock: StageClock) -> Prepared:
        """A graph, which is changed, after all passes, and its order."""
        stage = clock.stage
        check_expansion(module)
        check_meaning(module)
        keep_own_sizes(module)
        with stage("passes"), blamed("step", "passes"):
            schedule, module.schedule = module.schedule, None
            if self.keeps_foreign_spaces:
                keep_foreign_spaces_here(module, self.device)
            spaces = take_spaces(module, self.device)
            result, records = cpu_pipeline(self.device, self.left_out, self.libraries).run_recorded(
                module, self.pass_options()
            )
            module = result.module or module
            check_one_precision(module)
            check_static(module)
            if not any(r.name == LayoutNormalization.name for r in records):
                check_one_order(module)
        with stage("schedule"), blamed("step", "schedule"):
            order = self._order(module, schedule)
        return Prepared(module, order, spaces, records)

    def placed(
        self, prepared: Prepared, clock: StageClock, branches: BranchPlan | None = None
    ) -> Planned:
        """A place for every value, and copies where they must be, which change module and order."""
        module, order, spaces, records = prepared
        stage, branches = clock.stage, {**flights(order), **(branches or {})} or None
        simply = self.is_left_out("buffers")
        share = never if self.is_left_out("sharing") or simply else CpuShare()
        with stage("copies"), blamed("step", "buffers"):
            kept = simply or self.passes.disable_all_hlo_passes
            copies = CopyOptions(share, remove_existing=not kept, spaces=spaces, branches=branches)
            insert_copies(module, order, copies)
        with stage("buffers"), blamed("step", "buffers"):
            options = AssignOptions(
                can_share=share,
                heap="first-fit" if simply else "best-fit",
                share_operands=not simply,
                apart=GUARDING,
                spaces=spaces,
                memories=self.memories,
                branches=branches,
            )
            assignment = assign_buffers(module, order, options)
        return Planned(module, order, assignment, records)

    def pass_options(self) -> PipelineOptions:
        """The switches of a run, with the passes that have faults left out."""
        names = frozenset(c.name for c in self.left_out if c.kind == "pass")
        return replace(self.passes, left_out=names) if names else self.passes

    def _order(self, module: Module, schedule: Schedule | None) -> Order:
        """The order in which a module runs."""
        if self.is_left_out("schedule"):
            return order_as_it_stands(module)
        stated = stated_order(module, schedule) if self.passes.disable_all_hlo_passes else None
        return stated or least_memory_order(module, self.device.costs.concurrency_bytes)

    def is_left_out(self, step: str) -> bool:
        """Whether a step of compilation is to be done in its simplest way."""
        return bool(self.left_out) and Culprit("step", step) in self.left_out
