"""Parts of the native runtime by themselves: memory, loaded objects, contexts, random state.

hloom runs programs by `hl_program` (loaded_program.py), which has all of these inside; tests of the
parts hold them through the C ABI, each freed with `close()` or when it is collected.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from ctypes import c_char_p, c_int8, c_int64, c_uint64, c_void_p
from dataclasses import dataclass

from hloom.base.diagnostics import UsageError
from hloom.runtime.library import ExecutionError, HostFunction, LoadError, allocated, library
from hloom.runtime.native import Owner, Pool, Queue
from hloom.runtime.raised import take_raised


@dataclass(frozen=True, slots=True)
class MemoryStatistics:
    """What an arena holds. Bytes count whole blocks: up to an eighth more than was asked for."""

    bytes_in_use: int
    peak_bytes_in_use: int
    bytes_cached: int
    blocks_in_use: int
    allocations: int
    cache_hits: int
    limit_bytes: int
    cache_limit_bytes: int


class Memory(Owner):
    """Blocks of memory, cached when freed: aligned to 64 bytes, to 2 MiB from 2 MiB on."""

    __slots__ = ()

    def __init__(self, limit_bytes: int | None = None, cache_bytes: int | None = None) -> None:
        native = library()
        self._own(allocated(native.hl_arena_new(), "an arena"), native.hl_arena_delete)
        self.set_limits(limit_bytes, cache_bytes)

    def close(self) -> None:
        """Gives everything back to the system; an error if blocks are still in use."""
        if self.handle and (used := self.statistics().blocks_in_use):
            raise UsageError(f"memory is closed while {used} blocks are in use")
        super().close()

    def allocate(self, size_bytes: int) -> int:
        """The address of a block, not cleared; ExecutionError if there is no memory for it."""
        address = library().hl_arena_alloc(self.handle, size_bytes)
        if address is None:
            raise ExecutionError(f"out of memory: {size_bytes} bytes asked for", 8)
        return address

    def free(self, address: int) -> None:
        """Takes a block back; an error if it is not a block in use."""
        if library().hl_arena_free(self.handle, address):
            raise UsageError(f"{address:#x} is no block in use of this memory")

    def trim(self, keep_bytes: int = 0) -> None:
        """Gives cached blocks back to the system until at most `keep_bytes` are cached."""
        library().hl_arena_trim(self.handle, keep_bytes)

    def set_limits(self, limit_bytes: int | None = None, cache_bytes: int | None = None) -> None:
        """The most bytes in use and cached together, and cached; None leaves one as it is."""
        limits = [-1 if value is None else value for value in (limit_bytes, cache_bytes)]
        library().hl_arena_set_limits(self.handle, *limits)

    def statistics(self) -> MemoryStatistics:
        """What it holds now, and what it has done."""
        numbers = (c_int64 * 8)()
        library().hl_arena_statistics(self.handle, numbers)
        return MemoryStatistics(*numbers)


class LoadedObjects(Owner):
    """Relocatable objects, linked to one another and to the runtime, ready to run.

    `objects` by name (which messages use). `functions` and `data` are further symbols the objects
    may name. `machine` is an ELF number if the code is another machine's, only to be looked at.
    Raises LoadError with every symbol that is missing or defined twice.
    """

    __slots__ = ()

    def __init__(
        self,
        objects: Mapping[str, bytes] | Sequence[bytes],
        *,
        functions: Mapping[str, int] | None = None,
        data: Mapping[str, int] | None = None,
        machine: int = 0,
    ) -> None:
        named = (
            dict(objects)
            if isinstance(objects, Mapping)
            else {f"object {i}": code for i, code in enumerate(objects)}
        )
        codes = list(named.values())
        outer = [*(functions or {}).items(), *(data or {}).items()]
        is_data = [0] * len(functions or {}) + [1] * len(data or {})
        message = ctypes.create_string_buffer(1 << 15)
        native = library()
        handle = native.hl_load_objects(
            (c_char_p * len(codes))(*codes),
            (c_int64 * len(codes))(*map(len, codes)),
            (c_char_p * len(codes))(*(name.encode() for name in named)),
            len(codes),
            machine,
            (c_char_p * len(outer))(*(name.encode() for name, _ in outer)),
            (c_void_p * len(outer))(*(address for _, address in outer)),
            (c_int8 * len(outer))(*is_data),
            len(outer),
            message,
            len(message),
        )
        if handle is None:
            text = message.value.decode(errors="replace")
            raise LoadError(f"objects cannot be loaded:\n{text}", rule="object-load")
        self._own(handle, native.hl_unload)

    def symbol(self, name: str) -> int:
        """The address of a global symbol; LoadError if there is none."""
        if (address := library().hl_symbol(self.handle, name.encode())) is None:
            raise LoadError(f"no symbol {name} in the loaded objects", rule="object-load")
        return address

    @property
    def size_bytes(self) -> int:
        """Memory that code and data take."""
        return library().hl_loaded_size(self.handle)


class RandomState(Owner):
    """The 128-bit state of rng-get-and-update-state: one per executable, whatever the thread."""

    __slots__ = ()

    def __init__(self) -> None:
        native = library()
        self._own(allocated(native.hl_rng_new(), "a random state"), native.hl_rng_free)

    def next(self, delta: int) -> tuple[int, int]:
        """The low and high 64 bits of the state, to which delta (of any sign) is then added."""
        words = (c_uint64 * 2)()
        mask = (1 << 64) - 1
        library().hl_rng_next(self.handle, words, delta & mask, delta >> 64 & mask)
        return words[0], words[1]


class Context(Owner):
    """What a program may use while it runs. It runs one program at a time.

    `host_functions` are called as f(id, buffers), with the address of the array of buffers, by
    hl_call_host; an exception in one ends the program and comes out of `execute`.
    """

    __slots__ = ("_exception", "_functions", "_kept")

    def __init__(
        self,
        pool: Pool | None = None,
        memory: Memory | None = None,
        *,
        random: RandomState | None = None,
        infeed: Queue | None = None,
        outfeed: Queue | None = None,
        feed_timeout_s: float | None = None,
        host_functions: Sequence[Callable[[int, int], object]] = (),
    ) -> None:
        native = library()
        handles = [
            None if kept is None else kept.handle for kept in (pool, memory, infeed, outfeed)
        ]
        handle = allocated(native.hl_context_new(*handles[:2]), "a context")
        self._own(handle, native.hl_context_free)
        take_raised(handle)  # of a context that stood at this address before
        timeout = -1 if feed_timeout_s is None else int(feed_timeout_s * 1e9)
        native.hl_context_set_feeds(handle, *handles[2:], timeout)
        native.hl_context_set_rng(handle, None if random is None else random.handle)
        self._exception: BaseException | None = None
        self._functions = [HostFunction(self._guarded(f)) for f in host_functions]
        addresses = [ctypes.cast(f, c_void_p).value for f in self._functions]
        table = (c_void_p * len(addresses))(*addresses)
        native.hl_context_set_host_functions(handle, table, len(addresses))
        self._kept = (pool, memory, random, infeed, outfeed, table)

    def _guarded(self, function: Callable[[int, int], object]) -> Callable[..., int]:
        """The function as the native side calls it: an exception becomes a status."""
        context = weakref.ref(self)

        def call(handle: int, number: int, buffers: ctypes._Pointer) -> int:  # type: ignore[name-defined]
            try:
                function(number, ctypes.cast(buffers, c_void_p).value or 0)
            except BaseException as error:
                if (owner := context()) is not None and owner._exception is None:
                    owner._exception = error
                text = f"host function {number}: {type(error).__name__}: {error}"
                return library().hl_set_error_text(handle, 13, text.encode())
            return 0

        return call

    def execute(self, main: int, buffers: ctypes.Array) -> None:
        """Runs the program at address `main` on an array of c_void_p; ExecutionError if it fails.

        Ctrl-C is seen when the program has ended.
        """
        if status := library().hl_execute(self.handle, main, buffers):
            self._raise(status)

    def _raise(self, status: int) -> None:
        """Raises what went wrong."""
        exception, self._exception = self._exception, None
        raised = take_raised(self.handle)
        if exception is not None:
            raise exception
        message = (library().hl_context_message(self.handle) or b"").decode(errors="replace")
        message = message or "the context is already running a program"
        raise ExecutionError(message, status) from raised

    def cancel(self) -> None:
        """Asks the program that runs, or the next one, to stop. Any thread may."""
        library().hl_cancel(self.handle)
