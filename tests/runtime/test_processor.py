"""Programs for other processors are refused by the names of what is missing, everywhere."""

import ctypes
import logging
from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.machine import Machine
from hloom.ir.copy import copy_module
from hloom.program.program import Processor
from hloom.program.saved import program_from_bytes, program_to_bytes
from hloom.runtime.cache import ProgramCache
from hloom.runtime.executor import Executor
from hloom.runtime.library import library
from hloom.runtime.loaded_program import LoadedProgram
from hloom.runtime.native import Pool
from hloom.runtime.processor_identity import missing_features
from hloom.targets.cpu.options import cpu_target
from hloom.targets.cpu.target import CpuTarget

TEXT = """HloModule m
ENTRY e {
  p = f16[64] parameter(0)
  ROOT r = f16[64] add(p, p)
}
"""
HERE = Machine.host()


def compiled_for(machine):
    return CpuTarget(machine).compile(copy_module(hloom.parse(TEXT))).program


def test_nothing_is_missing_here():
    program = hloom.compile(hloom.parse(TEXT)).program
    here = Processor(HERE.triple, HERE.cpu, HERE.required, HERE.data_layout)
    assert program.processor == here
    assert missing_features(program.processor) == ""
    assert program_from_bytes(program_to_bytes(program)).processor == program.processor


def foreign_machines():
    """Machines of this architecture with something that this one lacks."""
    if not HERE.is_x86:
        return [Machine.of("x86_64-unknown-linux-gnu", "x86-64-v3")]
    found = []
    for cpu in ("sapphirerapids", "graniterapids"):
        machine = Machine.of(HERE.triple, cpu)
        if missing_features(Processor(machine.triple, cpu, machine.required)):
            found.append(machine)
    if not HERE.has("sse4a"):
        found.append(Machine.of(HERE.triple, "x86-64", "+sse4a"))
    return [*found, Machine.of("aarch64-unknown-linux-gnu", "generic")]


@pytest.mark.parametrize("machine", foreign_machines(), ids=lambda m: m.cpu)
def test_a_program_for_more_than_there_is_is_refused_by_name(machine):
    program = compiled_for(machine)
    lacking = [
        f for f in machine.required if missing_features(Processor(machine.triple, "", (f,)))
    ] or ["architecture"]
    assert lacking
    for each in (program, program_from_bytes(program_to_bytes(program))):
        with pytest.raises(HloError, match="was compiled for processors with") as told:
            Executor(each, 1)
        assert told.value.rule == "processor"
        assert lacking[0] in told.value.message


def test_features_of_another_time_are_refused():
    processor = Processor(HERE.triple, "", (*HERE.required, "of-the-future"))
    assert missing_features(processor) == "of-the-future (not known here)"
    program = replace(hloom.compile(hloom.parse(TEXT)).program, processor=processor)
    with pytest.raises(HloError, match="of-the-future"):
        Executor(program, 1)


def test_what_is_only_quick_is_not_missing():
    preferences = ("prefer-256-bit", "fast-gather", "slow-3ops-lea", "tune-cpu", "false-deps-mulc")
    assert missing_features(Processor(HERE.triple, "", (*HERE.required, *preferences))) == ""


def test_another_architecture_names_both():
    other = "aarch64" if HERE.is_x86 else "x86_64"
    missing = missing_features(Processor(f"{other}-unknown-linux-gnu", "", ()))
    assert missing == f"architecture {other} (this is {HERE.architecture})"


def test_another_architecture_in_the_loader():
    """The same words from the native loader, which C programs and the plugin ask."""
    other = "aarch64" if HERE.is_x86 else "x86_64"
    foreign = Processor(f"{other}-unknown-linux-gnu", "", ())
    program = replace(hloom.compile(hloom.parse(TEXT)).program, processor=foreign)
    mismatch = f"Target arch mismatch expected {other} got {HERE.architecture}: .* SIGILL"
    with pytest.raises(HloError, match=mismatch):
        LoadedProgram(program, Pool.shared(1))


def test_missing_features_are_a_warning_where_that_is_asked(monkeypatch, capfd):
    monkeypatch.setenv("HLOOM_MISSING_FEATURES", "warn")
    program = hloom.compile(hloom.parse(TEXT)).program
    lacking = Processor(HERE.triple, "", (*HERE.required, "of-the-future"))
    (ran,) = Executor(replace(program, processor=lacking), 1).run([np.ones(64, np.float16)])
    assert (np.asarray(ran) == 2).all()
    told = capfd.readouterr().err
    assert "of-the-future (not known here), which this one has not: it may end with SIGILL" in told
    other = "aarch64" if HERE.is_x86 else "x86_64"
    foreign = Processor(f"{other}-unknown-linux-gnu", "", ())
    mismatch = f"Target arch mismatch expected {other} got {HERE.architecture}: .* SIGILL"
    with pytest.raises(HloError, match=mismatch):
        Executor(replace(program, processor=foreign), 1)


def test_the_processor_is_asked_once():
    """Under a hypervisor each question takes microseconds, and every load of a program asks for
    all its features: 0.8 ms when each was asked for anew, 0.005 ms since."""
    features = ",".join(HERE.required * 10).encode()
    text = ctypes.create_string_buffer(64)
    architecture = Processor(HERE.triple, "", ()).architecture.encode()
    seconds = []
    for _ in range(20):
        begin = perf_counter()
        library().hl_missing_features(architecture, features, text, len(text))
        seconds.append(perf_counter() - begin)
    assert min(seconds) < 1e-3


def test_a_program_for_less_runs():
    capped = HERE.capped("SSE4_2") if HERE.is_x86 else Machine.of(HERE.triple)
    (found,) = Executor(compiled_for(capped), 1).run([np.ones(64, np.float16)])
    assert (np.asarray(found) == 2).all()


def test_the_cache_takes_a_wrong_processor_for_a_miss(tmp_path, caplog):
    cache, parts = ProgramCache(tmp_path), {"program": "p"}
    program = cpu_target(hloom.Options()).compile(copy_module(hloom.parse(TEXT))).program
    assert program.processor is not None
    wrong = program.processor._replace(features=("avx512fp16", "of-the-future"))
    cache.put(parts, replace(program, processor=wrong))
    with caplog.at_level(logging.INFO, "hloom"):
        assert cache.get(parts) is None
    assert "of-the-future" in caplog.text
    assert cache.info().entries == 0
    cache.put(parts, program)
    assert (found := cache.get(parts)) is not None and found.processor == program.processor


def test_targets_say_what_they_are_for():
    target = cpu_target(hloom.Options())
    program = target.compile(copy_module(hloom.parse(TEXT))).program
    assert program.processor is not None
    assert program.processor.architecture == HERE.architecture
