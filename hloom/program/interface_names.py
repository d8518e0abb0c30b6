"""What people call the arguments and results of a program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hloom.base.diagnostics import UsageError


class InterfaceNames(NamedTuple):
    """Names of the parameters of the entry computation, and of the parts of its result."""

    arguments: tuple[str, ...]
    results: tuple[str, ...]
    """One for each element of a tuple; one where the result is none."""

    def chosen(
        self, arguments: Sequence[str] | None, results: Sequence[str] | None
    ) -> InterfaceNames:
        """The same with names that somebody chose; `UsageError` where there are too few, or two
        alike."""
        return InterfaceNames(
            _chosen("Argument", self.arguments, arguments),
            _chosen("Result", self.results, results),
        )


def _chosen(what: str, before: tuple[str, ...], names: Sequence[str] | None) -> tuple[str, ...]:
    if names is None:
        return before
    if len(names) != len(before):
        raise UsageError(
            f"{len(names)} names for {len(before)} {what.lower()}s: {', '.join(names)}",
            rule="interface-names",
            hint=f"one for each, in this order: {', '.join(before)}",
        )
    if len(set(names)) < len(names):
        raise UsageError(f"{what} names must be unique: {', '.join(names)}", rule="interface-names")
    return tuple(names)
