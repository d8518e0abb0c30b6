"""What work costs on one unit (a core, a multiprocessor) of a device, in nanoseconds.

The one table that fusion, tiling, splitting into steps and expected run times ask. Orders of
magnitude matter: no result depends on it. Every number can be set in the `[costs]` table of a
device's file.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Nanoseconds; the defaults were measured on one core of a Zen 4 at 2.6 GHz."""

    operation_ns: float = 0.03
    """A cheap vector operation, for each element of a body."""
    element_ns: float = 0.08
    """Loading and storing an element in the nearest cache."""
    byte_ns: float = 0.05
    """Moving a byte to or from where large values are."""
    copy_byte_ns: float = 0.1
    """A byte of a plain copy: it is read and written."""
    routine_byte_ns: float = 2.0
    """A byte of what a routine of the runtime reads and writes: sorting 1,000 numbers takes about
    15 us, a Cholesky decomposition of 64 x 64 as long."""
    kernel_ns: float = 150.0
    """The start of a kernel, its arguments and what its end makes wait."""
    step_ns: float = 5.0
    """The start of one step of a kernel's grid."""
    serial_ns: float = 4_000.0
    """A kernel shorter than this is not worth a second thread."""
    chunk_ns: float = 10_000.0
    """What a thread takes at a time."""

    def grain(self, steps: int, one_ns: float, units: int) -> int:
        """How many steps of a kernel a thread takes at a time, so that each of `units` has some;
        0 where the whole kernel is too short to be shared. Two parts at least: who runs a program
        may have more cores than who compiled it."""
        if steps * one_ns < self.serial_ns:
            return 0
        return max(1, min(int(self.chunk_ns / max(one_ns, 0.001)), -(-steps // max(units, 2))))

    def steps_ns(self, elements: float, work: float) -> float:
        """One grid step that computes so many elements, `work` cheap operations each."""
        return self.step_ns + elements * (self.element_ns + self.operation_ns * work)
