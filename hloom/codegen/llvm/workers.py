"""Who compiles batches for this process, and what waits for them (`compile.py` says what for)."""

from __future__ import annotations

import atexit
import heapq
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.interrupt import underway
from hloom.codegen.llvm.machine import plain_addresses_at_work
from hloom.codegen.llvm.worker import ANSWER, DONE, HELLO, REQUEST, read_exactly

if TYPE_CHECKING:
    from hloom.codegen.llvm.compile import Batch, CodeCompiler

LOG = logging.getLogger("hloom")
ATTEMPTS = 2
"""Workers that a batch may cost before it is taken for what kills them."""


class Workers:
    """The threads and worker processes that compile, and the batches that wait for them.

    Each process has a thread that feeds it. All of them live until this process ends.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition()
        """Guards all below; notified when a batch comes or is done, and when a worker goes."""
        self.waiting: list[Batch] = []
        """A heap."""
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.feeders = 0
        self.helpers = 0
        """Threads that compile in this process."""
        self.is_broken = False
        """Workers cannot be started here."""
        self._pid = os.getpid()
        atexit.register(self.close)

    def start(self, count: int) -> None:
        """See to it that there are `count` workers, without waiting for them."""
        with self.changed:
            if self.is_broken:
                return
            missing = count - self.feeders
            self.feeders = max(self.feeders, count)
        for _ in range(missing):
            try:
                threading.Thread(target=self._feed, name="hloom-worker", daemon=True).start()
            except RuntimeError as error:  # no more threads can be had
                LOG.info("no thread for a worker process: %s", error)
                with self.changed:
                    self.feeders -= 1

    def start_threads(self, count: int) -> None:
        """See to it that `count` threads of this process compile what is not suspect."""
        with self.changed:
            missing = count - self.helpers
            self.helpers = max(self.helpers, count)
        for _ in range(missing):
            try:
                threading.Thread(target=self._assist, name="hloom-compile", daemon=True).start()
            except RuntimeError as error:  # no more can be had, or Python is ending
                LOG.info("no thread to compile in: %s", error)
                with self.changed:
                    self.helpers -= 1

    def put(self, batch: Batch) -> None:
        """Let a thread or a process have it as soon as one is free."""
        with self.changed:
            heapq.heappush(self.waiting, batch)
            self.changed.notify_all()

    def help(self, owner: CodeCompiler) -> Iterable[Batch]:
        """Batches of the owner for the caller to compile, until all of them are done."""
        left = list(owner.batches)
        while left:
            with self.changed:
                mine = [b for b in self.waiting if b.owner is owner]
                if self.feeders:
                    mine = [b for b in mine if not b.is_suspect]
                if mine:
                    batch = self._taken(mine)
                else:
                    left = [b for b in left if not b.is_done]
                    failed = owner.is_strict and any(b.error for b in owner.batches)
                    if failed or not left:
                        return
                    self.changed.wait()
                    continue
            yield batch

    def wait(self, batch: Batch) -> None:
        """Wait for a batch that only workers may compile; it fails where there are none."""
        with self.changed:
            while not batch.is_done:
                if not self.feeders:
                    self.waiting = [b for b in self.waiting if b is not batch]
                    heapq.heapify(self.waiting)
                    batch.error = HloError("no worker process is left", rule="llvm-worker")
                    batch.is_done = True
                    return
                self.changed.wait()

    def take_back(self, owner: CodeCompiler) -> None:
        """Forget the owner's batches that nobody has begun."""
        with self.changed:
            self.waiting = [b for b in self.waiting if b.owner is not owner]
            heapq.heapify(self.waiting)

    def forget(self, batches: Iterable[Batch]) -> None:
        """Let nobody begin these."""
        gone = set(batches)
        with self.changed:
            self.waiting = [b for b in self.waiting if b not in gone]
            heapq.heapify(self.waiting)

    def close(self) -> None:
        """End all workers of this process; not those of the process it was forked from."""
        if os.getpid() == self._pid:
            self.is_broken = True
            for process in list(self.processes.values()):
                process.kill()
                process.wait()

    def _taken(self, batches: list[Batch]) -> Batch:
        """The one of these to compile next: of the kind that is at work now, for the other would
        have to wait, and of these the largest."""
        is_plain = plain_addresses_at_work()
        batch = min(batches, key=lambda b: (b.plain_addresses != is_plain, -len(b.text)))
        self.waiting.remove(batch)
        heapq.heapify(self.waiting)
        return batch

    def _assist(self) -> None:
        """Compile batches in this process, one after another."""
        while True:
            with self.changed:
                while not (safe := [b for b in self.waiting if not b.is_suspect]):
                    self.changed.wait()
                batch = self._taken(safe)
            try:
                with underway():
                    batch.compile()
            except BaseException as error:
                # A mistake of ours: who waits for the batch is told, and this thread ends with it.
                batch.error = HloError(f"a code generator failed: {error!r}", rule="llvm-worker")
                with self.changed:
                    self.helpers -= 1
                raise
            finally:
                self._done(batch)

    # -- feeding, each worker process by a thread of its own

    def _feed(self) -> None:
        """Start a worker and give it batches; when it dies of one, start another."""
        try:
            while not self.is_broken:
                try:
                    process = _started()
                except (OSError, EOFError, ValueError) as error:
                    LOG.info("no worker process, code is generated in this one: %s", error)
                    self.is_broken = True
                    return
                with self.changed:
                    self.processes[process.pid] = process
                try:
                    self._serve(process)
                finally:
                    with self.changed:
                        self.processes.pop(process.pid, None)
                    process.kill()
                    process.wait()
        finally:
            with self.changed:
                self.feeders -= 1
                self.changed.notify_all()

    def _serve(self, process: subprocess.Popen[bytes]) -> None:
        while True:
            with self.changed:
                while not self.waiting:
                    self.changed.wait()
                batch = heapq.heappop(self.waiting)
            try:
                batch.object, batch.error = _compiled(process, batch)
            except (OSError, EOFError, ValueError):
                # The pipe broke, ended, was closed, or held what is no answer: the worker is gone.
                self._lost(process, batch)
                return
            except BaseException as error:
                # A mistake of ours: who waits for the batch is told, and this thread ends with it.
                batch.error = HloError(f"a code generator failed: {error!r}", rule="llvm-worker")
                self._done(batch)
                raise
            self._done(batch)

    def _done(self, batch: Batch) -> None:
        """Tell who waits that the batch has its object or its error."""
        with self.changed:
            batch.is_done = True
            self.changed.notify_all()

    def _lost(self, process: subprocess.Popen[bytes], batch: Batch) -> None:
        """A worker died while it compiled a batch: somebody else's turn, or an error."""
        process.kill()
        code = process.wait()
        batch.attempts += 1
        # Killed from outside, most likely, for the kernel's want of memory or by hand.
        batch.is_suspect = code != -signal.SIGKILL
        with self.changed:
            if batch.is_suspect and batch.attempts >= ATTEMPTS:
                batch.error = crash_error(batch.what, code)
                batch.is_done = True
            else:
                heapq.heappush(self.waiting, batch)
            self.changed.notify_all()


