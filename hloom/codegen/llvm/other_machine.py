"""Machines that a user names, which need not be this one: checked names, code in another process.

LLVM says on standard error that it knows no such processor or feature, and goes on without; what
it cannot translate ends the process. So names are tried in a process of their own, which tells
what LLVM said, and code for other architectures is made in one.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import lru_cache

from hloom.base.diagnostics import HloError, UsageError, did_you_mean
from hloom.codegen.llvm.machine import Machine, object_bytes, parsed_features
from hloom.codegen.llvm.triple import SYSTEMS, unknown_system
from hloom.codegen.llvm.worker import ANSWER, DONE, HELLO, REQUEST
from hloom.program.program import Processor

ARCHITECTURES = (
    *("x86_64", "amd64", "aarch64", "arm64", "riscv64", "wasm32", "powerpc64le", "loongarch64"),
    *("riscv32", "arm", "armv7", "armv7a", "armv8", "thumbv6m", "thumbv7m", "thumbv7em"),
    *("thumbv8m.base", "thumbv8m.main", "thumbv8.1m.main"),
)
"""First words of triples that code is made for: processors that keep the lowest byte first."""
LONGEST_S = 600
"""For one program; LLVM takes seconds."""
_UNKNOWN = re.compile(r"'([^']*)' is not a recognized (feature|processor)")
_BASELINES = {"riscv64": "+m,+a,+f,+d,+c", "wasm32": "+simd128,+bulk-memory,+nontrapping-fptoint"}
"""What everybody means who names no processor; LLVM's own choice has no floating point there, or no
vectors."""

_HARD_FLOAT = {
    "arm": "+v6,+vfp2",
    "thumbv7em": "+vfp4d16sp",
    "thumbv8m.main": "+fp-armv8d16sp",
    "thumbv8.1m.main": "+fp-armv8d16sp",
}
"""The same of triples whose numbers are handed over in registers for floats (`eabihf`,
`gnueabihf`): the least that has such registers, as compilers for C take it."""


@lru_cache(maxsize=64)
def other_machine(triple: str, cpu: str = "", features: str = "") -> Machine:
    """A machine by its names; an empty triple is this system's. `UsageError` for names that LLVM
    does not know."""
    triple = triple or Machine.host().triple
    architecture = triple.split("-")[0]
    if architecture not in ARCHITECTURES or not re.fullmatch(r"[\w.-]+", triple):
        raise UsageError(
            f"{triple!r} is no machine that code can be made for",
            rule="target-triple",
            hint=did_you_mean(architecture, ARCHITECTURES)
            or f"it begins with one of {', '.join(ARCHITECTURES)}: aarch64-linux-gnu",
        )
    if word := unknown_system(triple):
        raise UsageError(
            f"no system {word!r} is known, of {triple!r}",
            rule="target-triple",
            hint=did_you_mean(word, SYSTEMS) or f"one of {', '.join(SYSTEMS)}",
        )
    parsed_features(features)
    if not cpu and not features:
        features = _BASELINES.get(architecture, "")
        if triple.endswith("hf"):
            features = _HARD_FLOAT.get(architecture, features)
    code = "import sys; from hloom.codegen.llvm.other_machine import tell; tell(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, triple, cpu, features],
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
    )
    for name, kind in _UNKNOWN.findall(done.stderr):
        raise UsageError(
            f"LLVM knows no {kind} {name.lstrip('+-')!r} of {architecture}",
            rule="target-cpu" if kind == "processor" else "target-features",
            hint="names as LLVM has them: --target_cpu=neoverse-n1, --target_features=+avx2,+fma",
        )
    if done.returncode != 0:
        raise UsageError(
            f"no code can be made for {triple!r}: {_last_line(done.stderr)}",
            rule="target-triple",
            hint="such as aarch64-linux-gnu, x86_64-pc-windows-msvc, wasm32-unknown-unknown",
        )
    return Machine.of(triple, cpu, features)


def machine_of(processor: Processor) -> Machine:
    """The machine that code was made for: objects that are linked agree on how to call."""
    features = ",".join([f"+{f}" for f in processor.features])
    return Machine.of(processor.triple, processor.cpu, features)


def tell(triple: str, cpu: str, features: str) -> None:
    """In a process of its own: try a machine."""
    try:
        machine = Machine.of(triple, cpu, features)
    except HloError as error:
        sys.exit(error.message)
    print(json.dumps(machine.as_dict()))


def object_for(text: str, machine: Machine, opt_level: int) -> bytes:
    """The object of a module of LLVM text, for whatever machine."""
    if machine.architecture == Machine.host().architecture:
        return object_bytes(text, machine, opt_level)
    settings = json.dumps({**machine.as_dict(), "opt_level": opt_level}).encode()
    request = text.encode()
    done = subprocess.run(
        [sys.executable, "-m", "hloom.codegen.llvm.worker"],
        input=REQUEST.pack(len(settings), len(request)) + settings + request,
        capture_output=True,
        timeout=LONGEST_S,
    )
    answer = done.stdout[len(HELLO) :]
    if done.returncode != 0 or len(answer) < ANSWER.size:
        said = _last_line(done.stderr.decode(errors="replace"))
        raise HloError(f"LLVM fails to make code for {machine.triple}: {said}", rule="llvm")
    status, size = ANSWER.unpack_from(answer)
    content = answer[ANSWER.size : ANSWER.size + size]
    if status != DONE:
        raise HloError(content.decode(), rule="llvm")
    return content


def _last_line(text: str) -> str:
    """What a process said last; LLVM's own reason where it gave one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reasons = [line for line in lines if line.startswith("LLVM ERROR")]
    return (reasons or lines or ["no reason was given"])[-1]
