"""Whether a compiled model has its weights as constants, and whether they are still the same.

As constants they are folded (a batch norm into the convolution before it), laid out and packed
when the model is compiled; as arguments at every call. But a model may be trained on, or other
weights loaded into it. PyTorch counts what is written to a tensor in place; writing through
`.data`, or through an array that shares the memory, it does not count: an element of each tensor
is compared, which all that loads or trains weights would change in at least one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter, methodcaller
from typing import Any

import numpy as np

from hloom.torch.tensors import torch_and_trees

FREEZE_BYTES = 3 << 29
"""Weights that become constants where nobody says `freeze`. They take their size once more in
memory, twice while they are laid out, and compiling a GB 6 s; from a quarter of the cache of
programs on, each process compiles anew. Packed at every call, those of 24 layers of 1024 for 128
rows take a quarter of the time."""


@dataclass(frozen=True)
class Freezing:
    """Whether a model's weights are constants of its program, and why, or why not."""

    is_frozen: bool
    reason: str


def freezing_of(
    model: Any, tensors: Sequence[Any], state: Sequence[np.ndarray], freeze: bool | None
) -> Freezing:
    """What is asked for; where nothing is, constants if a change of them would be noticed."""
    if freeze is not None:
        return Freezing(freeze, f"freeze={freeze}")
    size = distinct_bytes(state)
    torch, _ = torch_and_trees()
    modules = model.modules() if isinstance(model, torch.nn.Module) else ()
    if any(module.training for module in modules):
        return Freezing(False, "the model is in training mode; model.eval() ends that")
    if any(tensor.is_inference() for tensor in tensors):
        return Freezing(False, "tensors of torch.inference_mode do not count what is written")
    if size > FREEZE_BYTES:
        return Freezing(False, f"the weights are {size >> 20} MB, more than {FREEZE_BYTES >> 20}")
    return Freezing(True, "the model is in evaluation mode")


def distinct_bytes(state: Sequence[np.ndarray]) -> int:
    """What arrays hold, one that stands under several names (a tied embedding) counted once."""
    return sum({(a.ctypes.data, a.strides, a.nbytes): a.nbytes for a in state}.values())


_VERSION, _ADDRESS = attrgetter("_version"), methodcaller("data_ptr")


class Watch:
    """Weights as they were when a program was made of them."""

    def __init__(self, tensors: Sequence[Any], state: Sequence[np.ndarray]) -> None:
        self._tensors = tensors
        middles = [array.reshape(-1)[array.size // 2 :][:1] for array in state]
        self._middles = [middle.view(np.uint8).data for middle in middles]
        self._before = self._now()

    def _now(self) -> tuple[object, ...]:
        versions, addresses = map(_VERSION, self._tensors), map(_ADDRESS, self._tensors)
        return [*versions], [*addresses], b"".join(self._middles)

    @property
    def is_unchanged(self) -> bool:
        """Whether nobody has written to the weights, as far as it can be told."""
        return self._now() == self._before
