"""Many functions of LLVM text to a few objects, with several threads at work.

Functions are gathered into batches of about `BATCH_BYTES` of text: small ones share the fixed cost
of an LLVM module (1.5 ms), and a program of some size makes enough batches to keep all threads
busy. What is in which batch depends on the texts alone, so a program is the same bytes whoever
compiles it.

A batch may be taken by another thread as soon as it is full, while the caller still lowers and
writes what comes next; when the caller has written all, it compiles batches, too.

A batch that fails is compiled again, function by function and then without LLVM's selection of
good code, unless faults are to be raised as they are.

A text that ended a process of before (`crash_notes`) is compiled in a process of its own from the
start. A worker process that dies costs its batch a second attempt; when none can be had, the caller
does everything itself.

Equal functions of other programs need not be compiled again: LLVM sees neutral names, by which the
object of a batch is kept (`Objects`); the symbols get their names afterwards. A long function is a
batch by itself, so that it is found whatever stands beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from hashlib import sha256
from typing import Protocol

from hloom.base.diagnostics import HloError
from hloom.base.faults import Culprit, Fault
from hloom.base.installed import installed_version
from hloom.codegen.llvm.elf_symbols import renamed
from hloom.codegen.llvm.interrupt import interruptibly
from hloom.codegen.llvm.machine import PLAIN_ADDRESSES, Machine, object_bytes
from hloom.codegen.llvm.workers import shared_workers

BATCH_BYTES = 16 << 10
INTERRUPTED_BYTES = 16 << 10
"""Text from this size on may keep LLVM busy for longer than Ctrl-C should wait (0.1 s)."""
MOST_HELPERS = 15
ALONE_BYTES = 8 << 10
"""Text that takes LLVM so long (6 ms) that a module of its own (1 ms) costs little beside it."""


def module_text(
    machine: Machine, texts: Iterable[str], defined: Iterable[str] = (), name: str = ""
) -> str:
    """One LLVM module of several functions; each declaration stands once.

    `defined` are the functions among them that others declare. Its object carries the `name`.
    """
    lines = [f'source_filename = "{name}"'] if name else []
    lines += [
        f'target datalayout = "{machine.data_layout}"',
        f'target triple = "{machine.full_triple}"',
    ]
    seen = set(defined)
    for text in texts:
        if "declare " not in text:
            lines.append(text)
            continue
        for line in text.split("\n"):
            if line.startswith("declare "):
                name = line.split("@", 1)[1].split("(", 1)[0]
                if name in seen:
                    continue
                seen.add(name)
            lines.append(line)
    return "\n".join([*lines, "!0 = !{i32 1}", ""])


def has_plain_addresses(texts: Iterable[str]) -> bool:
    """Whether the addresses in these functions, compiled together, stay as they are written: most
    of the text wants that. For the rest it matters little (a twentieth of its run time at most)."""
    plain = other = 0
    for text in texts:
        if PLAIN_ADDRESSES in text:
            plain += len(text)
        else:
            other += len(text)
    return plain > other


class FailedFunctionError(HloError):
    """LLVM makes no code of one function, whatever was tried."""

    def __init__(self, symbol: str, error: Exception) -> None:
        super().__init__(f"no code could be made of {symbol}: {error}", rule="llvm")
        self.symbol = symbol


class CrashNotes(Protocol):
    """Texts of which a process ended (`runtime/crash_notes.py`)."""

    def is_known(self, text: str) -> bool:
        """Whether this text did so before."""
        ...

    def noted(self, what: str, text: str) -> AbstractContextManager[None]:
        """While this thread compiles a text in this process."""
        ...


class Objects(Protocol):
    """Objects of batches that were compiled before (`runtime/cache.py`)."""

    def object(self, key: str) -> bytes | None:
        """The one of a key, or None."""
        ...

    def put_object(self, key: str, content: bytes) -> None:
        """Keep one."""
        ...


NEUTRAL_MODULE = "hloom.module"
"""What a module is called whose functions have neutral names: no function can be."""


def neutral(names: Sequence[str], texts: Sequence[str]) -> tuple[list[str], dict[str, str]] | None:
    """Texts in which functions are called `f0`, `f1`, ..., and what these names, and that of their
    module, stand for; None where a text calls a function of others whose name begins as its own
    does."""
    neutral_texts = []
    for number, (name, text) in enumerate(zip(names, texts)):
        used = f"@{name}"
        if any(line.startswith("declare ") and used in line for line in text.split("\n")):
            return None
        neutral_texts.append(text.replace(used, f"@f{number}"))
    symbols = {f"f{number}": name for number, name in enumerate(names)}
    return neutral_texts, {**symbols, NEUTRAL_MODULE: names[0]}


BatchContent = tuple[tuple[str, ...], tuple[str, ...], int]
"""Names and texts of functions, and the effort of code generation."""


class Batch:
    """Some functions to compile together: waiting, being compiled, or done (or failed)."""

    def __init__(
        self,
        owner: CodeCompiler,
        names: list[str],
        texts: list[str],
        opt_level: int,
        is_neutral: bool = False,
    ) -> None:
        """`is_neutral`: LLVM need not know the functions' names."""
        self.owner, self.names, self.texts, self.opt_level = owner, names, texts, opt_level
        # Without effort none are rewritten: it need not wait for its turn beside those that stay.
        self.plain_addresses = not opt_level or has_plain_addresses(texts)
        self.symbols: dict[str, str] = {}
        """What the neutral names stand for; none where the text has the functions' own."""
        plain = neutral(names, texts) if is_neutral and owner.machine.is_elf else None
        if plain is not None:
            texts, self.symbols = plain
        module = NEUTRAL_MODULE if self.symbols else self.module_id
        self.text = module_text(owner.machine, texts, self.symbols or names, module)
        self.object = b""
        self.error: Exception | None = None
        self.is_done = False
        self.is_known = False
        """Its object was kept of another program."""
        self.attempts = 0
        self.is_suspect = False
        """A worker crashed on it: it is not to be compiled in the caller's own process."""

    def __lt__(self, other: Batch) -> bool:
        """Large ones first: a large one that comes last is waited for."""
        return len(self.text) > len(other.text)

    def compile(self) -> None:
        """Compile it in this process."""
        try:
            if len(self.text) < INTERRUPTED_BYTES:
                self.object = self._object()
            else:
                self.object = interruptibly(self._object)
        except Exception as error:
            self.error = error
        self.is_done = True

    def _object(self) -> bytes:
        notes = self.owner.crash_notes
        with notes.noted(self.what, self.text) if notes else nullcontext():
            return object_bytes(self.text, self.owner.machine, self.opt_level, self.plain_addresses)

    @property
    def module_id(self) -> str:
        """What its LLVM module is called, and its object: as its first function, which is in no
        other of the program."""
        return self.names[0]

    @property
    def content(self) -> BatchContent:
        """What it is of: batches of one compiler with equal ones are interchangeable."""
        return tuple(self.names), tuple(self.texts), self.opt_level

    @cached_property
    def key(self) -> str:
        """By what an equal batch is known: the text, and all else that decides its code."""
        machine = self.owner.machine
        settings = (machine.cpu, machine.features, self.opt_level, installed_version("llvmlite"))
        return sha256("\0".join([*map(str, settings), self.text]).encode()).hexdigest()

    @property
    def what(self) -> str:
        """The first few of its functions, for messages."""
        more = f" and {len(self.names) - 3} more" if len(self.names) > 3 else ""
        return ", ".join(self.names[:3]) + more


