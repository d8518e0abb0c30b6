"""Programs as the native side of the plugin takes them (native/pjrt/compiler.h), and its questions.

The native library holds everything that JAX calls; only compiling, and questions about what was
compiled, come here, through a table of four functions. Each answers through a reply: a program,
bytes, numbers, or an error, all of which are copied at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_double, c_int, c_int64, c_void_p
from typing import Any

from hloom.base.guarding import GUARDING
from hloom.base.installed import hloom_version, installed_version
from hloom.device.costs import Costs
from hloom.program.program import Program
from hloom.program.thunks.thunk import sequence_ns
from hloom.runtime.deployment import MEMORY_KINDS as MEMORY_KINDS
from hloom.runtime.deployment import Deployment, Spread
from hloom.runtime.executor import Executor, Parts
from hloom.runtime.guarded import block_names
from hloom.runtime.native import Pool, RandomState, library
from hloom.runtime.processor_identity import processor_identity
from hloom.types.layout import default_layout
from hloom.types.shape import Shape

TYPES = {
    name: number
    for number, name in enumerate(
        (
            "invalid pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 bf16 c64 c128 f8e5m2 f8e4m3fn"
            " f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz s4 u4 token s2 u2 f8e4m3 f8e3m4 f8e8m0fnu"
            " f4e2m1fn s1 u1"
        ).split()
    )
}
"""Numbers of element types in the ABI of PJRT, by their names in HLO."""
DONATED, WRITTEN = 1, 2
PJRT_QUESTIONS = ("program", "cost", "saved", "options", "steps")
"""What is asked about a program, by number."""
HOST_TARGETS = ("callback",)
"""Custom calls whose target has one of these in its name may wait for Python."""


class _Array(ctypes.Structure):
    """hl_pjrt_argument and hl_pjrt_result, which differ in the meaning of the second field."""

    _fields_ = [
        ("allocation", c_int64),
        ("flags_or_offset", c_int64),
        ("type", c_int64),
        ("rank", c_int64),
        ("dims", POINTER(c_int64)),
        ("memory_kind", c_int64),
        ("sharding", c_char_p),
        ("sharding_size", c_int64),
        ("whole", POINTER(c_int64)),
        ("offsets", POINTER(c_int64)),
        ("layout", c_char_p),
    ]


class _Block(ctypes.Structure):
    """hl_pjrt_block."""

    _fields_ = [("allocation", c_int64), ("size_bytes", c_int64), ("is_temporary", c_int64)]


class RawProgram(ctypes.Structure):
    """hl_pjrt_program."""

    _fields_ = [
        ("handle", c_int64),
        ("name", c_char_p),
        ("fingerprint", c_char_p),
        ("entry", c_void_p),
        ("pool", c_void_p),
        ("random", c_void_p),
        ("infeed", c_void_p),
        ("outfeed", c_void_p),
        ("sites", c_void_p),
        ("site_count", c_int64),
        ("allocation_count", c_int64),
        ("fixed", c_void_p),
        ("block_count", c_int64),
        ("blocks", POINTER(_Block)),
        ("argument_count", c_int64),
        ("arguments", POINTER(_Array)),
        ("result_count", c_int64),
        ("results", POINTER(_Array)),
        ("replica_count", c_int64),
        ("partition_count", c_int64),
        ("device_count", c_int64),
        ("devices", POINTER(c_int64)),
        ("expected_ns", c_int64),
        ("calls_host", c_int64),
        ("is_portable", c_int64),
        ("code_bytes", c_int64),
        ("temporary_bytes", c_int64),
        ("alias_bytes", c_int64),
        ("block_names", POINTER(c_char_p)),
        ("region_count", c_int64),
        ("regions", c_void_p),
    ]


_COMPILE = CFUNCTYPE(
    None,
    *(c_void_p, c_int64),  # the program
    *(c_void_p, c_int64),  # its format
    *(c_void_p, c_int64),  # options
    *(c_void_p, c_int64),  # the topology
    c_void_p,
)
_LOAD = CFUNCTYPE(None, c_void_p, c_int64, c_void_p, c_int64, c_void_p)
_ASK = CFUNCTYPE(None, c_int64, c_int64, c_void_p)
_PENDING = CFUNCTYPE(c_int, c_void_p)


class _Compiler(ctypes.Structure):
    """hl_pjrt_compiler."""

    _fields_ = [
        ("compile", _COMPILE),
        ("load", _LOAD),
        ("ask", _ASK),
        ("call_soon", c_void_p),
        ("released", _PENDING),
    ]


class ForeignExecutor:
    """Stands for the executor of a program that this machine cannot run: a run is an error."""

    def __init__(self, program: Program, triple: str) -> None:
        self.program = program
        self.size_bytes = sum(map(len, program.objects))
        self.loaded = self
        self.triple = triple
        self._pool, self._random = Pool.shared(), RandomState()
        self._fixed = (c_void_p * max(len(program.allocations), 1))()

    def parts(self) -> Parts:
        entry = ctypes.cast(library().hl_pjrt_foreign_program, c_void_p).value or 0
        return Parts(entry, self._pool.handle, self._random.handle, 0, 0, 0, 0, self._fixed)


AnyExecutor = Executor | ForeignExecutor


class Reply:
    """An answer to the native side; it is copied at once."""

    def __init__(self, handle: int) -> None:
        self._handle = c_void_p(handle)

    def program(
        self,
        executor: AnyExecutor,
        handle: int,
        deployment: Deployment,
        regions: Sequence[tuple[AnyExecutor, Deployment]] = (),
    ) -> None:
        """`regions` are the programs of one device that this one calls, by number."""
        raw, _alive = described(executor, handle, deployment)
        inner = [described(part, 0, where) for part, where in regions]
        array = (RawProgram * max(len(inner), 1))(*[found for found, _ in inner])
        raw.region_count, raw.regions = len(inner), ctypes.addressof(array)
        raw.expected_ns = -1 if inner else raw.expected_ns
        raw.calls_host |= any(found.calls_host for found, _ in inner)
        library().hl_pjrt_reply_program(self._handle, ctypes.byref(raw))

    def bytes(self, data: bytes) -> None:
        library().hl_pjrt_reply_bytes(self._handle, data, c_int64(len(data)))

    def number(self, name: str, value: float) -> None:
        library().hl_pjrt_reply_number(self._handle, name.encode(), c_double(value))

    def error(self, status: int, message: str) -> None:
        text = message.encode(errors="replace").replace(b"\0", b"?")
        library().hl_pjrt_reply_error(self._handle, c_int64(status), text)


def described(
    executor: AnyExecutor, handle: int, deployment: Deployment
) -> tuple[RawProgram, list[Any]]:
    """The struct for a program that is loaded, and what must live while it is read."""
    program, parts = executor.program, executor.parts()
    alive: list[Any] = [parts]
    written = {
        a.index
        for a in program.allocations
        if a.kind == "parameter" and (a.is_donated or a.output_index is not None)
    }
    arguments = _arguments(executor, deployment.donated, written, alive)
    results = _results(executor, alive)
    for arrays, spreads in ((arguments, deployment.arguments), (results, deployment.results)):
        for array, spread in zip(arrays, spreads):
            _cut(array, spread, alive)
    blocks = [
        _Block(a.index, a.size_bytes, a.kind == "temp")
        for a in program.allocations
        if a.kind in ("temp", "output")
    ]
    names = [n.encode() for n in block_names(program)] if GUARDING else []
    returned = {r.slice.allocation.index for r in program.results if r.slice is not None}
    aliased = [a.size_bytes for a in program.allocations if a.index in written & returned]
    targets = [c.target for c in program.call_sites]
    raw = RawProgram(
        handle=handle,
        name=program.name.encode(),
        fingerprint=deployment.fingerprint.encode(),
        entry=parts.entry,
        pool=parts.pool,
        random=parts.random,
        infeed=parts.infeed,
        outfeed=parts.outfeed,
        sites=parts.sites,
        site_count=parts.site_count,
        allocation_count=len(program.allocations),
        fixed=ctypes.addressof(parts.fixed),
        block_count=len(blocks),
        blocks=_held((_Block * max(len(blocks), 1))(*blocks), alive),
        argument_count=len(arguments),
        arguments=_held((_Array * max(len(arguments), 1))(*arguments), alive),
        result_count=len(results),
        results=_held((_Array * max(len(results), 1))(*results), alive),
        replica_count=deployment.replicas,
        partition_count=deployment.partitions,
        device_count=len(deployment.devices),
        devices=_held(_integers(deployment.devices), alive),
        expected_ns=int(min(sequence_ns(program.thunks, Costs()), 1e18)),
        calls_host=_calls_host(targets) or bool(program.infeeds or program.outfeeds),
        is_portable=deployment.is_portable,
        code_bytes=executor.loaded.size_bytes,
        temporary_bytes=program.temp_bytes,
        alias_bytes=sum(aliased),
        block_names=_held((c_char_p * len(names))(*names), alive) if names else None,
    )
    return raw, alive


def _arguments(
    executor: AnyExecutor,
    donated: frozenset[int],
    written: set[int],
    alive: list[Any],
) -> list[_Array]:
    """One for each leaf of the parameters; of a token, which is no argument elsewhere, too."""
    made = []
    leaves = iter(executor.program.parameters)
    for whole in executor.program.argument_shapes:
        for _, shape in whole.subshapes():
            if shape.is_token:
                made.append(_array(shape, -1, 0, alive))
            elif shape.is_array:
                p = next(leaves)
                flags = DONATED * (p.number in donated) | WRITTEN * (p.allocation in written)
                at = -1 if p.allocation is None else p.allocation
                made.append(_array(p.shape, at, flags, alive))
    return made


def _results(executor: AnyExecutor, alive: list[Any]) -> list[_Array]:
    made = []
    for r in executor.program.results:
        at, offset = (-1, 0) if r.slice is None else (r.slice.allocation.index, r.slice.offset)
        made.append(_array(r.shape, at, offset, alive))
    return made


def _calls_host(targets: Iterable[str]) -> bool:
    return any(word in target for target in targets for word in HOST_TARGETS)


def _integers(numbers: Sequence[int]) -> Any:
    return (c_int64 * max(len(numbers), 1))(*numbers)


def _held(array: Any, alive: list[Any]) -> Any:
    """A pointer to an array that lives as long as the list."""
    alive.append(array)
    return ctypes.cast(array, POINTER(array._type_))


def _array(shape: Shape, allocation: int, flags_or_offset: int, alive: list[Any]) -> _Array:
    if shape.is_token:
        return _Array(-1, 0, TYPES["token"], 0, _held(_integers(()), alive))
    dims = _held(_integers(shape.dims), alive)
    dtype, layout = shape.dtype, shape.layout
    array = _Array(allocation, flags_or_offset, TYPES[dtype.name], shape.rank, dims)
    if dtype.is_sub_byte and (layout is None or not layout.element_size_in_bits):
        layout = (layout or default_layout(shape.rank)).replace(element_size_in_bits=dtype.bits)
    if layout is not None and not layout.is_default:
        array.layout = layout.text.encode()
    return array


def _cut(array: _Array, spread: Spread, alive: list[Any]) -> None:
    """Say in what memory an array is, and how it is cut into shards."""
    array.sharding, array.sharding_size = spread.sharding, len(spread.sharding)
    array.memory_kind = spread.memory_kind
    if spread.offsets:
        array.whole = _held(_integers(spread.whole), alive) if spread.whole else array.dims
        array.dims = _held(_integers(spread.dims), alive)
        array.offsets = _held(_integers([x for place in spread.offsets for x in place]), alive)


# What answers must stay as long as the process: the native side keeps pointers to it.
_TABLES: list[Any] = []


def set_pjrt_compiler(
    compile: Callable[[bytes, str, bytes, bytes, Reply], None],
    load: Callable[[bytes, bytes, Reply], None],
    ask: Callable[[int, int, Reply], None],
    release: Callable[[int], object],
) -> None:
    """From here on the native side asks these functions, which raise nothing."""
    # The one function of Python's that threads without its lock may call, at its end too.
    call_soon = ctypes.cast(ctypes.pythonapi.Py_AddPendingCall, c_void_p)

    def call_compile(*raw: Any) -> None:
        code, form, options, topology = (_bytes(raw[k], raw[k + 1]) for k in (0, 2, 4, 6))
        compile(code, form.decode(), options, topology, Reply(raw[8]))

    def call_load(data: Any, size: int, options: Any, options_size: int, reply: int) -> None:
        load(_bytes(data, size), _bytes(options, options_size), Reply(reply))

    def call_ask(handle: int, what: int, reply: int) -> None:
        ask(handle, what, Reply(reply))

    def call_released(_: int) -> int:
        handles = (c_int64 * 64)()
        while count := library().hl_pjrt_take_released(handles, c_int64(len(handles))):
            for handle in handles[:count]:
                release(handle)
        return 0

    table = _Compiler(
        _COMPILE(call_compile),
        _LOAD(call_load),
        _ASK(call_ask),
        call_soon,
        _PENDING(call_released),
    )
    _TABLES.append(table)
    library().hl_pjrt_set_compiler(ctypes.byref(table))


def clear_pjrt_compiler() -> None:
    """Let devices end what they do; nobody is asked from here on."""
    native = library()
    native.hl_pjrt_drain()
    native.hl_pjrt_set_compiler(None)


def set_pjrt_versions(stablehlo: tuple[int, int, int]) -> None:
    """What clients say they are, and the newest StableHLO that `compile` reads."""
    library().hl_pjrt_set_versions(platform_version().encode(), *map(c_int64, stablehlo))


def platform_version() -> str:
    """hloom's version, the code generator's, the processor: JAX's persistent cache keeps programs
    under this, so whoever may not run another's program must differ in it. Those planned for a
    guard say so."""
    return (
        f"hloom {hloom_version()}{' under guard' if GUARDING else ''}\n"
        f"llvmlite {installed_version('llvmlite')}\n"
        f"processor {processor_identity() or 'unknown'}"
    )


def library_path() -> str:
    """The library that PJRT's hosts open: the runtime's own."""
    return library()._name


def _bytes(address: int | None, size: int) -> bytes:
    return ctypes.string_at(address, size) if address and size else b""
