"""The host's end of infeeds and outfeeds: arrays in, arrays out, in the order of the program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from hloom.base.diagnostics import UsageError
from hloom.runtime.buffer import in_layout
from hloom.runtime.library import allocated
from hloom.runtime.native import Queue, library
from hloom.types.shape import Shape
from hloom.types.sizes import data_bytes, size_bytes


class Feeds:
    """The two queues of each device of an executable. Any thread may put and take while programs
    run."""

    def __init__(
        self, infeeds: Sequence[Shape], outfeeds: Sequence[Shape], program: int, devices: int = 1
    ) -> None:
        """`program` is the native one (hl_program), which must outlive this."""
        self._infeeds = list(dict.fromkeys(infeeds))
        self._outfeeds = list(outfeeds)
        self._program = program
        self._devices = devices

    def _queue(self, device: int, is_out: bool) -> Queue:
        """One of the two queues of a device; `UsageError` if there is none of that number."""
        if not 0 <= device < self._devices:
            raise UsageError(
                f"there is no device {device} to feed: the program runs on {self._devices}",
                rule="device-feeds",
                hint="they are numbered replica by replica, from 0 on",
            )
        native = library()
        open_queue = native.hl_program_outfeed if is_out else native.hl_program_infeed
        return Queue.of_program(allocated(open_queue(self._program, device), "a queue"))

    def put(self, value: Any, timeout_s: float | None = None, device: int = 0) -> None:
        """Give the next infeed its data: an array, or nested tuples of them as its shape says."""
        queue = self._queue(device, False)
        if not self._infeeds:
            raise UsageError("the program has no infeed", rule="infeed")
        problems = []
        for shape in self._infeeds:
            try:
                data = list(_infeed_bytes(shape, value))
            except UsageError as error:
                problems.append(error)
                continue
            queue.push(data, timeout_s)
            return
        raise problems[0]

    def take(self, timeout_s: float | None = None, device: int = 0) -> Any:
        """What the next outfeed has written: an array, or nested tuples of them."""
        if not self._outfeeds:
            raise UsageError("the program has no outfeed", rule="outfeed")
        number, *data = self._queue(device, True).pop(timeout_s)
        shape = self._outfeeds[int.from_bytes(number, "little")]
        return _outfeed_value(shape, iter(data))


def _infeed_bytes(shape: Shape, value: Any) -> Iterator[bytes]:
    """The bytes of each array of a value; `UsageError` if it is not of that shape."""
    if shape.is_tuple:
        if not isinstance(value, tuple | list) or len(value) != len(shape.elements):
            raise _unfit(shape, f"a {type(value).__name__}")
        for part, inside in zip(shape.elements, value):
            yield from _infeed_bytes(part, inside)
        return
    if not shape.is_array or shape.is_dynamic:
        raise UsageError(f"an infeed of {shape.text} cannot be given from Python", rule="infeed")
    array = np.asarray(value)
    if isinstance(value, bool | int | float | complex):
        array = np.asarray(value, shape.dtype.numpy)
    if array.dtype != shape.dtype.numpy or array.shape != shape.dims:
        raise _unfit(shape, f"{array.dtype.name}{list(array.shape)}")
    yield in_layout(array, shape).tobytes()


def _unfit(shape: Shape, what: str) -> UsageError:
    return UsageError(
        f"{what} does not fit the infeed, which reads {shape.text_without_layout}", rule="infeed"
    )


def _outfeed_value(shape: Shape, data: Iterator[bytes]) -> Any:
    if shape.is_tuple:
        return tuple([_outfeed_value(part, data) for part in shape.elements])
    if not shape.is_array:
        return None
    raw = next(data)
    assert len(raw) == size_bytes(shape)
    flat = np.frombuffer(raw[: data_bytes(shape)], shape.dtype.numpy).copy()
    layout = shape.layout
    if layout is None or layout.is_default or shape.rank < 2:
        return flat.reshape(shape.dims)
    order = layout.minor_to_major[::-1]
    array = flat.reshape([shape.dims[d] for d in order])
    return array.transpose([order.index(d) for d in range(shape.rank)])
