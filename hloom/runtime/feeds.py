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
                data = list(bytes_of_value(shape, value, "infeed"))
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
        return value_of_bytes(shape, iter(data))


def bytes_of_value(shape: Shape, value: Any, rule: str) -> Iterator[bytes]:
    """The bytes of each array of a value; `UsageError` if it is not of the shape that is read."""
    if shape.is_tuple:
        if not isinstance(value, tuple | list) or len(value) != len(shape.elements):
            raise _unfit(shape, f"a {type(value).__name__}", rule)
        for part, inside in zip(shape.elements, value):
            yield from bytes_of_value(part, inside, rule)
        return
    if not shape.is_array or shape.is_dynamic:
        raise UsageError(f"an {rule} of {shape.text} cannot be given from Python", rule=rule)
    array = np.asarray(value)
    if isinstance(value, bool | int | float | complex):
        array = np.asarray(value, shape.dtype.numpy)
    if array.dtype != shape.dtype.numpy or array.shape != shape.dims:
        raise _unfit(shape, f"{array.dtype.name}{list(array.shape)}", rule)
    yield in_layout(array, shape).tobytes()


def _unfit(shape: Shape, what: str, rule: str) -> UsageError:
    return UsageError(
        f"{what} does not fit the {rule}, which reads {shape.text_without_layout}", rule=rule
    )


def value_of_bytes(shape: Shape, data: Iterator[bytes]) -> Any:
    """The array of a shape, or nested tuples of them, of these bytes; None for a token."""
    if shape.is_tuple:
        return tuple([value_of_bytes(part, data) for part in shape.elements])
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
