"""What handlers of custom calls raise, on its way to who runs the program.

Nothing can be raised through native code: it is kept here by the address of the context.
"""

from __future__ import annotations

_RAISED: dict[int, BaseException] = {}


def hold_raised(context: int, error: BaseException) -> None:
    """Keep what a handler raised; the first one counts."""
    _RAISED.setdefault(context, error)


def take_raised(context: int) -> BaseException | None:
    """What was kept for a context, which is forgotten; an interruption is raised at once."""
    error = _RAISED.pop(context, None)
    if error is not None and not isinstance(error, Exception):
        raise error
    return error
