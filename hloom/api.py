"""The names that users of hloom import; everything else is where it is built.

    module = hloom.load("step.hlo")
    hloom.verify(module)
    result = hloom.evaluate(module, *arguments)

Each name is imported from its home when it is first asked for (PEP 562): importing takes time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hloom.analysis.cost import module_cost
    from hloom.analysis.statistics import Statistics, module_statistics
    from hloom.analysis.trip_count import trip_count
    from hloom.base.diagnostics import (
        EvalError,
        HloError,
        ParseError,
        UsageError,
        VerifyError,
        did_you_mean,
    )
    from hloom.base.faults import Fault, is_fault
    from hloom.base.options import OPTIONS, Options
    from hloom.codegen.llvm.c_buckets import Bucket, BucketArray, buckets_object
    from hloom.codegen.llvm.c_versions import Version, versions_object
    from hloom.codegen.llvm.c_weights import weights_bytes, weights_object
    from hloom.codegen.llvm.machine import Machine
    from hloom.compiler import compile_module, compile_saved, load_compiled, why_cached
    from hloom.device.costs import Costs
    from hloom.device.device import Device
    from hloom.device.known import device_named, known_names
    from hloom.device.mesh import mesh_named
    from hloom.device.text import table_of as device_table
    from hloom.device.topology import topology_named
    from hloom.executable import Executable
    from hloom.frontends.files import file_bytes, load_bytes, load_file, save
    from hloom.frontends.formats import FORMATS
    from hloom.frontends.source import Source
    from hloom.frontends.stablehlo.files import module_of
    from hloom.frontends.stablehlo.read import module_of_bytes
    from hloom.interp.context import EvalOptions
    from hloom.interp.lockstep import evaluate_lockstep
    from hloom.interp.machine import evaluate
    from hloom.interp.partial import evaluate_partially
    from hloom.interp.sample import random_arguments
    from hloom.ir.builder import Builder
    from hloom.ir.computation import Computation
    from hloom.ir.copy import copy_computation, copy_module, difference
    from hloom.ir.fusion import permute_fusion_operands, permute_parameters
    from hloom.ir.instruction import Instruction
    from hloom.ir.module import Module
    from hloom.ir.named_devices import check_devices, run_alone
    from hloom.ir.proto.files import Loaded, load_text, write_whole, written_whole
    from hloom.ir.proto.sharding import sharding_bytes, sharding_of_bytes
    from hloom.ir.proto.snapshot import Snapshot
    from hloom.ir.text.digest import fingerprint
    from hloom.ir.text.options import PRESETS, PrintOptions
    from hloom.ir.values.aliasing import AliasEntry, InputOutputAlias
    from hloom.ir.verify import VerifyOptions, verify, violations
    from hloom.passes import PASSES, FixedPoint, Pass, PassResult, pass_named
    from hloom.passes.partition.row_independence import why_rows_depend
    from hloom.passes.pipeline import PassRecord, Pipeline, PipelineOptions
    from hloom.plan.usage import MemoryUse
    from hloom.program.c_interface import CArray, CInterface, LibraryCode
    from hloom.program.c_weights import LibraryRequest, Weights
    from hloom.program.program import Processor
    from hloom.rewrite.driver import Trace
    from hloom.runtime.buffer import Buffer, in_layout
    from hloom.runtime.cache import ProgramCache, program_cache
    from hloom.runtime.communicator.patience import Patience
    from hloom.runtime.communicator.processes import Processes, launcher
    from hloom.runtime.ffi import Call as HandlerCall
    from hloom.runtime.ffi import HandlerError, is_handled, register_capsule
    from hloom.runtime.ffi import register as register_handler
    from hloom.runtime.installation import native_library
    from hloom.runtime.launch_spec import MEMORY_KINDS, LaunchSpec, ShardSpec
    from hloom.runtime.pjrt import (
        PJRT_QUESTIONS,
        ForeignExecutor,
        Reply,
        clear_pjrt_compiler,
        library_path,
        set_pjrt_compiler,
        set_pjrt_versions,
    )
    from hloom.runtime.processors import granted_threads
    from hloom.runtime.program_files import is_program_file
    from hloom.runtime.saved_executable import executable_from_bytes, executable_to_bytes
    from hloom.targets.cpu.device import host_device
    from hloom.targets.cpu.explain import Explained, explained
    from hloom.targets.cpu.library_tables import fft_plans_object
    from hloom.targets.cpu.options import (
        COMPILE_OPTIONS,
        TARGET_OPTIONS,
        cpu_target,
        is_strict,
        options_without_effect,
    )
    from hloom.targets.partition_cost import (
        PartitionCost,
        Proposal,
        costs_of_meshes,
        proposed_shardings,
    )
    from hloom.targets.roofline import Roofline
    from hloom.targets.sim.simulate import Timeline
    from hloom.targets.stages import LaterStages
    from hloom.types.literal import Literal
    from hloom.types.mesh import MeshAxes
    from hloom.types.shape import Shape, tuple_shape
    from hloom.types.sizes import size_bytes

# Where each public name lives.
_HOME = {
    "AliasEntry": "ir.values.aliasing",
    "Bucket": "codegen.llvm.c_buckets",
    "BucketArray": "codegen.llvm.c_buckets",
    "Buffer": "runtime.buffer",
    "Builder": "ir.builder",
    "CArray": "program.c_interface",
    "CInterface": "program.c_interface",
    "COMPILE_OPTIONS": "targets.cpu.options",
    "Computation": "ir.computation",
    "Costs": "device.costs",
    "Device": "device.device",
    "EvalError": "base.diagnostics",
    "EvalOptions": "interp.context",
    "Executable": "executable",
    "Explained": "targets.cpu.explain",
    "FORMATS": "frontends.formats",
    "FixedPoint": "passes.pipeline",
    "ForeignExecutor": "runtime.pjrt",
    "HandlerCall": "runtime.ffi",
    "HandlerError": "runtime.ffi",
    "HloError": "base.diagnostics",
    "InputOutputAlias": "ir.values.aliasing",
    "Instruction": "ir.instruction",
    "LaterStages": "targets.stages",
    "LaunchSpec": "runtime.launch_spec",
    "LibraryCode": "program.c_interface",
    "LibraryRequest": "program.c_weights",
    "Literal": "types.literal",
    "Loaded": "ir.proto.files",
    "MEMORY_KINDS": "runtime.launch_spec",
    "Machine": "codegen.llvm.machine",
    "MemoryUse": "plan.usage",
    "MeshAxes": "types.mesh",
    "Module": "ir.module",
    "OPTIONS": "base.options",
    "Options": "base.options",
    "PASSES": "passes",
    "PJRT_QUESTIONS": "runtime.pjrt",
    "PRESETS": "ir.text.options",
    "ParseError": "base.diagnostics",
    "PartitionCost": "targets.partition_cost",
    "Pass": "passes.pass_",
    "PassRecord": "passes.pipeline",
    "PassResult": "passes.pass_",
    "Patience": "runtime.communicator.patience",
    "Processes": "runtime.communicator.processes",
    "launcher": "runtime.communicator.processes",
    "Pipeline": "passes.pipeline",
    "PipelineOptions": "passes.pipeline",
    "PrintOptions": "ir.text.options",
    "MANUAL": "ir.values.sharding",
    "REPLICATED": "ir.values.sharding",
    "Sharding": "ir.values.sharding",
    "Processor": "program.program",
    "ProgramCache": "runtime.cache",
    "Proposal": "passes.partition.propose",
    "Reply": "runtime.pjrt",
    "Roofline": "targets.roofline",
    "Shape": "types.shape",
    "ShardSpec": "runtime.launch_spec",
    "Snapshot": "ir.proto.snapshot",
    "Statistics": "analysis.statistics",
    "TARGET_OPTIONS": "targets.cpu.options",
    "Timeline": "targets.sim.simulate",
    "Trace": "rewrite.driver",
    "UsageError": "base.diagnostics",
    "VerifyError": "base.diagnostics",
    "VerifyOptions": "ir.verify",
    "Version": "codegen.llvm.c_versions",
    "Weights": "program.c_weights",
    "buckets_object": "codegen.llvm.c_buckets",
    "check_devices": "ir.named_devices",
    "clear_pjrt_compiler": "runtime.pjrt",
    "compile_module": "compiler",
    "compile_saved": "compiler",
    "copy_computation": "ir.copy",
    "copy_module": "ir.copy",
    "costs_of_meshes": "targets.partition_cost",
    "cpu_target": "targets.cpu.options",
    "device_named": "device.known",
    "device_table": "device.text",
    "did_you_mean": "base.diagnostics",
    "difference": "ir.copy",
    "evaluate": "interp.machine",
    "evaluate_lockstep": "interp.lockstep",
    "evaluate_partially": "interp.partial",
    "executable_from_bytes": "runtime.saved_executable",
    "executable_to_bytes": "runtime.saved_executable",
    "explained": "targets.cpu.explain",
    "fft_plans_object": "targets.cpu.library_tables",
    "file_bytes": "frontends.files",
    "fingerprint": "ir.text.digest",
    "granted_threads": "runtime.processors",
    "host_device": "targets.cpu.device",
    "in_layout": "runtime.buffer",
    "is_handled": "runtime.ffi",
    "is_partitionable": "passes.partition.spmd_partitioner",
    "is_program_file": "runtime.program_files",
    "known_names": "device.known",
    "library_path": "runtime.pjrt",
    "load_bytes": "frontends.files",
    "load_compiled": "compiler",
    "load_file": "frontends.files",
    "load_text": "ir.proto.files",
    "mesh_named": "device.mesh",
    "module_cost": "analysis.cost",
    "module_of": "frontends.stablehlo.files",
    "module_of_bytes": "frontends.stablehlo.read",
    "module_statistics": "analysis.statistics",
    "native_library": "runtime.installation",
    "Fault": "base.faults",
    "is_fault": "base.faults",
    "is_strict": "targets.cpu.options",
    "options_without_effect": "targets.cpu.options",
    "partition_cost": "targets.partition_cost",
    "partition_in_place": "passes.partition.whole_program",
    "partitioned": "passes.partition.whole_program",
    "pass_named": "passes",
    "permute_fusion_operands": "ir.fusion",
    "permute_parameters": "ir.fusion",
    "program_cache": "runtime.cache",
    "proposed_shardings": "targets.partition_cost",
    "random_arguments": "interp.sample",
    "register_capsule": "runtime.ffi",
    "register_handler": "runtime.ffi",
    "run_alone": "ir.named_devices",
    "save": "frontends.files",
    "set_pjrt_compiler": "runtime.pjrt",
    "set_pjrt_versions": "runtime.pjrt",
    "sharding_bytes": "ir.proto.sharding",
    "sharding_of_bytes": "ir.proto.sharding",
    "size_bytes": "types.sizes",
    "split_arguments": "passes.partition.whole_program",
    "topology_named": "device.topology",
    "trip_count": "analysis.trip_count",
    "tuple_shape": "types.shape",
    "verify": "ir.verify",
    "versions_object": "codegen.llvm.c_versions",
    "violations": "ir.verify",
    "weights_bytes": "codegen.llvm.c_weights",
    "weights_object": "codegen.llvm.c_weights",
    "why_rows_depend": "passes.partition.row_independence",
    "why_cached": "compiler",
    "write_whole": "ir.proto.files",
    "written_whole": "ir.proto.files",
}


# What is called otherwise where it lives.
_AT_HOME = {"HandlerCall": "Call", "device_table": "table_of", "register_handler": "register"}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'hloom.api' has no attribute {name!r}")
    value = getattr(import_module(f"hloom.{home}"), _AT_HOME.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load(path: str | Path) -> Module:
    """The module in a file: HLO text, a proto, a snapshot or StableHLO, by content and name.

    `load_file` returns the arguments of a snapshot too. Raises `HloError` with a place.
    """
    from hloom.frontends.files import load_file

    return load_file(path).module


def parse(text: str, file: str | None = None) -> Module:
    """The module that HLO or StableHLO text describes; raises `ParseError` with a place."""
    from hloom.frontends.stablehlo.recognise import is_text_of_mlir
    from hloom.ir.text.parse import parse_module

    if is_text_of_mlir(text):
        from hloom.frontends.files import load_stablehlo

        return load_stablehlo(text.encode(), file).module
    return parse_module(text, file)


def show(module: Module, preset: str = "default", **switches: Any) -> str:
    """The module as HLO text, in one of the presets, with some switches set otherwise."""
    from dataclasses import replace

    from hloom.base.diagnostics import UsageError, did_you_mean
    from hloom.ir.text.options import PRESETS
    from hloom.ir.text.show import show_module

    if preset not in PRESETS:
        raise UsageError(f"no print preset {preset!r}", hint=did_you_mean(preset, PRESETS))
    return show_module(module, replace(PRESETS[preset](), **switches))


def compile(
    program: Any,
    target: str = "cpu",
    threads: int | None = None,
    options: Options | Mapping[str, Any] | Iterable[str] | None = None,
    *,
    progress: Callable[[str], None] | None = None,
) -> Executable:
    """Native code for a program: a module, the path of a file, HLO or StableHLO text, a module
    of jaxlib's MLIR bindings, or what `jax.jit(f).lower(...)` gives.

    `threads`: how many the program may use; 1 starts none, None is what the system grants.
    `options`: those of `OPTIONS`, by name, as `--name=value` words, or an `Options`; one that
    nothing acts on is warned of. `progress` is told each stage. The program is not changed.
    Raises `HloError` for what is not well formed or cannot run here.
    """
    from hloom.compiler import compile_source
    from hloom.targets.target import target_kind

    kind, chosen = target_kind(target), _options(options)
    for name in kind.unread(chosen):
        warnings.warn(
            f"option {name} does nothing when compiling for a {target.upper()}", stacklevel=2
        )
    return compile_source(_source(program), threads, chosen, target=target, progress=progress)


def library_code(
    program: Any,
    asked: LibraryRequest,
    options: Options | Mapping[str, Any] | Iterable[str] | None = None,
    target: str = "cpu",
) -> tuple[Module, LibraryCode]:
    """What `compile` takes, as a module, and as the code of a C library (`hloom.aot.export_c`)."""
    from hloom.compiler import compile_library

    module = _source(program).module
    return module, compile_library(module, asked, _options(options), target=target)


def _options(options: Options | Mapping[str, Any] | Iterable[str] | None) -> Options:
    from hloom.base.options import Options

    if isinstance(options, Options):
        return options
    if options is None:
        return Options()
    if isinstance(options, Mapping):
        return Options(options)
    return Options.parsed([options] if isinstance(options, str) else options)


def _source(program: Any) -> Source:
    from hloom.base.diagnostics import UsageError
    from hloom.frontends.source import Source
    from hloom.frontends.stablehlo.recognise import is_file_of_mlir, is_text_of_mlir

    if isinstance(program, str) and ("\n" in program or "{" in program):
        if is_text_of_mlir(program):
            return Source(lambda: parse(program), program.encode(), "stablehlo")
        return Source.of_text(program)
    if isinstance(program, str | Path) and is_file_of_mlir(program):
        return Source(lambda: load(program))
    if isinstance(program, str | Path):
        return Source.of_file(Path(program))
    # Whoever has one of these has imported their homes.
    from hloom.ir.module import Module
    from hloom.ir.proto.files import Loaded

    if isinstance(program, Module):
        return Source.of_module(program)
    if isinstance(program, Loaded):
        return Source.of_module(program.module)
    from hloom.frontends.stablehlo.files import module_of

    if (module := module_of(program)) is not None:
        return Source.of_module(module)
    raise UsageError(
        f"a {type(program).__name__} is no program",
        rule="program",
        hint="give a module, the path of a file, text, or what jax.jit(f).lower(...) gives",
    )


__all__ = [
    "COMPILE_OPTIONS",
    "FORMATS",
    "MEMORY_KINDS",
    "OPTIONS",
    "PASSES",
    "PJRT_QUESTIONS",
    "PRESETS",
    "TARGET_OPTIONS",
    "AliasEntry",
    "Bucket",
    "BucketArray",
    "Buffer",
    "Builder",
    "CArray",
    "CInterface",
    "Computation",
    "Costs",
    "Device",
    "EvalError",
    "EvalOptions",
    "Executable",
    "Explained",
    "Fault",
    "FixedPoint",
    "ForeignExecutor",
    "HandlerCall",
    "HandlerError",
    "HloError",
    "InputOutputAlias",
    "Instruction",
    "LaterStages",
    "LaunchSpec",
    "LibraryCode",
    "LibraryRequest",
    "Literal",
    "Loaded",
    "Machine",
    "MemoryUse",
    "MeshAxes",
    "Module",
    "Options",
    "ParseError",
    "PartitionCost",
    "Pass",
    "PassRecord",
    "PassResult",
    "Patience",
    "Pipeline",
    "PipelineOptions",
    "PrintOptions",
    "Processes",
    "Processor",
    "ProgramCache",
    "Proposal",
    "Reply",
    "Roofline",
    "Shape",
    "ShardSpec",
    "Snapshot",
    "Statistics",
    "Timeline",
    "Trace",
    "UsageError",
    "VerifyError",
    "VerifyOptions",
    "Version",
    "Weights",
    "buckets_object",
    "check_devices",
    "clear_pjrt_compiler",
    "compile",
    "compile_module",
    "compile_saved",
    "copy_computation",
    "copy_module",
    "costs_of_meshes",
    "cpu_target",
    "device_named",
    "device_table",
    "did_you_mean",
    "difference",
    "evaluate",
    "evaluate_lockstep",
    "evaluate_partially",
    "executable_from_bytes",
    "executable_to_bytes",
    "explained",
    "fft_plans_object",
    "file_bytes",
    "fingerprint",
    "granted_threads",
    "host_device",
    "in_layout",
    "is_fault",
    "is_handled",
    "is_program_file",
    "is_strict",
    "known_names",
    "launcher",
    "library_code",
    "library_path",
    "load",
    "load_bytes",
    "load_compiled",
    "load_file",
    "load_text",
    "mesh_named",
    "module_cost",
    "module_of",
    "module_of_bytes",
    "module_statistics",
    "native_library",
    "options_without_effect",
    "parse",
    "pass_named",
    "permute_fusion_operands",
    "permute_parameters",
    "program_cache",
    "proposed_shardings",
    "random_arguments",
    "register_capsule",
    "register_handler",
    "run_alone",
    "save",
    "set_pjrt_compiler",
    "set_pjrt_versions",
    "sharding_bytes",
    "sharding_of_bytes",
    "show",
    "size_bytes",
    "topology_named",
    "trip_count",
    "tuple_shape",
    "verify",
    "versions_object",
    "violations",
    "weights_bytes",
    "weights_object",
    "why_cached",
    "why_rows_depend",
    "write_whole",
    "written_whole",
]
