"""What holds where a pred of a kernel is true, and where it is false."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hloom.kernel.proof.linear import Linear


class Truth(NamedTuple):
    """What is at least zero where a pred is true, and where it is false.

    `exact` says of each whether the pred is true, or false, wherever that holds.
    """

    when: tuple[Linear, ...] = ()
    unless: tuple[Linear, ...] = ()
    exact: tuple[bool, bool] = (False, False)


ANY = Truth()
BOTH = True, True
COMPARED: dict[str, Callable[[Linear], Truth]] = {
    "LT": lambda d: Truth((d.shifted(-1),), (d.times(-1),), BOTH),
    "LE": lambda d: Truth((d,), (d.times(-1).shifted(-1),), BOTH),
    "GT": lambda d: Truth((d.times(-1).shifted(-1),), (d,), BOTH),
    "GE": lambda d: Truth((d.times(-1),), (d.shifted(-1),), BOTH),
    "EQ": lambda d: Truth((d, d.times(-1)), (), (True, False)),
    "NE": lambda d: Truth((), (d, d.times(-1)), (False, True)),
}
