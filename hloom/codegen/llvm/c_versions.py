"""A function of a C library for several processors: the best that the one at hand can run.

The same program is compiled for each; the function that callers see asks the processor at its first
call, from the one that needs most to the one that needs least, and keeps the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hloom.codegen.llvm.c_processor import LACKING, check_text
from hloom.codegen.llvm.compile import module_text
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.other_machine import object_for
from hloom.program.program import Processor

_LACKS = -1


class Version(NamedTuple):
    """The code for one kind of processor."""

    symbol: str
    processor: Processor


def versions_object(name: str, versions: Sequence[Version], has_pool: bool) -> bytes:
    """The function `name`, and `name_on` where it takes a pool, that calls one of the versions."""
    machine = Machine.of(versions[0].processor.triple, "x86-64", "")
    best = sorted(versions, key=lambda v: len(v.processor.features), reverse=True)
    checks = [check_text(v.processor.features, f"{name}_has{k}") for k, v in enumerate(best)]
    lines = [f"@{name}_version = internal global i32 0, align 4", *checks, _choice(name, len(best))]
    plain = "ptr %inputs, ptr %outputs, ptr %workspace"
    forms = [("", plain)] + ([("_on", f"ptr %pool, {plain}")] if has_pool else [])
    exported = "dllexport " if machine.system == "windows" else ""
    for suffix, parameters in forms:
        types = ", ".join(["ptr"] * parameters.count("ptr"))
        lines += [f"declare hidden i32 @{v.symbol}{suffix}({types})" for v in best]
        lines.append(_entry(exported, name, suffix, parameters, best))
    lines.append('attributes #99 = { "target-cpu"="x86-64" "target-features"="" }')
    return object_for(module_text(machine, ["\n".join(lines)], ()), machine, 2)


def _choice(name: str, count: int) -> str:
    """`i32 @name_choose()`: the number of the version from 1 on, or less than 0."""
    lines = [f"define internal i32 @{name}_choose() nounwind #99 {{", "start:"]
    for k in range(count):
        lines += [
            f"  %has{k} = call i32 @{name}_has{k}()",
            f"  %yes{k} = icmp eq i32 %has{k}, 1",
            f"  br i1 %yes{k}, label %take{k}, label %next{k}",
            f"take{k}:",
            f"  store atomic i32 {k + 1}, ptr @{name}_version monotonic, align 4",
            f"  ret i32 {k + 1}",
            f"next{k}:",
        ]
    store = f"  store atomic i32 {_LACKS}, ptr @{name}_version monotonic, align 4"
    return "\n".join([*lines, store, f"  ret i32 {_LACKS}", "}"])


def _entry(exported: str, name: str, suffix: str, parameters: str, best: Sequence[Version]) -> str:
    cases = " ".join([f"i32 {k + 1}, label %run{k}" for k in range(len(best))])
    lines = [
        f"define {exported}i32 @{name}{suffix}({parameters}) nounwind #99 {{",
        "start:",
        f"  %known = load atomic i32, ptr @{name}_version monotonic, align 4",
        "  %is.new = icmp eq i32 %known, 0",
        "  br i1 %is.new, label %ask, label %go",
        "ask:",
        f"  %chosen = call i32 @{name}_choose()",
        "  br label %go",
        "go:",
        "  %version = phi i32 [ %known, %start ], [ %chosen, %ask ]",
        f"  switch i32 %version, label %lacks [ {cases} ]",
    ]
    for k, v in enumerate(best):
        lines += [f"run{k}:", f"  %status{k} = call i32 @{v.symbol}{suffix}({parameters})"]
        lines.append(f"  ret i32 %status{k}")
    return "\n".join([*lines, "lacks:", f"  ret i32 {LACKING}", "}"])
