# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""What JAX says about a compilation: devices, and options by name.

The options come as a serialized CompileOptionsProto, which jaxlib reads for us.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloom.api import Options
from hloom.plugin.wire import fields, varints
from hloom.plugin.xla_options import flag_words, option_words


@dataclass(frozen=True)
class CompileRequest:
    """The part of JAX's compile options that hloom acts on."""

    replicas: int
    partitions: int
    devices: tuple[int, ...]
    """Ids, replica by replica; none: those from 0 on, or any where `is_portable`."""
    is_portable: bool
    is_partitioned: bool
    """The program is one of whole arrays; else it is what each partition runs."""
    options: Options


def request_of(options: bytes) -> CompileRequest:
    """The request in serialized compile options; `HloError` for an option that there is not."""
    from jaxlib.xla_client import CompileOptions

    options_ = CompileOptions.ParseFromString(options) if options else CompileOptions()
    build = options_.executable_build_options
    assignment = build.device_assignment
    return CompileRequest(
        max(build.num_replicas, 1),
        max(build.num_partitions, 1),
        () if assignment is None else devices_of(assignment.serialize()),
        bool(options_.compile_portable_executable),
        bool(build.use_spmd_partitioning or build.use_shardy_partitioner),
        Options.parsed([*flag_words(), *option_words(options_.env_option_overrides)]),
    )


def devices_of(message: bytes) -> tuple[int, ...]:
    """Device ids of a serialized DeviceAssignmentProto, replica by replica.

    It holds a list for each partition: the devices of its replicas.
    """
    partitions: list[list[int]] = []
    for field, value in fields(message):
        if field == 3 and isinstance(value, bytes):
            ids: list[int] = []
            for inner, part in fields(value):
                if inner == 1:
                    ids.extend(varints(part) if isinstance(part, bytes) else [part])
            partitions.append(ids)
    return tuple([p[r] for r in range(len(partitions[0]) if partitions else 0) for p in partitions])