class CodeCompiler:
    """One compilation: `add` functions, then take the `objects`."""

    def __init__(
        self,
        machine: Machine,
        opt_level: int = 2,
        threads: int = 0,
        *,
        is_strict: bool = True,
        crash_notes: CrashNotes | None = None,
        object_cache: Objects | None = None,
    ) -> None:
        """`threads` is how many others may help; 0 is none. `object_cache`: what need not be
        compiled again, and gets what is."""
        self.machine, self.opt_level, self.is_strict = machine, opt_level, is_strict
        self.crash_notes, self.object_cache = crash_notes, object_cache
        self.faults: list[Fault] = []
        """What failed and was compiled otherwise."""
        self.batches: list[Batch] = []
        self._draft: dict[BatchContent, Batch] = {}
        self._pool = shared_workers(os.getpid()) if threads > 0 else None
        if self._pool is not None:
            self._pool.start_threads(min(threads, MOST_HELPERS))
        self._names: list[str] = []
        self._texts: list[str] = []
        self._size = 0
        self._level = opt_level

    def add(
        self, name: str, text: str, opt_level: int | None = None, is_alone: bool = False
    ) -> None:
        """One more function, with the declarations it needs; `opt_level` if not that of all.
        `is_alone`: it is not gathered with others, which may call it by its name."""
        level = self.opt_level if opt_level is None else opt_level
        if is_alone or (len(text) >= ALONE_BYTES and self.opt_level == level):
            self._hand_over(Batch(self, [name], [text], level, True))
            return
        if level != self._level:
            self._gathered()
        self._level = level
        self._names.append(name)
        self._texts.append(text)
        self._size += len(text)
        if self._size >= BATCH_BYTES:
            self._gathered()

    def begin_again(self) -> None:
        """Take all that was added for a draft: what is added from now on is the program. Batches
        of the draft that turn up again are not compiled twice."""
        self._draft |= {batch.content: batch for batch in self.batches}
        self.batches, self._names, self._texts, self._size = [], [], [], 0

    def objects(self) -> list[bytes]:
        """The objects of all that was added, in order. Raises the first error there was; where
        that is not asked for, `FailedFunctionError` if a function cannot be compiled at all."""
        self._gathered()
        if self._pool is not None and self._draft:
            self._pool.forget(self._draft.values())
        waiting = self._pool.help(self) if self._pool is not None else self.batches
        for batch in waiting:
            if not batch.is_done:
                batch.compile()
            if batch.error is not None and self.is_strict:
                break
        compiled: list[bytes] = []
        for batch in self.batches:
            if batch.error is None:
                compiled.append(self._named(batch))
            elif self.is_strict:
                raise batch.error
            else:
                compiled += self._apart(batch, batch.error)
        return compiled

    def _named(self, batch: Batch) -> bytes:
        """The object of a batch, which is kept, with the names of its functions."""
        if not batch.symbols:
            return batch.object
        named = renamed(batch.object, batch.symbols)
        if named is None:  # LLVM lays objects out in another way than is known here
            piece = Batch(self, batch.names, batch.texts, batch.opt_level)
            self._alone(piece, batch.is_suspect)
            if piece.error is not None:
                raise piece.error
            return piece.object
        if self.object_cache is not None and not batch.is_known:
            self.object_cache.put_object(batch.key, batch.object)
        return named

    def _apart(self, batch: Batch, error: Exception) -> list[bytes]:
        """The objects of a batch that failed, one for each function."""
        objects: list[bytes] = []
        guilty: list[str] = []
        for name, text in zip(batch.names, batch.texts):
            piece = Batch(self, [name], [text], batch.opt_level)
            self._alone(piece, batch.is_suspect)
            if piece.error is not None and piece.opt_level:
                error = piece.error
                guilty.append(name)
                piece = Batch(self, [name], [text], 0)
                self._alone(piece, batch.is_suspect)
            if piece.error is not None:
                raise FailedFunctionError(name, piece.error) from piece.error
            objects.append(piece.object)
        culprit = Culprit("llvm", "code generation", ", ".join(guilty) or batch.what)
        remedy = "compiled without optimisation" if guilty else "compiled one by one"
        self.faults.append(Fault.of(error, culprit, remedy))
        return objects

    def _alone(self, batch: Batch, is_suspect: bool) -> None:
        """Compile a batch now; in a worker, if it may crash."""
        if not is_suspect or self._pool is None:
            batch.compile()
            return
        self._pool.put(batch)
        self._pool.wait(batch)

    def close(self) -> None:
        """Take back what nobody has begun; what is being compiled is thrown away when done."""
        if self._pool is not None:
            self._pool.take_back(self)

    def __enter__(self) -> CodeCompiler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _gathered(self) -> None:
        """Make a batch of the functions that were gathered, if there are any."""
        if self._texts:
            is_neutral = self._level == self.opt_level
            batch = Batch(self, self._names, self._texts, self._level, is_neutral)
            self._names, self._texts, self._size = [], [], 0
            self._hand_over(batch)

    def _hand_over(self, batch: Batch) -> None:
        """Let a batch be compiled, unless its object is known."""
        drafted = self._draft.pop(batch.content, None)
        self.batches.append(drafted or batch)
        if drafted is not None:
            return
        if self.object_cache is not None and batch.symbols:
            content = self.object_cache.object(batch.key)
            if content is not None:
                batch.object, batch.is_done, batch.is_known = content, True, True
                return
        if self.crash_notes is not None and self.crash_notes.is_known(batch.text):
            batch.is_suspect = True
            self._get_process()
        if self._pool is not None:
            self._pool.put(batch)

    def _get_process(self) -> None:
        """See to it that there is a worker process."""
        if self._pool is None:
            self._pool = shared_workers(os.getpid())
            for batch in self.batches[:-1]:
                if not batch.is_done:
                    self._pool.put(batch)
        self._pool.start(1)
