"""Compiling what JAX hands over, and what is known about a program then."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import zip_longest

from hloom import __version__
from hloom.api import (
    Executable,
    HloError,
    LaunchSpec,
    Machine,
    Module,
    Patience,
    Reply,
    ShardSpec,
    compile_module,
    file_bytes,
    fingerprint_of_meetings,
    is_strict,
    load_bytes,
    module_of_bytes,
)
from hloom.plugin.donation import donated_parameters
from hloom.plugin.dumping import AFTER, BEFORE, Dumps
from hloom.plugin.handlers import have_handlers
from hloom.plugin.inspection import tell_shardings
from hloom.plugin.memories import in_memories, memory_kinds, refuse_tiles
from hloom.plugin.options import CompileRequest, request_of
from hloom.plugin.partitioned import partition, with_parameter_shardings
from hloom.plugin.sharded import propagated
from hloom.plugin.topology import ForeignExecutable, compiled_for, machine_of
from hloom.plugin.transformations import transformed
from hloom.plugin.wire import bytes_field, fields, number_field

LOG = logging.getLogger("hloom")
HOST_PROGRAM_SHAPE = 4
"""A field of HloModuleProto."""


@dataclass(frozen=True)
class Compiled:
    """A program that JAX holds."""

    executable: Executable | ForeignExecutable
    launch_spec: LaunchSpec
    options: bytes
    module: Callable[[], Module]
    """What it was compiled from."""


def compiled(code: bytes, form: str, options: bytes, topology: bytes = b"") -> Compiled:
    """A program in one of PJRT's formats, compiled as the serialized options say.

    `topology` is a saved one: it says for which machine.
    """
    request = request_of(options)
    fingerprint = sha256(b"\0".join((__version__.encode(), code, options))).hexdigest()
    machine = machine_of(topology)
    kinds = memory_kinds(code) if form == "mlir" else ((), ())
    arguments: tuple[ShardSpec, ...] = ()
    results: tuple[ShardSpec, ...] = ()
    if request.partitions == 1 or not request.is_partitioned:
        module = read_program(code, form)
        module.replica_count, module.num_partitions = request.replicas, request.partitions
    else:
        module = read_program(propagated(code) if form == "mlir" else code, form)
        tell_shardings(module)
        strict = is_strict(request.options)
        module, arguments, results = partition(module, request.partitions, is_strict=strict)
    refuse_tiles(module)
    executable = _executable(module, request, machine)
    meets = request.partitions > 1 or executable.program.meets_others
    if meets:
        fingerprint += f":{fingerprint_of_meetings(executable.program):x}"
    launch_spec = LaunchSpec(
        fingerprint,
        donated_parameters(module),
        request.replicas,
        request.partitions,
        request.devices,
        request.is_portable,
        _in_memories(arguments, kinds[0]),
        _in_memories(results, kinds[1]),
        Patience.of(request.options) if meets else None,
    )
    return Compiled(executable, launch_spec, options, lambda: module)


def _in_memories(
    shard_specs: tuple[ShardSpec, ...], kinds: tuple[int, ...]
) -> tuple[ShardSpec, ...]:
    """Where arrays stand, and in which kinds of memory."""
    return tuple(
        [replace(s or ShardSpec(), memory_kind=k or 0) for s, k in zip_longest(shard_specs, kinds)]
    )


def _executable(
    module: Module, request: CompileRequest, machine: Machine | None
) -> Executable | ForeignExecutable:
    """A module compiled for a machine, None being this one."""
    if machine is not None:
        return compiled_for(module, machine, request.options)
    module = transformed(module)
    have_handlers(module)
    dumps = Dumps(request.options, module.name)
    dumps.write(BEFORE, module)
    executable = compile_module(module, None, request.options, warn=LOG.warning)
    if dumps.is_on:
        dumps.write(AFTER, executable.stages.scheduled)
    return executable


def read_program(code: bytes, form: str) -> Module:
    """The module of bytes in a format of PJRT: `mlir`, `hlo` or `hlo_with_config`."""
    if form == "mlir":
        return module_of_bytes(code)
    if form in ("hlo", "hlo_with_config"):
        return load_bytes(code).module
    raise HloError(
        f"programs in the format {form!r} cannot be read",
        rule="program-format",
        hint="mlir (StableHLO), hlo and hlo_with_config can",
    )


# -- answers to questions


def _tell_program(program: Compiled, reply: Reply) -> None:
    module = in_memories(program.executable.stages.scheduled, program.launch_spec)
    module = with_parameter_shardings(module)
    reply.bytes(with_config(file_bytes(module, "proto"), program.launch_spec))


def with_config(module: bytes, launch_spec: LaunchSpec) -> bytes:
    """A HloModuleProtoWithConfig: the module, and of its config what XLA asks for."""
    shape = next(value for number, value in fields(module) if number == HOST_PROGRAM_SHAPE)
    assert isinstance(shape, bytes)
    config = (
        bytes_field(1, shape)  # the layout of the entry
        + number_field(4, launch_spec.replicas)
        + number_field(5, launch_spec.partitions)
    )
    return bytes_field(1, module) + bytes_field(2, config)


def _tell_cost(program: Compiled, reply: Reply) -> None:
    cost = program.executable.cost
    reply.number("flops", cost.flops)
    reply.number("transcendentals", cost.transcendentals)
    reply.number("bytes accessed", cost.bytes)


def _tell_saved(program: Compiled, reply: Reply) -> None:
    from hloom.plugin.saved import saved

    reply.bytes(saved(program))


def _tell_options(program: Compiled, reply: Reply) -> None:
    reply.bytes(program.options)


def _tell_steps(program: Compiled, reply: Reply) -> None:
    """Addresses of kernels, for profiles, by the names of the instructions that run them."""
    if isinstance(program.executable, ForeignExecutable):
        return  # it cannot run here
    for address, names in program.executable._executor.kernels().items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        reply.number(names[0] + more, address)


ANSWERS: dict[str, Callable[[Compiled, Reply], None]] = {
    "program": _tell_program,
    "cost": _tell_cost,
    "saved": _tell_saved,
    "options": _tell_options,
    "steps": _tell_steps,
}
