"""A process that turns LLVM text into objects, for another that such a text ended before.

The worker imports nothing but the way from text to objects, says hello, and answers one request
after another until its input ends, which it does when the parent is gone.

    request: u32 length of settings, u64 length of text, settings (JSON), text
    answer:  u8 status, u64 length, object (status 0) or message (status 1)

Settings are `{"triple", "cpu", "features", "opt_level", "plain_addresses"}`. All numbers are
little-endian.
"""

from __future__ import annotations

import json
import os
import select
import signal
import struct
import sys
from typing import BinaryIO

from hloom.base.diagnostics import HloError

HELLO = b"hloom worker 1\n"
REQUEST = struct.Struct("<IQ")
ANSWER = struct.Struct("<BQ")
DONE, FAILED = 0, 1
ORPHAN_CHECK_S = 10.0


def read_exactly(stream: BinaryIO, count: int) -> bytes:
    """The next `count` bytes; `EOFError` if the stream ends before."""
    parts = []
    while count:
        part = stream.read(count)
        if not part:
            raise EOFError("the other process has gone")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def answer(settings: bytes, text: bytes) -> tuple[int, bytes]:
    """Status and object (or message) for one request."""
    from hloom.codegen.llvm.machine import object_code

    try:
        return DONE, object_code(text.decode(), **json.loads(settings))
    except HloError as error:
        return FAILED, error.message.encode()


def _has_request(stream: BinaryIO, parent: int) -> bool:
    """Waits for a request; False when the parent is gone, even if a fork of it holds the pipe."""
    while True:
        ready, _, _ = select.select([stream], [], [], ORPHAN_CHECK_S)
        if ready:
            return True
        if os.getppid() != parent:
            return False


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers requests until there are no more. Both streams are unbuffered."""
    parent = os.getppid()
    # Slow to load, and needed by every request: done before anybody waits for it.
    from hloom.codegen.llvm.machine import Machine

    Machine.host()
    answers.write(HELLO)
    try:
        while _has_request(requests, parent):
            lengths = REQUEST.unpack(read_exactly(requests, REQUEST.size))
            settings, text = (read_exactly(requests, n) for n in lengths)
            status, result = answer(settings, text)
            _write(answers, ANSWER.pack(status, len(result)) + result)
    except (EOFError, BrokenPipeError):
        return


def _write(stream: BinaryIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[stream.write(view) :]


def main() -> None:
    """Serves on what were standard input and output; anything printed goes to standard error."""
    # Ctrl-C is for the parent, which then ends this process or goes on using it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    requests = os.fdopen(os.dup(0), "rb", buffering=0)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    serve(requests, answers)


if __name__ == "__main__":
    main()
    sys.stderr.flush()
    os._exit(0)  # nothing to tidy up, and LLVM takes its time to unload
