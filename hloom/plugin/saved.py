"""Compiled programs as bytes, for JAX's compilation cache and for `serialize`.

The frame and the native side's part are hloom/runtime/pjrt_saved.py's; here are the facts (JSON)
that JAX is told, and the lengths of the regions. Nothing is compiled when one is loaded, and the
module is read when somebody looks at it.
"""

from __future__ import annotations

import json
from functools import partial
from itertools import accumulate, pairwise
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
    executable_sections,
    file_bytes,
    load_bytes,
    program_from_bytes,
    sealed_executable,
)
from hloom.plugin.compiling import Compiled
from hloom.plugin.handlers import have_handlers_for
from hloom.plugin.options import CompileRequest, request_of


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
    return sealed_executable(
        compiled.executable._executor,
        deployment,
        json.dumps(facts).encode(),
        compiled.options,
        file_bytes(compiled.module(), "proto"),
        regions,
    )


def loaded(data: bytes | memoryview, options: bytes) -> Compiled:
    """The program in these bytes; `options`, where given, say anew where it runs."""
    sections = executable_sections(data)
    options = options or bytes(sections.options)
    request = request_of(options)
    deployment, cuts = _read_facts(bytes(sections.facts), request, len(sections.regions))
    program = program_from_bytes(sections.program)
    have_handlers_for({site.target for site in program.call_sites})

    def module() -> Module:
        return load_bytes(bytes(sections.module)).module

    target = partial(cpu_target, request.options)
    executable = Executable(LaterStages(program, module, target), target=target)
    regions = [loaded(sections.regions[begin:end], b"") for begin, end in pairwise(cuts)]
    return Compiled(executable, deployment, options, module, tuple(regions))


def _read_facts(data: bytes, request: CompileRequest, size: int) -> tuple[Deployment, list[int]]:
    """Where it runs, and where its regions begin and end in a section of `size` bytes."""
    try:
        facts = json.loads(data)
        version = facts["hloom"]
        deployment = Deployment(
            str(facts["fingerprint"]),
            frozenset(facts["donated"]),
            request.replicas,
            int(facts["partitions"]),
            request.devices,
            request.is_portable,
            tuple(map(_spread_of, facts["arguments"])),
            tuple(map(_spread_of, facts["results"])),
        )
        cuts = [0, *accumulate(map(int, facts["regions"]))]
        if cuts[-1] != size or cuts != sorted(cuts):
            raise ValueError(f"{cuts[-1]} bytes of regions are spoken of, {size} are there")
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise HloError(
            f"a saved executable is malformed: {type(error).__name__}: {error}",
            rule="saved-executable",
        ) from None
    if version != __version__:
        raise HloError(
            f"a saved executable is of hloom {version}, this is {__version__}",
            rule="saved-executable",
            hint="compile it again",
        )
    return deployment, cuts


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
