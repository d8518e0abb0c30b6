"""A program as one LLVM module with a C function: what hloom.aot puts into libraries.

The functions are those of the program as it runs in this process, to the letter; the one more that
is written here lends them the caller's memory (c_interface.py). All but that one are internal, and
all names begin with the library's, so that libraries can be linked together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hloom.base.diagnostics import UnsupportedError
from hloom.codegen.llvm.c_call_sites import CALL_SITE, call_sites_text
from hloom.codegen.llvm.c_parallel import PARALLEL, POOL_AT, parallel_text
from hloom.codegen.llvm.c_processor import CHECK, LACKING, check_text, checked_features
from hloom.codegen.llvm.compile import module_text
from hloom.codegen.llvm.constant_bytes import constant_bytes
from hloom.codegen.llvm.machine import Machine
from hloom.program.c_interface import Base, CInterface
from hloom.program.c_weights import SHARED_BYTES, LibraryRequest, Weights
from hloom.program.program import Program
from hloom.program.slice import ALIGNMENT

CONTEXT_BYTES = 64
THREADS_AT, SCRATCH_END_AT, SCRATCH_AT = 8, 24, 32
"""Of hl_context: `threads`; `arena` and `user`, where the routines find the end of their working
memory and its beginning."""
INVALID_ARGUMENT = 3
"""HL_INVALID_ARGUMENT of native/hl.h."""
ROUTINES = frozenset(
    ("hl_sort_keys", "hl_sort_compare", "hl_topk")
    + ("hl_cholesky", "hl_triangular_solve", "hl_library_call", "hl_fft")
)
"""What aot/native/order.c, dense.cc and transforms.cc have."""
WEIGHTS, WEIGHTS_AT, OWN_POOL = "weights", "weights_at", "own_pool"
"""What functions of a library share: constants, where those of a file are, its own threads."""
NOT_LOADED = 5
"""The status of a call before the weights are there."""
_SHARED = ROUTINES | {WEIGHTS, WEIGHTS_AT, OWN_POOL}
ARRAYS_OF_A_BLOCK = 32
LIBC = frozenset(("memcpy", "memmove", "memset", "memcmp"))
MOST_CONSTANT_BYTES = 1 << 30
"""The small code model reaches 2 GiB."""

_DEFINED = re.compile(r"^(?:define [^@\n]*@([\w.$-]+)\(|@([\w.$-]+) = )", re.MULTILINE)
_DECLARED = re.compile(r"^declare [^@\n]*@([\w.$-]+)\(", re.MULTILINE)
_MEMCPY = re.compile(r"call ptr @memcpy\((ptr [^,]*, ptr [^,]*, i64 [^)]*)\)")
_DEFINE = re.compile(r"^define (?!internal )", re.MULTILINE)
_PLAIN = re.compile(r"^(define [^{\n]*\)) \{$", re.MULTILINE)
_NAME = re.compile(r"@([\w.$-]+)")


def library_text(
    asked: LibraryRequest,
    program: Program,
    interface: CInterface,
    texts: Mapping[str, str],
    machine: Machine,
) -> str:
    """The module: `int32 name(ptr inputs, ptr outputs, ptr workspace)` and what it calls."""
    constants = [a.data for a in interface.constants]
    text = _DEFINE.sub("define internal ", module_text(machine, texts.values(), texts))
    text = text.replace(PARALLEL, parallel_text(machine, bool(asked.pool)))
    if machine.address_bytes == 4:  # where memcpy takes a size of 32 bits
        text = _MEMCPY.sub(r"call void @llvm.memcpy.p0.p0.i64(\1, i1 false)", text)
        text = text.replace("declare ptr @memcpy(ptr, ptr, i64)\n", "")
    copy = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"
    head = [] if copy.split("(")[0] in text else [copy]
    globals_, addresses = _constants(asked.weights, constants, program.name)
    globals_ = head + globals_
    if _has_tensors(interface):
        globals_.append(f"@{WEIGHTS_AT} = external hidden global ptr")
    if program.call_sites:
        text = text.replace(CALL_SITE, call_sites_text(program.call_sites))
    text = _PLAIN.sub(r"\1 nounwind {", text)  # no tables for unwinding, which need a library
    is_checked = not asked.is_version and asks_processor(machine)
    globals_ += [check_text(machine.required), STATE] if is_checked else []
    globals_ += [f"@{OWN_POOL} = external hidden global i8"] if asked.pool == "own" else []
    functions = [_entry(program.entry, interface, machine, addresses)]
    functions += _callable(asked, machine, is_checked)
    return _renamed("\n".join([text, *globals_, *functions, ""]), asked.name, asked.library)


def _constants(
    weights: Weights, constants: Sequence[bytes | memoryview | None], program: str
) -> tuple[list[str], list[str]]:
    """What is written of constants, and the address of each."""
    size = sum([len(c) for c in constants if c is not None])
    if weights.place != "file" and size > MOST_CONSTANT_BYTES:
        raise UnsupportedError(
            f"the constants of {program} take more than {MOST_CONSTANT_BYTES >> 30} GiB, "
            "which no library holds",
            rule="ahead-of-time",
            hint="--weights model.bin maps them from a file; or make them parameters",
        )
    if weights.place == "either":
        weights.place = "section" if size >= SHARED_BYTES else "inside"
    if weights.place == "inside":
        written = [_constant(k, c) for k, c in enumerate(constants) if c is not None]
        return written, [f"@constant{k}" for k in range(len(constants))]
    if not constants:
        return [], []
    base, what = f"@{WEIGHTS}", f"@{WEIGHTS} = external hidden constant i8, align {ALIGNMENT}"
    if weights.place == "file":
        base, what = "%weights", f"@{WEIGHTS_AT} = external hidden global ptr"
    offsets = [0 if c is None else weights.offset(c) for c in constants]
    return [what], [f"getelementptr i8, ptr {base}, i64 {k}" for k in offsets]


def asks_processor(machine: Machine) -> bool:
    """Whether a library asks its processor what it has: an x86, where this one is, too."""
    return machine.is_x86 and Machine.host().is_x86 and bool(checked_features(machine.required))


STATE = """@processor_state = internal global i32 0, align 4
attributes #99 = { "target-cpu"="x86-64" "target-features"="" }"""
_ARRAYS = "ptr %inputs, ptr %outputs, ptr %workspace"


