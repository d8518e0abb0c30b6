"""A function of a C library for any size up to the largest that it was compiled for.

The same program is compiled for some sizes; the function that callers see takes the smallest that
is enough. Where it is larger than what the call brings, arrays are padded with zeros in the
workspace, and the results' other rows are left there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from hloom.codegen.llvm.compile import module_text
from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.other_machine import machine_of, object_for
from hloom.program.program import Processor
from hloom.program.slice import ALIGNMENT

INVALID_ARGUMENT, NO_BUCKET = 3, 8
"""Statuses: a pointer is null; no bucket is for these sizes."""


@dataclass(frozen=True)
class BucketArray:
    """An input or an output of one bucket."""

    dims: tuple[int, ...]
    """As they stand in memory, the outermost first."""
    sizes: tuple[int | None, ...]
    """For each dimension which of the sizes of a call it is a multiple of, if any."""
    element_bytes: int

    @property
    def is_padded(self) -> bool:
        return any(s is not None for s in self.sizes)

    @property
    def size_bytes(self) -> int:
        return prod(self.dims) * self.element_bytes


@dataclass(frozen=True)
class Bucket:
    """The function for certain sizes."""

    symbol: str
    sizes: tuple[int, ...]
    inputs: tuple[BucketArray, ...]
    outputs: tuple[BucketArray, ...]
    workspace_bytes: int

    def places(self) -> tuple[list[int | None], int]:
        """Where the padded arrays, inputs first, stand in the workspace, and its size with them."""
        end = self.workspace_bytes
        places: list[int | None] = []
        for a in (*self.inputs, *self.outputs):
            if not a.is_padded:
                places.append(None)
                continue
            end = -(-end // ALIGNMENT) * ALIGNMENT
            places.append(end)
            end += a.size_bytes
        return places, end


def buckets_object(
    name: str, buckets: Sequence[Bucket], pads: bool, has_pool: bool, processor: Processor
) -> bytes:
    """The function `name(size, ..., inputs, outputs, workspace)`, and `name_on` where it takes a
    pool. Buckets come in the order in which they are asked; `pads`: whether rows may be added."""
    machine = machine_of(processor)
    if machine.is_x86:  # it runs before anybody has asked what the processor has
        machine = Machine.of(processor.triple, "x86-64", "")
    copies = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n"
    texts = [copies + "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)"]
    for suffix in ("", "_on") if has_pool else ("",):
        types = ", ".join(["ptr"] * (4 if suffix else 3))
        texts += [f"declare i32 @{b.symbol}{suffix}({types})" for b in buckets]
        texts.append(_Choice(name, buckets, pads, suffix, machine).text())
    return object_for(module_text(machine, ["\n".join(texts)], ()), machine, 2)


class _Choice:
    """The text of the function."""

    def __init__(
        self, name: str, buckets: Sequence[Bucket], pads: bool, suffix: str, machine: Machine
    ) -> None:
        self.name, self.buckets, self.pads, self.suffix = name, buckets, pads, suffix
        self.machine = machine
        self.lines: list[str] = []
        self.slots: list[str] = []
        """Memory on the stack, taken once."""
        self.count = 0
        self.pool = "ptr %pool, " if suffix else ""

    def text(self) -> str:
        sizes = [f"i64 %size{k}" for k in range(len(self.buckets[0].sizes))]
        exported = "dllexport " if self.machine.system == "windows" else ""
        arrays = f"{', '.join(sizes)}, {self.pool}ptr %inputs, ptr %outputs, ptr %workspace"
        head = f"define {exported}i32 @{self.name}{self.suffix}({arrays}) nounwind"
        if self.machine.architecture == "wasm32":
            head += f' "wasm-export-name"="{self.name}{self.suffix}"'
        self._branch(self._all("sge", [1] * len(sizes)), "bucket0", "none")
        for k, bucket in enumerate(self.buckets):
            self._bucket(k, bucket)
        self.lines += [f"bucket{len(self.buckets)}:", "  br label %none"]
        self.lines += ["none:", f"  ret i32 {NO_BUCKET}"]
        self.lines += ["refused:", f"  ret i32 {INVALID_ARGUMENT}", "}"]
        return "\n".join([head + " {", "start:", *self.slots, *self.lines])

    def _bucket(self, k: int, bucket: Bucket) -> None:
        self.lines.append(f"bucket{k}:")
        self._branch(self._all("eq", bucket.sizes), f"exact{k}", f"other{k}")
        self.lines.append(f"other{k}:")
        if self.pads:
            self._branch(self._all("sle", bucket.sizes), f"padded{k}", f"bucket{k + 1}")
        else:
            self.lines.append(f"  br label %bucket{k + 1}")
        self.lines.append(f"exact{k}:")
        status = self._value(self._call(bucket, "%inputs", "%outputs"))
        self.lines.append(f"  ret i32 {status}")
        if self.pads:
            self.lines.append(f"padded{k}:")
            self._padded(k, bucket)

    def _call(self, bucket: Bucket, inputs: str, outputs: str) -> str:
        arrays = f"{self.pool}ptr {inputs}, ptr {outputs}, ptr %workspace"
        return f"call i32 @{bucket.symbol}{self.suffix}({arrays})"

    def _padded(self, k: int, bucket: Bucket) -> None:
        """Copy what is brought, with zeros behind, call, and copy what is wanted."""
        places, workspace_bytes = bucket.places()
        bad = "false"
        tables = [("%inputs", bucket.inputs), ("%outputs", bucket.outputs)]
        for table, arrays in tables:
            bad = self._or_null(bad, table) if arrays else bad
        bad = self._or_null(bad, "%workspace") if workspace_bytes else bad
        self._branch(bad, "refused", f"tables{k}")
        self.lines.append(f"tables{k}:")
        pointers = [[self._loaded(t, n) for n in range(len(arrays))] for t, arrays in tables]
        bad = "false"
        for brought, (_, arrays) in zip(pointers, tables):
            for p, a in zip(brought, arrays):
                bad = self._or_null(bad, p) if a.is_padded and a.size_bytes else bad
        self._branch(bad, "refused", f"brought{k}")
        self.lines.append(f"brought{k}:")
        rest = iter(places)
        padded: list[list[str]] = []
        for brought, (_, arrays) in zip(pointers, tables):
            padded.append([self._place(p, next(rest)) for p, _ in zip(brought, arrays)])
        for p, big, a in zip(pointers[0], padded[0], bucket.inputs):
            if a.is_padded and a.size_bytes:
                zeros = f"ptr {big}, i8 0, i64 {a.size_bytes}, i1 false"
                self._add(f"call void @llvm.memset.p0.i64({zeros})")
                self._copy(a, bucket, p, big, inward=True)
        new = [self._table(values) for values in padded]
        status = self._value(self._call(bucket, new[0], new[1]))
        good = self._value(f"icmp eq i32 {status}, 0")
        self._branch(good, f"after{k}", f"failed{k}")
        self.lines += [f"failed{k}:", f"  ret i32 {status}", f"after{k}:"]
        for p, big, a in zip(pointers[1], padded[1], bucket.outputs):
            if a.is_padded and a.size_bytes:
                self._copy(a, bucket, p, big, inward=False)
        self._add("ret i32 0")

    def _copy(self, a: BucketArray, bucket: Bucket, small: str, big: str, inward: bool) -> None:
        """Rows of an array that stands close together to or from its place in the padded one."""
        last = max([k for k, s in enumerate(a.sizes) if s is not None])
        actual: list[str] = []
        for n, s in zip(a.dims, a.sizes):
            factor = n if s is None else n // bucket.sizes[s]
            text = str(n) if s is None else self._value(f"mul i64 %size{s}, {factor}")
            actual.append(text)
        inner = prod(a.dims[last + 1 :]) * a.element_bytes
        chunk = self._value(f"mul i64 {actual[last]}, {inner}")
        steps_small, steps_big = [chunk], [a.dims[last] * inner]
        for k in range(last - 1, 0, -1):
            steps_small.insert(0, self._value(f"mul i64 {steps_small[0]}, {actual[k]}"))
            steps_big.insert(0, steps_big[0] * a.dims[k])
        self._rows(actual[:last], steps_small, steps_big, chunk, small, big, inward)

    def _rows(
        self,
        counts: Sequence[str],
        steps_small: Sequence[str],
        steps_big: Sequence[int],
        chunk: str,
        small: str,
        big: str,
        inward: bool,
    ) -> None:
        """A loop for each dimension that is left, copies of bytes inside."""
        if not counts:
            target, source = (big, small) if inward else (small, big)
            arguments = f"ptr {target}, ptr {source}, i64 {chunk}, i1 false"
            self._add(f"call void @llvm.memcpy.p0.p0.i64({arguments})")
            return
        counter = self._slot("i64")
        self._add(f"store i64 0, ptr {counter}")
        number = self.count
        self._add(f"br label %loop{number}")
        self.lines.append(f"loop{number}:")
        at = self._value(f"load i64, ptr {counter}")
        self._branch(self._value(f"icmp slt i64 {at}, {counts[0]}"), f"in{number}", f"out{number}")
        self.lines.append(f"in{number}:")
        moved = []
        for pointer, step in ((small, steps_small[0]), (big, steps_big[0])):
            offset = self._value(f"mul i64 {at}, {step}")
            moved.append(self._value(f"getelementptr i8, ptr {pointer}, i64 {offset}"))
        self._rows(counts[1:], steps_small[1:], steps_big[1:], chunk, moved[0], moved[1], inward)
        self._add(f"store i64 {self._value(f'add i64 {at}, 1')}, ptr {counter}")
        self._add(f"br label %loop{number}")
        self.lines.append(f"out{number}:")

    def _all(self, relation: str, limits: Sequence[int]) -> str:
        """Whether all sizes stand in a relation to these."""
        holds = "true"
        for k, limit in enumerate(limits):
            one = self._value(f"icmp {relation} i64 %size{k}, {limit}")
            holds = self._value(f"and i1 {holds}, {one}")
        return holds

    def _or_null(self, bad: str, pointer: str) -> str:
        return self._value(f"or i1 {bad}, {self._value(f'icmp eq ptr {pointer}, null')}")

    def _loaded(self, table: str, number: int) -> str:
        return self._value(
            f"load ptr, ptr {self._value(f'getelementptr ptr, ptr {table}, i64 {number}')}"
        )

    def _place(self, pointer: str, place: int | None) -> str:
        if place is None:
            return pointer
        return self._value(f"getelementptr i8, ptr %workspace, i64 {place}")

    def _table(self, values: Sequence[str]) -> str:
        table = self._slot(f"[{max(len(values), 1)} x ptr]")
        for number, value in enumerate(values):
            slot = self._value(f"getelementptr ptr, ptr {table}, i64 {number}")
            self._add(f"store ptr {value}, ptr {slot}")
        return table

    def _branch(self, condition: str, yes: str, no: str) -> None:
        self._add(f"br i1 {condition}, label %{yes}, label %{no}")

    def _slot(self, what: str) -> str:
        self.count += 1
        self.slots.append(f"  %v{self.count} = alloca {what}")
        return f"%v{self.count}"

    def _add(self, text: str) -> None:
        self.lines.append("  " + text)

    def _value(self, text: str) -> str:
        self.count += 1
        self._add(f"%v{self.count} = {text}")
        return f"%v{self.count}"
