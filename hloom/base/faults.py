"""Faults of the compiler itself: whose they are, what was done instead, and how a user is told.

What is wrong with a program is an `HloError` that says so. Anything else that is raised while a
verified program is compiled is a fault of ours. Whoever knows best what was being done then names
it (`blame`); whoever is able to goes on without it; and the user gets one warning for all of them.
Ctrl-C (`KeyboardInterrupt`) is no `Exception`, so nothing here ever takes it for a fault.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hloom.base.diagnostics import GraphError, HloError, UnsupportedError, UsageError

MOST_WORDS = 300
"""Characters of an error's message that are shown; a report has all of them."""


class CompilerFaultWarning(RuntimeWarning):
    """A fault of hloom that a program was compiled in spite of: it is right, and may be slower."""


class CompilerFaultError(HloError):
    """A fault of hloom that nothing could be done about."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """What was at work when something went wrong, which may be left out.

    `kind` is pass, fusion (a kind of fusions), fused (one fusion), kernel (a family of kernels),
    step (of compilation) or llvm; `where` narrows it to one kernel, "" being all.
    """

    kind: str
    name: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" + (f" at {self.where}" if self.where else "")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: whose, what was raised, and what was done instead."""

    culprit: Culprit
    error: str
    remedy: str
    traceback: str = ""

    @staticmethod
    def of(error: BaseException, culprit: Culprit, remedy: str) -> Fault:
        """The fault that an exception shows."""
        lines = "".join(traceback.format_exception(error))
        words = " ".join(str(error).split())[:MOST_WORDS]
        name = type(error).__name__
        return Fault(culprit, f"{name}: {words}" if words else name, remedy, lines)

    def __str__(self) -> str:
        return f"{self.culprit}: {self.error}; {self.remedy}"


_ATTRIBUTE = "_hloom_culprit"


def blame(error: BaseException, culprit: Culprit) -> None:
    """Say who is at fault; the first, who was nearest, stays."""
    if not hasattr(error, _ATTRIBUTE):
        setattr(error, _ATTRIBUTE, culprit)
        error.add_note(f"while hloom compiles: {culprit}")


@contextmanager
def blamed(kind: str, name: str) -> Iterator[None]:
    """Whatever is raised inside is this one's fault, unless somebody nearer was blamed."""
    try:
        yield
    except Exception as error:
        blame(error, Culprit(kind, name))
        raise


def culprit_of(error: BaseException | None) -> Culprit | None:
    """Who was blamed; for it, or for what caused it."""
    culprit, cause = None, error
    while culprit is None and cause is not None:
        culprit, cause = getattr(cause, _ATTRIBUTE, None), cause.__cause__
    return culprit


VALUES = "hloom.types."
"""The modules of types, shapes, layouts and literals."""


def is_fault(error: Exception) -> bool:
    """Whether an exception of a verified program's compilation is a fault of ours."""
    is_users = isinstance(error, UnsupportedError | UsageError)
    return not is_users or isinstance(error, GraphError) or _is_of_values(error)


def _is_of_values(error: Exception) -> bool:
    """Whether a value of the program was asked for what it does not have, such as a tuple for its
    number of elements: verified programs hold no such value, so who asked is at fault."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(VALUES)
