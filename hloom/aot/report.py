"""`hloom compile --report`: what a C library is made of, and what its functions do."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hloom.aot.entries import CEntry
from hloom.aot.export import CLibrary


def library_report(library: CLibrary) -> dict[str, object]:
    """Bytes of the file and of what stands in it; of each function its memory and its steps. Times
    are estimates by the costs of the device, of one call on one thread; None: nobody knows."""
    return {
        "file": str(library.path),
        "bytes": library.path.stat().st_size,
        "objects": dict(library.parts),
        "weights_file_bytes": None if library.weights is None else library.weights.stat().st_size,
        "functions": [_function(e) for e in library.entries],
    }


def _function(entry: CEntry) -> dict[str, object]:
    interface, steps = entry.interface, entry.code.steps
    constants = [c.size_bytes for c in interface.constants]
    return {
        "function": entry.name,
        "processors": [f"{c.processor.triple} {c.processor.cpu}".strip() for _, c in entry.codes],
        "object_bytes": [len(c.object) for _, c in entry.codes],
        "constant_bytes": sum(constants),
        "workspace_bytes": interface.workspace_bytes,
        "input_bytes": sum([a.size_bytes for a in interface.inputs]),
        "output_bytes": sum([a.size_bytes for a in interface.outputs]),
        "copied_bytes": sum([c.size_bytes for c in interface.copies_out]),
        "estimate_ns": _known(sum([s.estimate_ns for s in steps if s.depth == 0])),
        "steps": [s._asdict() | {"estimate_ns": _known(s.estimate_ns)} for s in steps],
    }


def _known(ns: float) -> float | None:
    return round(ns, 1) if math.isfinite(ns) else None


def report_text(library: CLibrary) -> Iterator[str]:
    """The same as lines to read."""
    size = library.path.stat().st_size
    yield f"{library.path}: {size:,} bytes"
    for name, part in library.parts.items():
        yield f"  {part:>14,}  {name}.o"
    if library.weights is not None:
        yield f"  {library.weights.stat().st_size:>14,}  {library.weights}, mapped"
    for e in library.entries:
        about = _function(e)
        yield ""
        yield f"{e.name}: {_time(about['estimate_ns'])} by the device's costs, on one thread"
        for key in ("workspace", "constant", "input", "output", "copied"):
            yield f"  {about[f'{key}_bytes']:>14,}  bytes: {_BYTES[key]}"
        for s in e.code.steps:
            label = f"{'  ' * s.depth}{s.kind}"
            yield f"  {_time(_known(s.estimate_ns)):>14}  {label:<16} %{s.name}  {s.what}".rstrip()


_BYTES = {
    "workspace": "the workspace of a call",
    "constant": "constants",
    "input": "inputs",
    "output": "outputs",
    "copied": "results that are copied to their outputs at the end",
}


def _time(ns: object) -> str:
    return f"{ns / 1000:,.3f} us" if isinstance(ns, float) else "not known"
