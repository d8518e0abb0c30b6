"""What work costs on one unit (a core, a multiprocessor) of a device, in nanoseconds.

The one table that fusion, tiling, splitting into steps and expected run times ask. Orders of
magnitude matter: no result depends on it. Every number can be set in the `[costs]` table of a
device's file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

Rates = tuple[tuple[str, float], ...]
"""Numbers by name, sorted; a table in text."""

WEIGHTS: Final[dict[str, float]] = {
    **dict.fromkeys("broadcast constant iota reshape bitcast slice reverse transpose".split(), 0),
    **dict.fromkeys("concatenate pad dynamic-slice".split(), 1),
    "divide": 4,
    "sqrt": 6,
    **dict.fromkeys("exponential exp2 gather".split(), 8),
    **dict.fromkeys("mulhi popcnt count-leading-zeros rsqrt cosh".split(), 10),
    **dict.fromkeys("logistic sinh exponential-minus-one log log2 tanh".split(), 18),
    **dict.fromkeys("cbrt remainder atan2 asin".split(), 21),
    **dict.fromkeys("acos tan sine cosine log-plus-one erf".split(), 28),
    **dict.fromkeys("asinh acosh atanh".split(), 42),
    "power": 74,
    **dict.fromkeys("dot convolution reduce".split(), 100),
}
"""How many cheap operations on f32 an element of an operation is worth; what is not here is one.
Measured by `hloom calibrate` on a Zen 4, those between that it does not measure by hand; what folds
is worth more than any other."""
INTEGER_DIVISION: Final = 25.0
"""Processors have no vector instruction for it."""
MANY_REGISTERS: Final = 32
TILE_SHAPES: Final[dict[str, float]] = {"1": 1.0, "2": 1.06, "3": 1.0, "4": 1.02}
FEW_TILE_SHAPES: Final[dict[str, float]] = {"1": 1.0, "2": 0.92, "3": 1.0, "4": 0.95}
"""How much slower tiles of a product are that have so many vectors in a row than those of three:
measured with `MANY_REGISTERS`, and with 16."""


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
    """A byte of what a routine of the runtime reads and writes of which nothing else is known."""
    fft_byte_ns: float = 0.02
    """A byte of a Fourier transform, for each time that its length can be halved."""
    sort_byte_ns: float = 0.06
    """A byte of what is sorted by its bits, for each time that a row can be halved."""
    compare_ns: float = 6.0
    """A call of a comparator while sorting."""
    select_ns: float = 0.33
    """An element that is looked at for the largest few."""
    multiply_add_ns: float = 0.03
    """A multiply-add on f32 of a factorisation or solve of large matrices..."""
    matrix_element_ns: float = 1.0
    """... and an element of a matrix that is swept over; small matrices take this time."""
    foreign_ns: float = 200_000.0
    """A custom call, of which nothing is known."""
    load_cycles: float = 0.5
    """A vector, or a scalar, that is read from the nearest cache..."""
    store_cycles: float = 1.0
    """... and one that is written."""
    lane_cycles: float = 1.2
    """An element of a row that is picked up, or put, by itself."""
    shuffle_cycles: float = 1.0
    """Changing the places of the elements of a vector."""
    masked_factor: float = 2.0
    """How many times as long a vector takes of which some elements are left out."""
    page_cycles: float = 6.0
    """Going to another page of memory, for a row of a tile that lies on many..."""
    page_bytes: int = 4096
    """... of this size."""
    extreme_weight: float = 2.0
    """A maximum of floats of which none is constant, in cheap operations: NaN comes through."""
    instruction_cycles: float = 0.2
    """Any instruction: no more are begun in a cycle."""
    sum_cycles: float = 3.0
    """What a loop carries waits for what was computed of it before: so long for an operation."""
    written_factor: float = 2.0
    """How many bytes main memory moves for one that is written: its line is read before."""
    kernel_ns: float = 150.0
    """The start of a kernel, its arguments and what its end makes wait."""
    step_ns: float = 5.0
    """The start of one step of a kernel's grid, where nothing hides it..."""
    next_step_ns: float = 0.3
    """... and where a thread takes many of them, one after another."""
    inline_ns: float = 8.0
    """What a body waits for the one before it where both are written in line in a loop."""
    serial_ns: float = 4_000.0
    """A kernel shorter than this is not worth a second thread."""
    chunk_ns: float = 10_000.0
    """What a thread takes at a time."""

    run_ns: float = 20_000.0
    """A step that leaves cores idle for less than this is not worth a run of its own: handing one
    to another thread and waiting for its end takes 1 us, or 40 where the thread sleeps."""
    concurrency_gain_ns: float = 50_000.0
    """What runs side by side have to save..."""
    concurrency_gain: float = 0.1
    """... and of the time of the sequence, which part: what is guessed is not that exact."""
    concurrency_memory: float = 0.25
    """What steps side by side may take more than one after another, of a program's memory: they
    share none..."""
    concurrency_bytes: float = 64e6
    """... or this, where it is more."""
    parallel_bytes: int = 1 << 20
    """Arrays of fewer bytes are read before other threads have woken up."""
    parallel_row: int = 1 << 16
    """A row of more elements is folded and read in kernels of their own: as many threads as there
    are take parts of it."""

    meeting_ns: float = 10_000.0
    """What devices of one process take to meet, apart from the bytes that they exchange."""

    loop_product_flops: int = 2048
    """Smaller products are as fast as loops of multiply-adds: packing costs more than it saves."""
    loop_matrix_flops: int = 1 << 14
    """Larger products of matrices in loops are kernels of their own: the call is 1/20 of them."""
    inner_product_flops: int = 1 << 16
    """Smaller products may be loops, so that they share a kernel with what is around them."""
    least_step_cycles: float = 12_500.0
    """Multiply-adds at their peak rate for so long are worth a step of a product's own."""
    tile_step_cycles: float = 80.0
    """What such a step costs."""
    copied_cycles: float = 3.0
    """A vector of an operand that is packed as it lies..."""
    turned_cycles: float = 8.0
    """... that is turned on its way..."""
    gathered_cycles: float = 5.0
    """... or picked up by the window of a convolution."""
    sums_in_flight: int = 8
    """With fewer sums side by side multiply-adds wait for one another."""
    direct_rows: int = 32
    """The most rows that are multiplied by a matrix that stays where it stands..."""
    few_direct_rows: int = 8
    """... and for how few that is best for any number of columns..."""
    direct_columns: int = 1024
    """... of which a step reads so many at least: a row of a page of main memory."""
    along_depth_rows: int = 12
    """The same for a matrix whose rows lie along the contracted dimension..."""
    along_long_depth_rows: int = 48
    """... and where that is so long that sums of lanes at its end do not matter."""
    grouped_rows: int = 12
    """The same, divided by the elements that one instruction multiplies, of narrow types."""
    tile_shapes: Rates = ()
    """What differs from `TILE_SHAPES`, by the number of vectors in a row of a tile."""

    fft_detour: float = 5.0
    """Times what a transform takes whose length has small prime factors only."""
    sort_element_bytes: float = 13.0
    """What an element adds to the bytes that are sorted by their bits..."""
    sort_row_bytes: float = 250.0
    """... and what a row adds."""
    kept_elements: float = 50.0
    """How many elements could be looked at while one of the largest is kept."""
    weights: Rates = ()
    """What differs from `WEIGHTS`, by opcode."""

    def weight(self, opcode: str) -> float:
        """How many cheap operations an element of an operation on floats is worth."""
        table = _merged(self.weights) if self.weights else WEIGHTS
        return table.get(opcode, 1.0)

    def tile_shape(self, vectors: int, registers: int) -> float:
        """How much slower tiles with so many vectors in a row are than those with three."""
        table = TILE_SHAPES if registers >= MANY_REGISTERS else FEW_TILE_SHAPES
        return dict(self.tile_shapes).get(str(vectors), table[str(vectors)])

    def grain(self, steps: int, one_ns: float, units: int) -> int:
        """How many steps of a kernel a thread takes at a time, so that each of `units` has some;
        0 where the whole kernel is too short to be shared. Two parts at least: who runs a program
        may have more cores than who compiled it."""
        if steps * one_ns < self.serial_ns:
            return 0
        units = max(units, 2)
        parts = -(-steps // max(1, int(self.chunk_ns / max(one_ns, 0.001))))
        # As many for each unit: of three parts one of two threads has twice what the other has.
        return -(-steps // (-(-parts // units) * units))

    def steps_ns(self, elements: float, work: float) -> float:
        """One grid step that computes so many elements, `work` cheap operations each."""
        return self.step_ns + elements * (self.element_ns + self.operation_ns * work)


@lru_cache(maxsize=16)
def _merged(weights: Rates) -> Mapping[str, float]:
    return {**WEIGHTS, **dict(weights)}