def _callable(asked: LibraryRequest, machine: Machine, is_checked: bool) -> list[str]:
    """What callers see: the function, and the one that takes a pool."""
    functions = [
        (_ENTRY, asked.name, _ARRAYS, f"ptr @{OWN_POOL}" if asked.pool == "own" else "ptr null")
    ]
    if asked.pool == "caller":
        functions.append((f"{_ENTRY}_on", f"{asked.name}_on", f"ptr %pool, {_ARRAYS}", "ptr %pool"))
    linkage = "dllexport " if machine.system == "windows" else ""
    linkage = "hidden " if asked.is_version else linkage
    texts = []
    for symbol, name, parameters, pool in functions:
        attribute = f' "wasm-export-name"="{name}"' if machine.architecture == "wasm32" else ""
        lines = [f"define {linkage}i32 @{symbol}({parameters}) nounwind{attribute}"]
        lines[0] += " #99 {" if is_checked else " {"
        lines += ["start:", *(_ASKED if is_checked else ())]
        lines += [f"  %status = call i32 @{_RUN}({pool}, {_ARRAYS})", "  ret i32 %status"]
        texts.append("\n".join([*lines, *(_LACKS if is_checked else ()), "}"]))
    return texts


_ASKED = (
    "  %known = load atomic i32, ptr @processor_state monotonic, align 4",
    "  %has = icmp eq i32 %known, 1",
    "  br i1 %has, label %run, label %ask",
    "ask:",
    f"  %state = call i32 @{CHECK}()",
    "  store atomic i32 %state, ptr @processor_state monotonic, align 4",
    "  %has.now = icmp eq i32 %state, 1",
    "  br i1 %has.now, label %run, label %lacks",
    "run:",
)
_LACKS = ("lacks:", f"  ret i32 {LACKING}")


