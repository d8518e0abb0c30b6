"""The CPU as a target: which machine, which passes, and how a module becomes a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from hloom.base.clock import StageClock
from hloom.base.guarding import GUARDING
from hloom.base.registry import load_room
from hloom.codegen.llvm.compile import CodeCompiler
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.main_function import main_text
from hloom.codegen.llvm.module import KernelOptions, kernel_function
from hloom.ir.meaning import check_meaning
from hloom.ir.mixed_precision import uniform
from hloom.ir.module import Module
from hloom.memory.assign import AssignOptions, assign_buffers
from hloom.memory.copies import CopyOptions, insert_copies
from hloom.passes.expand.mixed_precision_removal import MixedPrecisionRemoval
from hloom.passes.pipeline import PassRecord, PipelineOptions
from hloom.plan.places import Places
from hloom.program.program import Parameter, Program, Result
from hloom.program.thunks.thunk import Thunk
from hloom.runtime.processors import granted_threads
from hloom.schedule.least_memory import schedule_module
from hloom.targets.cpu.lowering import Lowering, unsupported
from hloom.targets.cpu.pipeline import cpu_pipeline
from hloom.targets.cpu.share import CpuShare
from hloom.targets.cpu.stages import Stages

load_room("hloom.targets.cpu.lower")

PARALLEL_INSTRUCTIONS = 400
"""From this size on a program is worth other processes' help: one takes 0.15 s to start."""

ENTRY = "hloom_main"
LONG_ENTRY_BYTES = 64 << 10
"""An entry function with more text than this is one call after another: good code for it is not
faster, and takes four times as long to make."""
EVERY_PASS = PipelineOptions()
STRICT = KernelOptions()


@dataclass(frozen=True)
class CpuTarget:
    """A processor to compile for, and how."""

    machine: Machine
    opt_level: int = 2
    processes: int | None = None
    """How many processes may generate the code of a large program, this one counted; None: as
    many as there are processors for."""
    passes: PipelineOptions = EVERY_PASS
    kernels: KernelOptions = STRICT
    excess_precision: bool = True
    """Whether results of narrow floats may stay wider inside a kernel."""

    def compile(self, module: Module, clock: StageClock | None = None) -> Stages:
        """From a graph, which is changed, to a program; each line uses what those above made."""
        clock = clock or StageClock()
        # Other processes start while the passes run here.
        with CodeCompiler(self.machine, self.opt_level, self.workers(module)) as code:
            made = self.written(module, clock, code)
            with clock.stage("machine code"):
                made.program.objects = code.objects()
        return made

    def written(
        self, module: Module, clock: StageClock | None = None, code: CodeCompiler | None = None
    ) -> Stages:
        """All stages of a graph, which is changed, but the last: the program has no objects yet.

        Every function is given to `code` as soon as its text is there.
        """
        clock = clock or StageClock()
        module, places, records = self.planned(module, clock)
        lowering = Lowering(module, places, self.machine.vector_bytes)
        with clock.stage("kernels"):
            thunks = lowering.sequence(module.entry)
        with clock.stage("llvm text"):
            texts = {}
            for symbol, text in self.functions(lowering, thunks):
                texts[symbol] = text
                if code is not None:
                    is_long = symbol == ENTRY and len(text) > LONG_ENTRY_BYTES
                    code.add(symbol, text, 0 if is_long else None)
        program = Program(
            module.name,
            places.allocations,
            thunks,
            parameters_of(module, places),
            results_of(module, places),
            module.entry.root.shape,
            [],
            ENTRY,
            call_sites=lowering.call_sites,
            infeeds=lowering.infeeds,
            outfeeds=lowering.outfeeds,
            argument_shapes=[p.shape for p in module.entry.parameters],
        )
        return Stages(module, places, lowering, program, texts, records)

    def workers(self, module: Module) -> int:
        """How many other processes are worth having for a program."""
        if module.instruction_count < PARALLEL_INSTRUCTIONS:
            return 0
        return (self.processes or granted_threads()) - 1

    def planned(
        self, module: Module, clock: StageClock | None = None
    ) -> tuple[Module, Places, list[PassRecord]]:
        """All that is decided about a graph, which is changed, before code is written."""
        stage = (clock or StageClock()).stage
        check_meaning(module)
        with stage("passes"):
            module.schedule = None  # of another compiler's kernels; passes leave what is in order
            result, records = cpu_pipeline().run_recorded(module, self.passes)
            module = result.module or module
            check_one_precision(module)
        with stage("schedule"):
            schedule_module(module)
        share = CpuShare()
        with stage("copies"):
            insert_copies(module, CopyOptions(can_share=share))
        with stage("buffers"):
            places = assign_buffers(module, AssignOptions(can_share=share, apart=GUARDING))
        return module, places, records

    def functions(self, lowering: Lowering, thunks: tuple[Thunk, ...]) -> Iterator[tuple[str, str]]:
        """Symbol and LLVM text of everything that a program calls; its entry is the last."""
        for symbol, kernel in lowering.kernels.items():
            kernel.excess_precision = self.excess_precision
            option = self.kernels
            if asked := lowering.options.get(symbol):
                option = option._replace(**asdict(asked))
            yield symbol, kernel_function(kernel, self.machine, option).text()
        yield from lowering.functions.items()
        yield ENTRY, main_text(ENTRY, thunks)


def check_one_precision(module: Module) -> None:
    """Refuse what no kernel can be written for; a pass sees to it, unless it was left out."""
    for i in module.instructions():
        if uniform(i) is not None:
            hint = f"let the pass {MixedPrecisionRemoval.name} run"
            raise unsupported(i, "mixes floats of different precision", hint)


def parameters_of(module: Module, places: Places) -> list[Parameter]:
    """The leaves of the entry's parameters, in order."""
    allocations: dict[tuple[Any, ...], int] = {
        (a.parameter_number, a.shape_index): a.index for a in places.of_kind("parameter")
    }
    found = []
    parameters = [i for i in module.entry.instructions if i.opcode == "parameter"]
    for p in sorted(parameters, key=lambda i: i.attrs.number):
        for index, leaf in p.shape.subshapes():
            if leaf.is_array:
                at = allocations.get((p.attrs.number, index))
                found.append(Parameter(p.attrs.number, index, leaf, at))
    return found


def results_of(module: Module, places: Places) -> list[Result]:
    """The leaves of the entry's result, in order."""
    root = module.entry.root
    found = []
    for index, leaf in root.shape.subshapes():
        if leaf.is_array:
            found.append(Result(index, leaf, places.slice(root, index)))
        elif leaf.is_token:
            found.append(Result(index, leaf, None))
    return found
