"""Programs that faults are planted under: how each is compiled, and what is wrong with a result.

They run on one device or on several, are partitioned on the way, or become C libraries. Those that
come first are chosen: together they meet every pass that runs, kind of fusions, family of kernels
and rule of lowering that any program here meets.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import hloom
from hloom.base.diagnostics import HloError
from hloom.base.faults import Fault
from hloom.base.options import Options
from hloom.compiler import compile_module
from hloom.executable import Executable
from hloom.interp import evaluate_lockstep
from hloom.interp.sample import random_arguments
from hloom.ir.module import Module
from hloom.ir.text import parse_module, show_module
from hloom.ir.text.options import PrintOptions
from hloom.ir.values.sharding_data import join_array
from hloom.ir.verify import verify
from hloom.passes.partition.whole_program import partitioned, split_arguments
from hloom.types.literal import Literal
from tests.fuzz import partition_sketch_calls, partition_sketch_ops  # noqa: F401  kinds of steps
from tests.fuzz.check_native import (
    NotJudged,
    Trial,
    arguments_of,
    coarsest_of,
    different,
    judged,
    leaves,
    literal_leaves,
)
from tests.fuzz.partition_sketch import Sketch
from tests.fuzz.planted_own import LARGE, OWN, large, partitioned_singles
from tests.fuzz.programs import programs as texts
from tests.fuzz.run_devices import _equal, arrays, text_of
from tests.fuzz.run_native import drawn, is_tried
from tests.random_arguments import is_replicated

MOST_INSTRUCTIONS = 150
"""Of a program that is compiled so often."""
MOST_ELEMENTS = 1 << 16
STRICT = Options().with_(strict_compilation=True, allow_excess_precision=False)
LENIENT = Options().with_(strict_compilation=False, allow_excess_precision=False)
KINDS = ("one device", "devices", "partitioned", "library")
EACH = 2
"""Chosen programs that meet one thing."""


@dataclass(frozen=True)
class Program:
    """A program, how it is tried, and what it computes."""

    kind: str
    name: str
    module: Module
    trial: Trial
    given: list[Any]
    wanted: list[Any]
    met: frozenset[str] = frozenset()
    """Passes that change it, families of its kernels, opcodes that are lowered: faults in others
    do not show."""

    def compiled(self, options: Options) -> Any:
        """What can be run. Raises what compilation raises."""
        if self.kind == "library":
            return _Library(self.module, options)
        exe = compile_module(self.module, self.trial.threads, options, cached=False)
        if self.kind != "partitioned":
            return exe
        # As callers do it, who split their arguments.
        strict = options["strict_compilation"]
        return _Partitioned(exe, partitioned(self.module, None if strict else list[Fault]()))

    def wrong(self, runnable: Any) -> str:
        """What is wrong with what a compiled program computes; '' if nothing is."""
        try:
            if self.kind == "devices":
                return self._wrong_on_devices(runnable)
            results = runnable.results(self) if self.kind != "one device" else None
            if results is None:
                results = [np.array(x.numpy()) for x in leaves(runnable(*self.given))]
        except Exception as error:
            return f"not run: {type(error).__name__}: {str(error)[:300]}"
        coarsest = coarsest_of(self.module)
        for k, (got, want) in enumerate(zip(results, self.wanted, strict=True)):
            if what := different(got, want, self.trial, coarsest):
                return f"result {k}: {what}"
        return ""

    def _wrong_on_devices(self, exe: Executable) -> str:
        for device, (x, y) in enumerate(zip(exe.run_devices(self.given), self.wanted, strict=True)):
            expected = [leaf.array for leaf in y.leaves() if leaf.shape.is_array]
            for k, (a, b) in enumerate(zip(arrays(x), expected, strict=True)):
                if a.shape != b.shape or not _equal(a, b):
                    return f"result {k} of device {device} differs"
        return ""


class _Partitioned(NamedTuple):
    """A program for several partitions, and what each of them runs."""

    exe: Executable
    cut: Module

    def results(self, program: Program) -> list[np.ndarray]:
        parts = split_arguments(self.cut, program.given)
        given = [[x.array for a in each for x in literal_leaves(a)] for each in parts]
        each = [arrays(r) for r in self.exe.run_devices(given)]
        of = self.cut.spmd_output_sharding
        shardings = [of.for_leaf(k) for k in range(len(program.wanted))]
        return [
            join_array([r[k] for r in each], s, w.shape.dims)
            for k, (s, w) in enumerate(zip(shardings, program.wanted, strict=True))
        ]


class _Library:
    """A program as a C library of this process."""

    def __init__(self, module: Module, options: Options) -> None:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name, "libmodel.so")
        text = show_module(module, PrintOptions(large_constants=True))
        chosen = {name: options[name] for name in options.given}
        header = path.with_suffix(".h")
        hloom.export_c(text, path, header, name="model", options=chosen)
        self.function = hloom.load_library(path, header)

    def results(self, program: Program) -> list[np.ndarray]:
        return [np.asarray(x) for x in self.function(*program.given).values()]


# -- how they come to be


def program_of(name: str, module: Module, trial: Trial, kind: str = "one device") -> Program | None:
    """A program whose results are known; None where nobody can say them."""
    if len(list(module.instructions())) > MOST_INSTRUCTIONS:
        return None
    leaves_of = (x for i in module.instructions() for x in i.shape.leaves())
    if any(x.is_array and x.size > MOST_ELEMENTS for x in leaves_of) and module.name not in LARGE:
        return None
    try:
        verify(module)
        program = _judged(name, module, trial, kind)
        runnable = program.compiled(STRICT)
    except (HloError, NotJudged, NotImplementedError, ValueError):
        return None
    made = replace(program, met=_met(runnable, module))
    return None if made.wrong(runnable) else made


def _judged(name: str, module: Module, trial: Trial, kind: str) -> Program:
    """The program with what it computes by the interpreter."""
    with np.errstate(all="ignore"):
        if kind == "devices":
            devices = range(module.replica_count * module.num_partitions)
            given = [random_arguments(module, 100 * trial.seed + d) for d in devices]
            for k, p in enumerate(module.entry.parameters):
                for each in given if is_replicated(p) else ():
                    each[k] = given[0][k]
            if module.name in LARGE:  # sums in another order
                given = [[_whole(x) for x in each] for each in given]
            return Program(kind, name, module, trial, given, evaluate_lockstep(module, given))
        arguments = arguments_of(module, trial)
        wanted = judged(module, arguments)
    given = arguments
    if kind != "partitioned":
        given = [leaf.array for a in arguments for leaf in literal_leaves(a)]
    return Program(kind, name, module, trial, given, wanted)


def _whole(x: Literal) -> Literal:
    """The same numbers, rounded to whole ones."""
    return Literal.of(np.rint(x.array), x.shape) if x.shape.dtype.is_floating else x


def _met(runnable: Any, module: Module) -> frozenset[str]:
    exe = runnable.exe if isinstance(runnable, _Partitioned) else runnable
    met = {f"rule {i.opcode}" for i in module.instructions()}
    if isinstance(runnable, _Partitioned):
        met |= {"pass sharding-propagation", "pass spmd-partitioner"}
    if isinstance(runnable, _Library):
        exe = compile_module(module, 1, STRICT, cached=False)
        met.add("library")
    met |= {f"pass {r.name}" for r in exe.pass_records if r.changed}
    met |= {f"kernel {c.name}" for c in exe.stages.lowering.families.values()}
    met |= {f"lowering {i.opcode}" for i in exe.stages.module.instructions()}
    return frozenset(met)


def _of_text(name: str, text: str) -> Program | None:
    """A program of the tests, by how it is written; those of our own may be large."""
    module = parse_module(text)
    count = module.replica_count * module.num_partitions
    if count > 16:
        return None
    return program_of(name, module, Trial(), "one device" if count == 1 else "devices")


def chosen() -> Iterator[Program]:
    """Programs of the tests, each of which meets something that few before it meet."""
    seen = Counter[str]()
    for number, text in enumerate((*OWN, *large(), *texts())):
        with suppress(HloError, RecursionError, MemoryError):
            program = _of_text(f"text {number}", text)
            if program is not None and any(seen[m] < EACH for m in program.met):
                seen.update(program.met)
                yield program
    for opcode, module in partitioned_singles():
        name, lacking = f"partitioned {opcode}", seen[f"rule {opcode}, cut"] < EACH
        with suppress(HloError, RecursionError, MemoryError):
            program = program_of(name, module, Trial(), "partitioned") if lacking else None
            if program is not None:
                seen[f"rule {opcode}, cut"] += 1
                yield program


def drawn_programs() -> Iterator[Program]:
    """Random ones, of all kinds in turn, without end."""
    trial = Trial()
    for number in count(2):
        with suppress(HloError):
            kind = KINDS[(0, 1, 0, 2, 0, 1, 0, 2, 3)[number % 9]]
            if kind == "devices":
                module = parse_module(text_of(number))
                program = program_of(f"devices {number}", module, Trial(seed=number), kind)
            elif kind == "partitioned":
                module = Sketch(number).module()
                program = program_of(f"partitioned {number}", module, trial, kind)
            else:
                module, how = drawn(number)
                if not is_tried(module):
                    continue
                how = replace(how, disabled="", watched=False)
                program = program_of(f"drawn {number}", module, how, kind)
            if program is not None:
                yield program


def programs(least: int) -> Iterator[Program]:
    """So many, and all that are chosen."""
    number = 0
    for program in chosen():
        number += 1
        yield program
    for program in drawn_programs():
        if number >= least:
            return
        number += 1
        yield program