def _renamed(text: str, name: str, library: str) -> str:
    """The same with the function's name before every other; the library's before what is shared."""
    defined = {a or b for a, b in _DEFINED.findall(text)}
    declared = set(_DECLARED.findall(text)) - defined
    unknown = {d for d in declared if not d.startswith("llvm.")} - LIBC - ROUTINES
    assert not unknown, f"a C library calls {unknown}"
    others = defined | (declared & ROUTINES)

    def new(match: re.Match[str]) -> str:
        old = match[1]
        if old == _ENTRY:
            return f"@{name}"
        if old == f"{_ENTRY}_on":
            return f"@{name}_on"
        if old in _SHARED:
            return f"@{library}_{old}"
        return f"@{name}_{old}" if old in others else match[0]

    return _NAME.sub(new, text)


_ENTRY, _RUN = "c.entry", "c.run"


def _constant(number: int, data: bytes | memoryview) -> str:
    """A constant's bytes, read only."""
    return (
        f"@constant{number} = private unnamed_addr constant {constant_bytes(data)},"
        f" align {ALIGNMENT}"
    )


class _Lines:
    """Instructions, and names for their values."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def add(self, text: str) -> None:
        self.lines.append("  " + text)

    def value(self, text: str) -> str:
        self._count += 1
        self.add(f"%c{self._count} = {text}")
        return f"%c{self._count}"

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def new_label(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def is_long(self, number: int) -> bool:
        """Whether a block should end behind so many of something."""
        return number % ARRAYS_OF_A_BLOCK == ARRAYS_OF_A_BLOCK - 1

    def cut(self, number: int) -> None:
        """End a block that is long: code is chosen a block at a time, which takes LLVM the square
        of its length."""
        if self.is_long(number):
            name = self.new_label("next")
            self.add(f"br label %{name}")
            self.label(name)


def _entry(main: str, interface: CInterface, machine: Machine, constants: Sequence[str]) -> str:
    """The function that those for callers call."""
    f = _Lines()
    f.lines.append(f"define internal i32 @{_RUN}(ptr %pool, {_ARRAYS}) nounwind {{")
    f.label("start")
    f.add(f"%context = alloca [{CONTEXT_BYTES} x i8], align 16")
    f.add(f"%buffers = alloca [{max(len(interface.bases), 1)} x ptr], align 64")
    missing = "false"
    for table, arrays in (("%inputs", interface.inputs), ("%outputs", interface.outputs)):
        if arrays:
            missing = _or_wrong(f, missing, table, machine.address_bytes)
    f.add(f"br i1 {missing}, label %refused, label %given")
    f.label("given")
    _check(f, interface)
    if _has_tensors(interface) or any("%weights" in c for c in constants):
        _load_weights(f, machine)

    def address(base: Base | None) -> str:
        if base is None:
            return "null"
        if base.what == "constant":
            address = constants[base.at]
            return address if address.startswith("@") else f.value(address)
        if base.what == "workspace":
            return f.value(f"getelementptr i8, ptr %workspace, i64 {base.at}")
        table = "%weights" if base.what == "tensor" else f"%{base.what}s"
        return _pointer(f, table, base.at)

    for number, c in enumerate(interface.copies_in):
        source, target = _pointer(f, "%inputs", c.source), address(c.target)
        same = f.value(f"icmp eq ptr {source}, {target}")
        f.add(f"br i1 {same}, label %in{number}, label %copy{number}")
        f.label(f"copy{number}")
        _copy(f, target, source, c.size_bytes)
        f.add(f"br label %in{number}")
        f.label(f"in{number}")
    for number, base in enumerate(interface.bases):
        where = address(base)
        slot = f.value(f"getelementptr ptr, ptr %buffers, i64 {number}")
        f.add(f"store ptr {where}, ptr {slot}")
        f.cut(number)
    end = f.value(f"getelementptr i8, ptr %workspace, i64 {interface.workspace_bytes}")
    _context(f, address(interface.scratch), end)

    status = f.value(f"call i32 @{main}(ptr %context, ptr %buffers)")
    bad = f.value(f"icmp ne i32 {status}, 0")
    f.add(f"br i1 {bad}, label %failed, label %done")
    f.label("done")
    for c in interface.copies_out:
        slot = f.value(f"getelementptr ptr, ptr %buffers, i64 {c.allocation}")
        base = f.value(f"load ptr, ptr {slot}")
        source = f.value(f"getelementptr i8, ptr {base}, i64 {c.offset}")
        _copy(f, _pointer(f, "%outputs", c.output), source, c.size_bytes)
    f.add("ret i32 0")
    f.label("failed")
    f.add(f"ret i32 {status}")
    f.label("refused")
    f.add(f"ret i32 {INVALID_ARGUMENT}")
    f.lines.append("}")
    return "\n".join(f.lines)


def _has_tensors(interface: CInterface) -> bool:
    """Whether a file has inputs of the program by name."""
    return any(b is not None and b.what == "tensor" for b in interface.bases)


def _pointer(f: _Lines, table: str, number: int) -> str:
    """A pointer of a table."""
    return f.value(f"load ptr, ptr {f.value(f'getelementptr ptr, ptr {table}, i64 {number}')}")


def _load_weights(f: _Lines, machine: Machine) -> None:
    """`%weights`: where those of a file are; a status before they are there."""
    f.add(f"%weights = load atomic ptr, ptr @{WEIGHTS_AT} acquire, align {machine.address_bytes}")
    f.add("%not.loaded = icmp eq ptr %weights, null")
    f.add("br i1 %not.loaded, label %unloaded, label %loaded")
    f.label("unloaded")
    f.add(f"ret i32 {NOT_LOADED}")
    f.label("loaded")


def _check(f: _Lines, interface: CInterface) -> None:
    """Go to `refused` unless every pointer that is used is there, and aligned."""
    bad = "false"
    for table, arrays in (("%inputs", interface.inputs), ("%outputs", interface.outputs)):
        for number, array in enumerate(arrays):
            if array.size_bytes:
                bad = _or_wrong(f, bad, _pointer(f, table, number), array.alignment)
            if f.is_long(number):
                bad = _refuse(f, bad)
    if interface.workspace_bytes:
        bad = _or_wrong(f, bad, "%workspace", ALIGNMENT)
    _refuse(f, bad)


def _refuse(f: _Lines, bad: str) -> str:
    """Go to `refused` where something is wrong so far."""
    name = f.new_label("accepted")
    f.add(f"br i1 {bad}, label %refused, label %{name}")
    f.label(name)
    return "false"


def _or_wrong(f: _Lines, bad: str, pointer: str, alignment: int) -> str:
    """Whether something is wrong already, or this pointer is null or not aligned."""
    wrong = f.value(f"icmp eq ptr {pointer}, null")
    if alignment > 1:
        number = f.value(f"ptrtoint ptr {pointer} to i64")
        low = f.value(f"and i64 {number}, {alignment - 1}")
        crooked = f.value(f"icmp ne i64 {low}, 0")
        wrong = f.value(f"or i1 {wrong}, {crooked}")
    return f.value(f"or i1 {bad}, {wrong}")


def _context(f: _Lines, scratch: str, end: str) -> None:
    """What functions of the program may look at: no error, no cancelling, no threads but a pool."""
    for at in range(0, CONTEXT_BYTES, 8):
        place = f.value(f"getelementptr i8, ptr %context, i64 {at}")
        f.add(f"store i64 0, ptr {place}")
    threads = f.value(f"getelementptr i8, ptr %context, i64 {THREADS_AT}")
    f.add(f"store i32 1, ptr {threads}")
    user = f.value(f"getelementptr i8, ptr %context, i64 {SCRATCH_AT}")
    f.add(f"store ptr {scratch}, ptr {user}")
    arena = f.value(f"getelementptr i8, ptr %context, i64 {SCRATCH_END_AT}")
    f.add(f"store ptr {end}, ptr {arena}")
    pool = f.value(f"getelementptr i8, ptr %context, i64 {POOL_AT}")
    f.add(f"store ptr %pool, ptr {pool}")


def _copy(f: _Lines, target: str, source: str, size: int) -> None:
    if size:
        f.add(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")
