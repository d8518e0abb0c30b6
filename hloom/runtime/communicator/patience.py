"""How long devices wait for one another."""

from __future__ import annotations

from typing import NamedTuple

from hloom.base.diagnostics import UsageError
from hloom.base.options import Options

PATIENCE_OPTIONS = (
    "cpu_collective_call_warn_stuck_timeout_seconds",
    "cpu_collective_call_terminate_timeout_seconds",
    "cpu_collective_timeout_seconds",
)
"""Those that say it, in the order of the fields of `Patience`."""


class Patience(NamedTuple):
    """After how many seconds a device that waits for others says so, gives up on others that do
    nothing, and gives up on others that compute."""

    warn_s: float = 20.0
    terminate_s: float = 40.0
    most_s: float = 1800.0

    @staticmethod
    def of(options: Options) -> Patience:
        """As options say; `UsageError` for a time below 0."""
        for name in PATIENCE_OPTIONS:
            if options[name] < 0:
                raise UsageError(
                    f"--{name}={options[name]} is no time to wait for",
                    rule="option",
                    hint="give seconds, 0 or more",
                )
        return Patience(*[options[name] for name in PATIENCE_OPTIONS])
