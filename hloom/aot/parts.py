"""The objects of a C library, and the file that they become.

Each function is an object; what they share are others: routines in C and C++, tables, weights, the
choice between versions, threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from hloom.aot.archive import ArchiveMember, archive
from hloom.aot.buckets import CBuckets
from hloom.aot.entries import CEntry, LibraryPlan
from hloom.aot.link import MATRICES, ORDERS, TRANSFORMS, toolchain
from hloom.aot.local_symbols import localised
from hloom.aot.tensors import table_source
from hloom.aot.weights import WeightsFile
from hloom.api import (
    HloError,
    LibraryCode,
    Processor,
    fft_plans_object,
    versions_object,
    weights_object,
)

Part = tuple[Path, list[str]]
"""An object, and what it defines for others."""


def library_bytes(
    plan: LibraryPlan,
    entries: Sequence[CEntry],
    any_size: CBuckets | None,
    mapped: WeightsFile | None,
    kind: str,
    file: str,
    folder: Path,
) -> tuple[bytes, dict[str, int]]:
    """The bytes of the library, and of each object that it is made of, by name."""
    processor = entries[0].code.processor
    parts = [p for e in entries for p in _of_entry(plan, e, folder)]
    codes = [c for e in entries for _, c in e.codes]
    if any_size is not None:
        symbols = [any_size.name, f"{any_size.name}_on"][: 2 if plan.pool == "caller" else 1]
        data = any_size.object(plan.pool == "caller")
        parts.append(_written(folder, f"{any_size.name}_buckets", data, *symbols))
    parts += _routines(plan.name, codes, folder)
    parts += _of_weights(plan, mapped, processor, folder)
    parts += _of_pool(plan, processor, folder)
    sizes = {o.stem: o.stat().st_size for o, _ in parts}
    if kind == "archive":
        mark = "_" if processor.system == "macos" else ""
        members = [
            ArchiveMember(o.name, o.read_bytes(), [f"{mark}{s}" for s in symbols])
            for o, symbols in parts
        ]
        return archive(members), sizes
    if kind == "object" and len(parts) == 1:
        return parts[0][0].read_bytes(), sizes
    (folder / "whole").mkdir()
    out = folder / "whole" / file  # not over a part that is called so, too
    tools = toolchain(processor, f"linking {file}")
    if kind == "object":
        tools.joined_object([o for o, _ in parts], out)
    else:
        tools.shared_library([o for o, _ in parts], out, plan.pool == "own")
    return out.read_bytes(), sizes


def _written(folder: Path, stem: str, data: bytes, *symbols: str) -> Part:
    path = folder / f"{stem}.o"
    path.write_bytes(data)
    return path, list(symbols)


def _of_entry(plan: LibraryPlan, entry: CEntry, folder: Path) -> list[Part]:
    """The code for each processor, and the function that chooses."""
    forms = ("", "_on") if plan.pool == "caller" else ("",)
    parts = [
        _written(folder, symbol, code.object, *[f"{symbol}{f}" for f in forms])
        for symbol, code in entry.codes
    ]
    if len(entry.codes) > 1:
        data = versions_object(entry.name, entry.versions, plan.pool == "caller")
        stem = f"{entry.name}_versions"
        parts.append(_written(folder, stem, data, *[f"{entry.name}{f}" for f in forms]))
    return parts


def _of_weights(
    plan: LibraryPlan, mapped: WeightsFile | None, processor: Processor, folder: Path
) -> list[Part]:
    """The constants that functions share, or what maps them."""
    name = plan.name
    maps = processor.system in ("linux", "macos")
    parts: list[Part] = []
    if plan.tensors.items:
        words = ["weights_at", "set_weights", "weights_problem"]
        words += ["load_weights", "unload_weights"] if maps else []
        table = table_source(list(plan.tensors.items.values()))
        path = toolchain(processor, "weights by name").tensors_object(name, folder, table, maps)
        parts.append((path, [f"{name}_{w}" for w in words]))
    if mapped is None:
        if plan.weights.items:
            data = weights_object(name, plan.weights, processor)
            parts.append(_written(folder, f"{name}_constants", data, f"{name}_weights"))
        return parts
    about = (len(mapped.data), mapped.begin, mapped.sum)
    words = ["weights_at", "set_weights", *(["load_weights", "unload_weights"] if maps else [])]
    tools = toolchain(processor, "mapping weights")
    return [(tools.weights_object(name, folder, about, maps), [f"{name}_{w}" for w in words])]


def _of_pool(plan: LibraryPlan, processor: Processor, folder: Path) -> list[Part]:
    """The library's own threads."""
    if plan.pool != "own":
        return []
    if processor.system not in ("linux", "macos"):
        raise HloError(
            f"a library of {processor.triple} has no threads of its own",
            rule="library-threads",
            hint="--pool takes those of the caller",
        )
    path = toolchain(processor, "threads").pool_object(plan.name, folder, plan.threads)
    return [(path, [f"{plan.name}_own_pool"])]


def _routines(name: str, codes: Sequence[LibraryCode], folder: Path) -> list[Part]:
    """What the functions call, compiled once."""
    parts: list[Part] = []
    least = min(codes, key=lambda c: len(c.processor.features)).processor
    if callers := _all(c.orders for c in codes):
        tools = toolchain(least, _callers(callers))
        path = tools.orders_object(name, folder, _callers(callers))
        parts.append((path, [f"{name}_{r}" for r in ORDERS]))
    if callers := _all(c.matrices for c in codes):
        tools = toolchain(least, _callers(callers))
        calls = sorted({t for c in codes for t in c.matrix_calls[0]})
        types = sorted({t for c in codes for t in c.matrix_calls[1]})
        path = tools.matrices_object(name, folder, (calls, types), _callers(callers))
        parts.append(_own(path, [f"{name}_{r}" for r in MATRICES]))
    if callers := _all(c.transforms for c in codes):
        tools = toolchain(least, _callers(callers))
        path = tools.transforms_object(name, folder, _callers(callers))
        parts.append(_own(path, [f"{name}_{r}" for r in TRANSFORMS]))
        lengths = {key for c in codes for key in c.transform_lengths}
        data = fft_plans_object(name, lengths, least)
        parts.append(_written(folder, f"{name}_plans", data, f"{name}_fft_plans"))
    return parts


def _own(path: Path, symbols: list[str]) -> Part:
    """An object of C++ routines, of which others see these symbols only."""
    path.write_bytes(localised(path.read_bytes(), symbols))
    return path, symbols


def _all(names: Iterable[Sequence[str]]) -> list[str]:
    """Each once, in order."""
    return list(dict.fromkeys([n for each in names for n in each]))


def _callers(steps: Sequence[str]) -> str:
    return f"the routines that {', '.join([f'%{t}' for t in steps])} call"
