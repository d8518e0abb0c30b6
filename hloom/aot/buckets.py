"""A library for several sizes: `buckets={"batch": (1, 8, 32)}`, one program for each.

The function that callers see takes any size up to the largest.

Which dimensions of which arrays are of a size is seen by comparing the programs. A call of another
size is padded to the next one where that is proved not to change the rows that are asked for
(`hloom.api.why_rows_depend`); else it is refused, and the header says why.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from hloom.aot.entries import CEntry, merged
from hloom.aot.names import c_name
from hloom.api import (
    Bucket,
    BucketArray,
    CArray,
    CInterface,
    HloError,
    Module,
    Processor,
    Shape,
    UsageError,
    as_module,
    buckets_object,
    why_rows_depend,
)

MOST_BUCKETS = 256
NAMES_TAKEN = frozenset(("inputs", "outputs", "workspace", "pool", "a", "status"))

Sizes = tuple[int, ...]
Of = tuple[int | None, ...]
"""For each dimension of an array which size it is a multiple of, by number; None: it is fixed."""


@dataclass(frozen=True)
class CBuckets:
    """The function of a library that takes any size up to the largest."""

    name: str
    sizes: Mapping[str, Sizes]
    """By name, as they were asked for, in order."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    input_sizes: tuple[Of, ...]
    output_sizes: tuple[Of, ...]
    buckets: tuple[Bucket, ...]
    """The smallest first."""
    largest: CInterface
    """What callers must give for the largest; alignments, and what may be in place, for all."""
    why_exact: str
    """Why only sizes of the list are taken; "" where others are padded."""
    processor: Processor

    @property
    def workspace_bytes(self) -> int:
        """What a call of any size works in."""
        if self.why_exact:
            return max([b.workspace_bytes for b in self.buckets])
        return max([b.places()[1] for b in self.buckets])

    def object(self, has_pool: bool) -> bytes:
        """The object that defines it."""
        return buckets_object(self.name, self.buckets, not self.why_exact, has_pool, self.processor)


def sizes_of_words(words: Sequence[str]) -> dict[str, Sizes]:
    """The sizes in words such as `batch=1,8,32`."""
    sizes: dict[str, Sizes] = {}
    for word in words:
        name, _, numbers = word.partition("=")
        try:
            if not name.strip():
                raise ValueError("sizes of nothing")
            sizes[name.strip()] = tuple([int(n) for n in numbers.split(",")])
        except ValueError:
            raise UsageError(
                f"no sizes in {word!r}", rule="library-buckets", hint="--buckets batch=1,8,32"
            ) from None
    return sizes


def bucket_shapes(shapes: str, sizes: Mapping[str, Sizes]) -> list[str]:
    """Shapes with names in them, such as `f32[batch,3]`, for each combination of sizes."""
    chosen = [dict(zip(sizes, c)) for c in itertools.product(*sizes.values())]
    if missing := [n for n in sizes if not re.search(rf"\[[^]]*\b{re.escape(n)}\b", shapes)]:
        raise UsageError(
            f"one program for several sizes needs shapes that name {missing[0]}",
            rule="library-buckets",
            hint=f"--shapes 'f32[{missing[0]},3]' with StableHLO that leaves sizes open, or a file "
            "for each size",
        )
    names = re.compile(r"\b[A-Za-z_]\w*(?=[^\[]*\])")
    return [names.sub(lambda m, c=c: str(c.get(m[0], m[0])), shapes) for c in chosen]


def checked_sizes(buckets: Mapping[str, Sequence[int]]) -> dict[str, Sizes]:
    """The sizes of each name, each once; `UsageError` where they are none."""
    checked: dict[str, Sizes] = {}
    for name, sizes in buckets.items():
        if c_name(name) != name or name in NAMES_TAKEN:
            raise UsageError(f"buckets cannot be called {name!r}", rule="library-buckets")
        if len(set(sizes)) < 2 or any(s < 1 for s in sizes):
            raise UsageError(
                f"buckets of {name} are two sizes or more, from 1 on; these are "
                f"{', '.join(map(str, sizes))}",
                rule="library-buckets",
            )
        checked[name] = tuple(dict.fromkeys(sizes))
    if not checked:
        raise UsageError("buckets need a name and sizes: batch=1,8,32", rule="library-buckets")
    if (count := prod([len(s) for s in checked.values()])) > MOST_BUCKETS:
        raise UsageError(
            f"{count} buckets are too many; up to {MOST_BUCKETS}", rule="library-buckets"
        )
    return checked