def crash_error(what: str, code: int) -> HloError:
    """The error for functions that LLVM does not survive."""
    return HloError(
        f"LLVM ended the worker process that compiled {what} ({_cause(code)})",
        rule="llvm-crash",
        hint="this is a bug: please report the program; hloom eval runs it",
    )


@cache
def shared_workers(process_id: int) -> Workers:
    """The workers of this process; a fork asks with another number and gets its own."""
    return Workers()


def _cause(code: int) -> str:
    if code >= 0:
        return f"exit status {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _started() -> subprocess.Popen[bytes]:
    """A new worker that has said hello; `EOFError` or `ValueError` if it says something else."""
    import llvmlite

    if not sys.executable:
        raise ValueError("it is not known which program is Python")
    roots = [str(Path(__file__).parents[3]), str(Path(llvmlite.__file__).parents[1])]
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([*roots, *([inherited] if inherited else [])])
    process = subprocess.Popen(
        # -P: the folder we stand in is nobody's business.
        [sys.executable, "-P", "-m", "hloom.codegen.llvm.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        greeting = read_exactly(_pipe(process.stdout), len(HELLO))
        if greeting != HELLO:
            raise ValueError(f"a worker said {greeting!r}")
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


def _pipe(stream: IO[bytes] | None) -> Any:
    assert stream is not None
    return stream


def _compiled(process: subprocess.Popen[bytes], batch: Batch) -> tuple[bytes, HloError | None]:
    """What a worker makes of a batch; `OSError` or `EOFError` if it dies."""
    machine = batch.owner.machine.as_dict()
    how = {"opt_level": batch.opt_level, "plain_addresses": batch.plain_addresses}
    settings = json.dumps({**machine, **how}).encode()
    text = batch.text.encode()
    requests, answers = _pipe(process.stdin), _pipe(process.stdout)
    view = memoryview(REQUEST.pack(len(settings), len(text)) + settings + text)
    while view:
        view = view[requests.write(view) :]
    status, length = ANSWER.unpack(read_exactly(answers, ANSWER.size))
    result = read_exactly(answers, length)
    if status == DONE:
        return result, None
    return b"", HloError(result.decode(), rule="llvm")
