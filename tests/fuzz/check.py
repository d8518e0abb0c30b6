"""What must hold for any input at all: an answer or one `HloError`, soon, and never a crash.

If an input is read, then what it was read as must print, and the print must read back as itself.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager

from hloom.base.diagnostics import HloError

LIMIT_S = 20


class TooSlow(BaseException):
    """An input took longer than it may; no handler of `Exception` may hide that."""


PATIENCE = 20
"""Times the limit, after which also what waits is stopped."""


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TooSlow when the block takes longer (on systems that have such timers).

    Processor time counts, which says the same on a machine that has other work; what waits and does
    not compute is stopped much later."""

    def stop(signum: int, frame: object) -> None:
        raise TooSlow(f"took more than {seconds} s")

    if not hasattr(signal, "setitimer"):
        yield
        return
    timers = (
        (signal.ITIMER_PROF, signal.SIGPROF, 1),
        (signal.ITIMER_REAL, signal.SIGALRM, PATIENCE),
    )
    old = [signal.signal(said, stop) for _, said, _ in timers]
    for timer, _, times in timers:
        signal.setitimer(timer, seconds * times)
    try:
        yield
    finally:
        for (timer, said, _), handler in zip(timers, old):
            signal.setitimer(timer, 0)
            signal.signal(said, handler)


def verdict(given: str | bytes) -> str:
    """`invalid`, `refused` (read, but it broke a rule) or `valid`; any other exception is a bug.

    Raises AssertionError when what was read does not survive being written and read again, in the
    form it came in: bytes may hold names that no text can.
    """
    from hloom.ir.proto import module_from_bytes, module_to_bytes
    from hloom.ir.text import PrintOptions, parse_module, show_module
    from hloom.ir.verify import verify

    with time_limit(LIMIT_S):
        try:
            module = parse_module(given) if isinstance(given, str) else module_from_bytes(given)
        except HloError as error:
            assert str(error), "an error without a message"
            return "invalid"
        try:
            verify(module)
        except HloError as error:
            assert str(error), "an error without a message"
            return "refused"
        text = show_module(module, PrintOptions(large_constants=True))
        if isinstance(given, str):
            again = show_module(parse_module(text), PrintOptions(large_constants=True))
            assert again == text, "the print does not read back as itself"
        else:
            data = module_to_bytes(module)
            again = module_to_bytes(module_from_bytes(data))
            assert again == data, "the bytes do not read back as themselves"
        return "valid"