def bucket_programs(program: Any, name: str, buckets: Mapping[str, Sizes]) -> list[tuple[str, Any]]:
    """The name of the function for each combination of sizes, and its program: what a function of
    the sizes returns, or one of a list, in order."""
    chosen = list(itertools.product(*buckets.values()))
    keys = ["_".join([f"{n}{s}" for n, s in zip(buckets, sizes)]) for sizes in chosen]
    if name in buckets:
        raise UsageError(
            f"a library's function and its buckets are both called {name}",
            rule="library-buckets",
            hint="--name model, name='model'",
        )
    if isinstance(program, list | tuple):
        programs = list(program)
        if len(programs) != len(chosen):
            raise UsageError(
                f"{len(programs)} programs for {len(chosen)} buckets: {', '.join(keys)}",
                rule="library-buckets",
            )
    elif callable(program):
        make: Callable[..., Any] = program
        programs = [make(**dict(zip(buckets, sizes))) for sizes in chosen]
    else:
        raise UsageError(
            "buckets take a function that gives the program for its sizes, or a list of programs",
            rule="library-buckets",
            hint="lambda batch: hloom.torch.lower(model, torch.zeros(batch, 3))",
        )
    return [(f"{name}_{k}", p) for k, p in zip(keys, programs)]


def library_buckets(
    name: str,
    entries: Sequence[CEntry],
    sizes: Mapping[str, Sizes],
    program: Any = None,
) -> CBuckets:
    """What is common to the functions of all buckets; `UsageError` where they do not belong
    together. `program`, if it can be called, gives programs for other sizes to compare with."""
    chosen = list(itertools.product(*sizes.values()))
    first = entries[0]
    for e in entries[1:]:
        if (e.inputs, e.outputs) != (first.inputs, first.outputs):
            raise UsageError(
                f"{first.name} and {e.name} take and give arrays of other names or numbers",
                rule="library-buckets",
                hint="argument names and result names make them alike",
            )
    columns = [
        _sizes_of(
            e_name, [getattr(e.interface, what)[k].shape for e in entries], chosen, list(sizes)
        )
        for what in ("inputs", "outputs")
        for k, e_name in enumerate(getattr(first, what))
    ]
    of_inputs = tuple(columns[: len(first.inputs)])
    of_outputs = tuple(columns[len(first.inputs) :])
    for number, n in enumerate(sizes):
        if not any(number in of for of in columns):
            raise UsageError(
                f"no array of {name} has a size of {n}: the programs are alike",
                rule="library-buckets",
            )
    why = _why_exact(entries, chosen, list(sizes), of_inputs, of_outputs, program)
    buckets = [
        Bucket(
            e.name,
            s,
            tuple([_array(a, o) for a, o in zip(e.interface.inputs, of_inputs)]),
            tuple([_array(a, o) for a, o in zip(e.interface.outputs, of_outputs)]),
            e.interface.workspace_bytes,
        )
        for e, s in zip(entries, chosen)
    ]
    buckets.sort(key=lambda b: prod(b.sizes))
    return CBuckets(
        name,
        sizes,
        first.inputs,
        first.outputs,
        of_inputs,
        of_outputs,
        tuple(buckets),
        merged([e.interface for _, e in sorted(zip(chosen, entries), key=_largest_first)]),
        why,
        first.code.processor,
    )


def _largest_first(pair: tuple[Sizes, CEntry]) -> int:
    return -prod(pair[0])


