"""Memory of kernels: bounds, reads of what was never written, and races between steps.

A step may only touch what no other step writes. To check that, each buffer remembers for each
element which step has written it, one step that has read it, and whether others have too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hloom.base.diagnostics import EvalError
from hloom.types.dtype import DType

Array = np.ndarray[Any, Any]


class BrokenAccess(Exception):
    """What is wrong with an access, in which step, and the rule; the op is added by the caller."""

    def __init__(self, message: str, step: int, rule: str) -> None:
        super().__init__(message)
        self.message, self.step, self.rule = message, step, rule


class Track:
    """Who has touched each element of a buffer; step -1 is nobody."""

    __slots__ = ("many", "reader", "writer")

    def __init__(self, size: int) -> None:
        self.writer = np.full(size, -1, np.int64)
        self.reader = np.full(size, -1, np.int64)
        self.many = np.zeros(size, bool)
        """Whether steps other than `reader` have read it too."""


class Memory:
    """A buffer as the steps of one run see it.

    `array` is flat. A private buffer has a copy of `size` elements for every lane (a step of the
    batch that is run at once). `written` marks what has been, where reading before is wrong.
    """

    __slots__ = ("array", "name", "private", "size", "track", "written")

    def __init__(
        self,
        name: str,
        array: Array,
        size: int,
        private: bool = False,
        fresh: bool = False,
        track: Track | None = None,
    ) -> None:
        self.name, self.array, self.size, self.private = name, array, size, private
        self.written = np.zeros(array.size, bool) if fresh else None
        self.track = track

    def places(self, offsets: Array, mask: Array | None, lanes: Array, steps: Array) -> Any:
        """Places in `array` of offsets [lanes, n], and the step of each; masked ones are gone."""
        inside = (offsets >= 0) & (offsets < self.size)
        owners = np.broadcast_to(steps[:, None], offsets.shape)
        wrong = ~inside if mask is None else ~inside & mask
        if wrong.any():
            lane, k = (int(n[0]) for n in np.nonzero(wrong))
            raise BrokenAccess(
                f"element {offsets[lane, k]} of {self.name}, which has {self.size}",
                int(steps[lane]),
                "kernel-bounds",
            )
        if self.private:
            offsets = offsets + lanes[:, None] * self.size
        if mask is None:
            return offsets.reshape(-1), owners.reshape(-1)
        return offsets[mask], owners[mask]

    def read(self, places: Array, steps: Array) -> Array:
        """The elements at places, read by these steps."""
        if self.written is not None and not self.written[places].all():
            k = int(np.flatnonzero(~self.written[places])[0])
            raise BrokenAccess(
                f"element {int(places[k]) % max(self.size, 1)} of {self.name} is read before it "
                "is written",
                int(steps[k]),
                "kernel-unwritten",
            )
        if self.track is not None:
            self._note_read(self.track, places, steps)
        return self.array[places]

    def write(self, places: Array, values: Array, steps: Array) -> None:
        """Put values at places; of equal places within a step the last wins."""
        if self.track is not None:
            self._note_write(self.track, places, steps)
        if self.written is not None:
            self.written[places] = True
        self.array[places] = values

    def _note_read(self, track: Track, places: Array, steps: Array) -> None:
        writer = track.writer[places]
        self._refuse(places, steps, writer, (writer >= 0) & (writer != steps), "reads", "wrote")
        unread = track.reader[places] < 0
        track.reader[places[unread]] = steps[unread]
        others = track.reader[places] != steps
        track.many[places[others]] = True

    def _note_write(self, track: Track, places: Array, steps: Array) -> None:
        writer = track.writer[places]
        self._refuse(places, steps, writer, (writer >= 0) & (writer != steps), "writes", "wrote")
        reader = track.reader[places]
        read = (reader >= 0) & ((reader != steps) | track.many[places])
        self._refuse(places, steps, reader, read, "writes", "read")
        track.writer[places] = steps
        writer = track.writer[places]
        self._refuse(places, steps, writer, writer != steps, "writes", "writes")

    def _refuse(
        self, places: Array, steps: Array, others: Array, wrong: Array, what: str, did: str
    ) -> None:
        if wrong.any():
            k = int(np.flatnonzero(wrong)[0])
            other = f"step {others[k]}" if others[k] != steps[k] else "another step"
            raise BrokenAccess(
                f"{what} element {places[k]} of {self.name}, which {other} {did}",
                int(steps[k]),
                "kernel-race",
            )


def parameter_memory(kernel: Any, buffers: list[Array], races: bool) -> dict[Any, Memory]:
    """The memory of each parameter's value; `EvalError` when a buffer is none for it.

    One array given for two parameters is one memory to the check for races.
    """
    if len(buffers) != len(kernel.params):
        raise EvalError(f"@{kernel.name} takes {len(kernel.params)} buffers, not {len(buffers)}")
    tracks: dict[int, Track] = {}
    memories: dict[Any, Memory] = {}
    for param, array in zip(kernel.params, buffers):
        _require_fit(kernel.name, param.name, param.value.dtype, param.size, array)
        track = tracks.setdefault(id(array), Track(array.size)) if races else None
        name = f"%{param.name}"
        shared = sum(other is array for other in buffers) > 1
        fresh = param.role in ("out", "part") and not shared
        memories[param.value] = Memory(name, array, param.size, fresh=fresh, track=track)
    return memories


def _require_fit(kernel: str, name: str, dtype: DType, size: int, array: Array) -> None:
    if array.dtype != dtype.numpy or array.ndim != 1 or array.size < size:
        raise EvalError(
            f"buffer %{name} of @{kernel} needs {size} elements of {dtype} in one dimension, not "
            f"{array.dtype}{list(array.shape)}"
        )
