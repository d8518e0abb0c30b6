"""What a multiplication counts beside a byte that a device receives.

Where bytes alone decide, a product is done by all devices alike as soon as its operands are fewer
bytes than its result: a step of a recurrence then takes twice the time to save a kilobyte. The
price is that of a core of a device: how many bytes of the memory through which devices exchange are
its part while it does one multiply-add. It is the same on whatever machine a program is cut, so
that what is written of it elsewhere (shardings, saved programs) does not depend on that.
"""

from __future__ import annotations

from functools import cache

from hloom.device.known import known_device

DEVICE = "x86-64-v3"


@cache
def multiply_bytes(name: str = DEVICE) -> float:
    """The bytes that a core of a known device moves while it multiplies and adds once, in f32."""
    device = known_device(name)
    byte_ns = device.memory_spaces[0].read_ns(1) * device.compute.units
    return 2 * device.compute.flop_ns("f32") / byte_ns