def _sizes_of(
    name: str, shapes: Sequence[Shape], chosen: Sequence[Sizes], names: Sequence[str]
) -> Of:
    """For each dimension of an array which size it is a multiple of."""
    first = shapes[0]
    if any((s.dtype, s.rank, s.layout) != (first.dtype, first.rank, first.layout) for s in shapes):
        raise UsageError(
            f"{name} is {', '.join([s.text for s in shapes])}: of one type and rank it must be",
            rule="library-buckets",
        )
    of: list[int | None] = []
    for d in range(first.rank):
        counts = [s.dims[d] for s in shapes]
        if len(set(counts)) == 1:
            of.append(None)
            continue
        fitting = [
            k
            for k in range(len(names))
            if all(n * chosen[0][k] == counts[0] * c[k] for n, c in zip(counts, chosen))
        ]
        if not fitting or counts[0] % chosen[0][fitting[0]]:
            raise UsageError(
                f"dimension {d} of {name} is {', '.join(map(str, counts))}, no multiple of "
                f"{' or '.join(names)}",
                rule="library-buckets",
            )
        of.append(fitting[0])
    return tuple(of)


def _why_exact(
    entries: Sequence[CEntry],
    chosen: Sequence[Sizes],
    names: Sequence[str],
    inputs: Sequence[Of],
    outputs: Sequence[Of],
    program: Any,
) -> str:
    """Why a call may not be padded; "" where it may."""
    for name, a, of in zip(
        (*entries[0].inputs, *entries[0].outputs),
        (*entries[0].interface.inputs, *entries[0].interface.outputs),
        (*inputs, *outputs),
    ):
        if any(of.count(k) > 1 for k in of if k is not None):
            return f"{name} has a size in two dimensions"
        if a.shape.dtype.bits % 8 and any(k is not None for k in of):
            return f"elements of {name} are parts of bytes"
    modules = [e.module for e in entries]
    for number, name in enumerate(names):
        # Each program beside that for the next size of this name, all others alike.
        for few, a in zip(modules, chosen):
            later = [
                (c[number], m)
                for c, m in zip(chosen, modules)
                if c[number] > a[number]
                and c[:number] + c[number + 1 :] == a[:number] + a[number + 1 :]
            ]
            if not later:
                continue
            rows, many = min(later, key=lambda pair: pair[0])
            numbers = entries[0].input_numbers, range(len(outputs))
            cuts = [
                {k: of.index(number) for k, of in zip(places, side) if number in of}
                for places, side in zip(numbers, (inputs, outputs))
            ]
            reason = _reason(few, many, rows, cuts[0], cuts[1])
            if reason and a[number] == 1:
                # Nothing is padded to one row, whose program may lack broadcasts that others have.
                own = {**dict(zip(names, a)), name: rows}
                other = _of_other_size(modules, chosen, own, name, program)
                reason = _reason(other, many, rows, cuts[0], cuts[1]) if other else reason
            if reason:
                return f"{reason} ({name})"
    return ""


def _of_other_size(
    modules: Sequence[Module],
    chosen: Sequence[Sizes],
    own: Mapping[str, int],
    name: str,
    program: Any,
) -> Module | None:
    """A program for the same sizes but that of one name, of which it has neither 1 nor the same:
    that of another bucket, or one for this alone."""
    for sizes, module in zip(chosen, modules):
        other = dict(zip(own, sizes))
        if other[name] not in (1, own[name]) and {**other, name: own[name]} == own:
            return module
    if not callable(program):
        return None
    try:
        return as_module(program(**{**own, name: own[name] + 1}))
    except HloError:
        return None


def _reason(
    few: Module, many: Module, rows: int, inputs: Mapping[int, int], outputs: Mapping[int, int]
) -> str:
    leaves = [s for p in many.entry.parameters for s in p.shape.leaves()]
    for side, cuts in ((leaves, inputs), (list(many.entry.root.shape.leaves()), outputs)):
        if any(side[k].dims[d] != rows for k, d in cuts.items()):
            return "a dimension is a multiple of the size"
    return why_rows_depend(few, many, rows, inputs, outputs)


def _array(a: CArray, of: Of) -> BucketArray:
    """An array as it stands in memory."""
    layout = a.shape.layout
    order = list(range(a.shape.rank)) if layout is None else list(reversed(layout.minor_to_major))
    return BucketArray(
        tuple([a.shape.dims[d] for d in order]),
        tuple([of[d] for d in order]),
        max(a.shape.dtype.size_bytes, 1),
    )
