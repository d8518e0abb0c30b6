"""What a user is told, and may send in, where a program was compiled in spite of faults."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hloom.base.faults import Fault
from hloom.base.options import Options
from hloom.ir.module import Module
from hloom.ir.text.options import PrintOptions
from hloom.ir.text.show import show_module
from hloom.runtime.fault_reports import report_text, write_report
from hloom.targets.cpu.cache_key import other_parts

MOST_CONSTANT_BYTES = 64 << 20
"""Programs with more in their constants are written without the large ones."""

MOST_SHOWN = 3


def notice(module: Module, options: Options, faults: Sequence[Fault]) -> str:
    """The text of the warning, when the report is written."""
    summary = "; ".join(_gathered(faults))
    report = _report(module, options, faults)
    where = f" Please report it with {report} (it holds the program)." if report else ""
    return (
        f"hloom has a fault: {summary}. {module.name} was compiled without that: its results "
        f"are right, it may be slower.{where}"
    )


def _gathered(faults: Sequence[Fault]) -> list[str]:
    """A phrase for each culprit and error, with what was done instead, all places together."""
    alike: dict[tuple[str, str, str], list[Fault]] = {}
    for f in faults:
        alike.setdefault((f.culprit.kind, f.culprit.name, f.error), []).append(f)
    lines = []
    for (kind, name, error), same in list(alike.items())[:MOST_SHOWN]:
        more = f" and at {len(same) - 1} more" if len(same) > 1 else ""
        at = f" at {same[0].culprit.where}{more}" if same[0].culprit.where else ""
        remedies = list(dict.fromkeys(f.remedy for f in same))
        rest = f", and {len(remedies) - MOST_SHOWN} more" if len(remedies) > MOST_SHOWN else ""
        lines.append(f"{kind} {name}{at}: {error} ({', '.join(remedies[:MOST_SHOWN])}{rest})")
    if len(alike) > MOST_SHOWN:
        lines.append(f"and {len(alike) - MOST_SHOWN} more faults")
    return lines


def _report(module: Module, options: Options, faults: Sequence[Fault]) -> Path | None:
    constants = sum(i.shape.size_bytes for i in module.instructions() if i.opcode == "constant")
    printed = PrintOptions(large_constants=constants <= MOST_CONSTANT_BYTES)
    program = show_module(module, printed)
    text = report_text(program, other_parts(options), faults)
    return write_report(module.name, text, faults, program)
