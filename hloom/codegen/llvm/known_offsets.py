"""Tiles of offsets whose distances are known when code is made: those of repeated elements.

What a gather reads then is a piece of memory, of which a shuffle picks: `repeat` by 4 is a load of
16 elements in place of 64 loads of one (0.54 of the time, a tenth of the text).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.kernel.kernel import Value

Numbers = np.ndarray[Any, np.dtype[np.int64]]
Known = dict[Value, Numbers | None]
"""What has been found of the tiles of a kernel: each is asked about by all that is computed of it.
"""

MOST_READ = 2
"""Elements of memory that are read for one of the tile: alone, each is a load and an insert."""
LEAST_RUN = 2
"""Elements side by side, on the mean, that are worth a load of their own."""
COMPARES = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
LARGEST = 1 << 24
"""Numbers above this are not followed: those of a narrow type may have wrapped around."""


def known_distances(offsets: Value, known: Known) -> list[tuple[int, ...]] | None:
    """For each row of a tile of offsets how far its lanes are from the first; None if that is not
    known, or if they lie so far apart that most of the memory between them is not read."""
    if not offsets.shape or offsets.shape[-1] < 2:
        return None
    rows = _rows_of_distances(offsets, known)
    if rows is None:
        return None
    reach = rows.max(axis=1) - rows.min(axis=1)
    if reach.min() <= 0 or reach.max() >= MOST_READ * rows.shape[1]:
        return None
    return [tuple(row) for row in rows.tolist()]


def known_runs(offsets: Value, known: Known) -> list[tuple[int, ...]] | None:
    """What `known_distances` says, where lanes lie far apart but several of them side by side; None
    if that is not known, or runs are short."""
    if not offsets.shape or offsets.shape[-1] < 2:
        return None
    rows = _rows_of_distances(offsets, known)
    if rows is None:
        return None
    runs = 1 + (np.diff(rows, axis=1) != 1).sum(axis=1)
    if runs.max() * LEAST_RUN > rows.shape[1]:
        return None
    return [tuple(row) for row in rows.tolist()]


def far_distances(offsets: Value, known: Known) -> list[tuple[int, ...]] | None:
    """What `known_distances` says, however far apart the lanes lie; None if it is not known."""
    if not offsets.shape or offsets.shape[-1] < 2:
        return None
    rows = _rows_of_distances(offsets, known)
    return None if rows is None else [tuple(row) for row in rows.tolist()]


def pieces_of(part: tuple[int, ...], row: tuple[int, ...], width: int) -> list[int]:
    """Where pieces of memory of this width begin that hold all elements of a part of a row, in
    order; none reaches beyond the first or the last element of the row."""
    starts: list[int] = []
    last = max(row) - width + 1
    for x in sorted(part):
        if not starts or x >= starts[-1] + width:
            starts.append(min(x, last))
    return starts


def _rows_of_distances(offsets: Value, known: Known) -> Numbers | None:
    distances = _distances(offsets, known)
    return None if distances is None else distances.reshape(-1, offsets.shape[-1])


def known_mask(mask: Value, known: Known) -> list[tuple[bool, ...]] | None:
    """For each row of a mask which lanes it lets through; None if that is not known."""
    truth = _truth(mask, known)
    if truth is None or not mask.shape:
        return None
    return [tuple(row) for row in truth.reshape(-1, mask.shape[-1]).tolist()]


def known_number(x: Value, row: int, known: Known) -> int | None:
    """The first element of a row of a tile; None if it is not known."""
    numbers = known_numbers(x, known)
    if numbers is None:
        return None
    return int(numbers.reshape(-1, x.shape[-1] if x.shape else 1)[row, 0])


def known_numbers(x: Value, known: Known) -> Numbers | None:
    """All elements of a tile; None if they are not known."""
    if x not in known:
        known[x] = _numbers(x, known)
    return known[x]


def _truth(x: Value, known: Known) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """The elements of a mask."""
    op = x.op
    if op is None:
        return None
    if op.opcode == "broadcast":
        before = _truth(op.operands[0], known)
        return None if before is None else np.broadcast_to(before, x.shape)
    if op.opcode in ("and", "or"):
        first, second = (_truth(y, known) for y in op.operands)
        if first is None or second is None:
            return None
        return first & second if op.opcode == "and" else first | second
    if op.opcode != "compare":
        return None
    numbers = [known_numbers(y, known) for y in op.operands]
    if numbers[0] is None or numbers[1] is None:
        return None
    return COMPARES[op.attrs["direction"]](numbers[0], numbers[1])


def _distances(x: Value, known: Known) -> Numbers | None:
    """The elements less the first of their row."""
    numbers = known_numbers(x, known)
    if numbers is not None:
        return numbers - numbers[..., :1]
    op = x.op
    if op is None:
        return None
    if op.opcode == "broadcast":
        before = op.operands[0]
        if before.shape[-1:] in ((), (1,)):
            return np.zeros(x.shape, np.int64)
        distances = _distances(before, known)
        return None if distances is None else np.broadcast_to(distances, x.shape)
    if op.opcode == "convert" and op.operands[0].dtype.bits <= x.dtype.bits:
        return _distances(op.operands[0], known)
    if op.opcode == "add":
        first, second = (_distances(y, known) for y in op.operands)
        if first is not None and second is not None:
            return first + second
    return None


def _numbers(x: Value, known: Known) -> Numbers | None:
    """The elements themselves."""
    op = x.op
    if op is None or not x.dtype.is_signed_int:
        return None
    numbers: Numbers | None = None
    if op.opcode == "iota":
        along = [1] * len(x.shape)
        axis = op.attrs["axis"]
        along[axis] = x.shape[axis]
        numbers = np.broadcast_to(np.arange(x.shape[axis]).reshape(along), x.shape)
    elif op.opcode == "constant":
        number = int(op.attrs["value"])
        numbers = np.full(x.shape, number) if abs(number) < LARGEST else None
    elif op.opcode in ("broadcast", "convert"):
        before = known_numbers(op.operands[0], known)
        numbers = None if before is None else np.broadcast_to(before, x.shape)
    elif op.opcode in ("add", "multiply", "divide", "remainder"):
        first, second = (known_numbers(y, known) for y in op.operands)
        if first is not None and second is not None:
            numbers = _computed(op.opcode, first, second)
    if numbers is None or numbers.max() >= LARGEST or numbers.min() <= -LARGEST:
        return None
    return numbers


def _computed(opcode: str, first: Numbers, second: Numbers) -> Numbers | None:
    """Of numbers below `LARGEST`."""
    if opcode == "add":
        return first + second
    if opcode == "multiply":
        return first * second
    if first.min() < 0 or second.min() <= 0:
        return None  # quotients of negative numbers are rounded another way
    return first // second if opcode == "divide" else first % second
