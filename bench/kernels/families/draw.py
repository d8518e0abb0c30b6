"""What a family draws: sizes, types, axes, and arrays of random values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

SMALL, LARGE = 20_000, 2_000_000
"""Elements of arrays that stay in a cache, and of those that do not: from half to twice as many."""
SMALL_SHARE = 0.2
HUGE_SHARE = 0.1
"""How often an array is a small one, and how often one of eight times as many."""


class Draw:
    """Draws with one generator, so that a seed names a set."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def one(self, choices: Sequence[T]) -> T:
        return choices[int(self.rng.integers(len(choices)))]

    def kind(self) -> str:
        """A floating-point type, mostly f32."""
        return self.one(["f32"] * 5 + ["bf16", "f16", "f64"])

    def elements(self) -> int:
        """How many elements an array has: about, for it is odd as often as not."""
        which = self.rng.random()
        around = SMALL if which < SMALL_SHARE else LARGE * (8 if which > 1 - HUGE_SHARE else 1)
        n = int(around * 2 ** self.rng.uniform(-1, 1))
        return n if self.rng.random() < 0.5 else max(n // 64, 1) * 64

    def matrix(self, columns: int = 0) -> str:
        """The two sizes of a matrix; of so many columns, if any are named."""
        n = self.elements()
        if not columns:
            columns = int(n**0.5 * 2 ** self.rng.uniform(-2, 2))
            columns = columns if self.rng.random() < 0.5 else max(columns // 16, 1) * 16
        return f"{max(n // columns, 1)},{columns}"

    def cube(self, last: int = 0) -> str:
        """The three sizes of an array."""
        n = self.elements()
        first = self.one([1, 8, 16, 33])
        last = last or int((n / first) ** 0.5 * 2 ** self.rng.uniform(-1, 1))
        return f"{first},{max(n // first // last, 1)},{last}"

    def image(self, last: bool, channels: int = 0) -> str:
        """Sizes of a batch of images, channels last or second."""
        channels = channels or self.one([16, 32, 64, 96])
        side = self.one([28, 31, 56, 57, 112])
        batch = max(min(self.elements(), 2 * LARGE) // (side * side * channels), 1)
        inner = f"{side},{side},{channels}" if last else f"{channels},{side},{side}"
        return f"{batch},{inner}"

    def array(self, text: str) -> np.ndarray:
        """Random values of `type[dims]`, `type[dims]<bound` or `type[dims]<bound sorted`; of a
        floating-point type positive below the bound, or normal."""
        import ml_dtypes

        kind, rest = text.split("[")
        dims, _, bound = rest.partition("]")
        shape = tuple([int(d) for d in dims.split(",") if d])
        top, _, order = bound.lstrip("<").partition(" ")
        integers: dict[str, Any] = {
            "s8": np.int8,
            "u8": np.uint8,
            "s16": np.int16,
            "s32": np.int32,
            "u32": np.uint32,
            "s64": np.int64,
        }
        if kind in integers:
            limits = np.iinfo(integers[kind])
            drawn = self.rng.integers(
                0 if top else limits.min, int(top or limits.max), shape, integers[kind]
            )
            return np.sort(drawn) if order == "sorted" else drawn
        if kind == "pred":
            return self.rng.random(shape, np.float32) < 0.5
        wide = self.rng.standard_normal(shape, np.float32)
        if top:
            wide = self.rng.random(shape, np.float32) * float(top)
        if kind == "c64":
            return (wide + 1j * self.rng.standard_normal(shape, np.float32)).astype(np.complex64)
        types: dict[str, Any] = {
            "f32": np.float32,
            "bf16": ml_dtypes.bfloat16,
            "f16": np.float16,
            "f64": np.float64,
            "f8": ml_dtypes.float8_e4m3fn,
        }
        return wide.astype(types[kind])
