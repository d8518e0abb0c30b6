"""Compiled programs as bytes, for JAX's compilation cache and for `serialize`.

    magic, lengths of the six parts
    facts     JSON: what JAX was told about it
    options   JAX's compile options, as they were given
    program   the saved program: machine code, memory, constants (hloom/program/saved.py)
    module    the HLO it was compiled from, for those who ask for text or cost
    regions   code of one device that it calls: its facts have their lengths; each is as the whole
    native    what the native side needs to run it where there is no Python (native_part)

Nothing is compiled when one is loaded, and the module is read when somebody looks at it.
"""

from __future__ import annotations

import json
import struct
from functools import partial
from typing import Any

from hloom import __version__
from hloom.api import (
    Deployment,
    Executable,
    HloError,
    LaterStages,
    Module,
    Spread,
    cpu_target,
    file_bytes,
    load_bytes,
    native_part,
    program_from_bytes,
    program_to_bytes,
)
from hloom.plugin.compiling import Compiled
from hloom.plugin.handlers import have_handlers_for
from hloom.plugin.options import request_of

MAGIC = b"hloomjax"
_HEAD = struct.Struct("<8s6Q")


def saved(compiled: Compiled) -> bytes:
    """The bytes of a program."""
    deployment = compiled.deployment
    regions = [saved(r) for r in compiled.regions]
    facts = {
        "hloom": __version__,
        "partitions": deployment.partitions,
        "regions": [len(r) for r in regions],
        "fingerprint": deployment.fingerprint,
        "donated": sorted(deployment.donated),
        "arguments": [_spread_facts(s) for s in deployment.arguments],
        "results": [_spread_facts(s) for s in deployment.results],
    }
    executable, program = compiled.executable, compiled.executable.program
    program_bytes = program_to_bytes(program, {"name": program.name})
    features = executable.target.machine.enabled
    sizes = [len(r) for r in regions]
    parts = (
        json.dumps(facts).encode(),
        compiled.options,
        program_bytes,
        file_bytes(compiled.module(), "proto"),
        b"".join(regions),
        native_part(executable._executor, deployment, program_bytes, features, sizes),
    )
    return b"".join([_HEAD.pack(MAGIC, *map(len, parts)), *parts])


def loaded(data: bytes, options: bytes) -> Compiled:
    """The program in these bytes; `options`, where given, say anew where it runs."""
    facts_text, own_options, program_bytes, module_bytes, region_bytes, _ = _parts(data)
    facts = json.loads(facts_text)
    if facts.get("hloom") != __version__:
        raise HloError(
            f"a saved executable is of hloom {facts.get('hloom')}, this is {__version__}",
            rule="saved-executable",
            hint="compile it again",
        )
    options = options or own_options
    request = request_of(options)
    program = program_from_bytes(program_bytes)
    have_handlers_for({site.target for site in program.call_sites})

    def module() -> Module:
        return load_bytes(module_bytes).module

    deployment = Deployment(
        facts["fingerprint"],
        frozenset(facts["donated"]),
        request.replicas,
        facts["partitions"],
        request.devices,
        request.is_portable,
        tuple(map(_spread_of, facts["arguments"])),
        tuple(map(_spread_of, facts["results"])),
    )
    target = partial(cpu_target, request.options)
    executable = Executable(LaterStages(program, module, target), target=target)
    regions, at = [], 0
    for size in facts["regions"]:
        regions.append(loaded(region_bytes[at : at + size], b""))
        at += size
    return Compiled(executable, deployment, options, module, tuple(regions))


def _spread_facts(spread: Spread) -> list[object]:
    return [
        spread.dims,
        spread.offsets,
        spread.sharding.hex(),
        spread.whole,
        spread.memory_kind,
    ]


def _spread_of(facts: list[Any]) -> Spread:
    dims, offsets, sharding, whole, kind = facts
    where = tuple(map(tuple, offsets))
    return Spread(tuple(dims), where, bytes.fromhex(sharding), tuple(whole), kind)


def _parts(data: bytes) -> list[bytes]:
    """The six parts; `HloError` where the bytes are no saved executable."""
    if len(data) < _HEAD.size or data[: len(MAGIC)] != MAGIC:
        raise HloError("these bytes are no saved executable", rule="saved-executable")
    _, *sizes = _HEAD.unpack_from(data)
    if _HEAD.size + sum(sizes) != len(data):
        raise HloError(
            f"a saved executable of {_HEAD.size + sum(sizes)} bytes has {len(data)}",
            rule="saved-executable",
            hint="the file was cut off",
        )
    parts, at = [], _HEAD.size
    for size in sizes:
        parts.append(data[at : at + size])
        at += size
    return parts
