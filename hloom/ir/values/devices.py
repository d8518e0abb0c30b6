"""Device numbers written as a transposed count: `<=[2,4]T(1,0)` instead of eight numbers.

Programs for thousands of devices carry such lists by the hundred, so the short form is kept as
it is and only expanded on demand.
"""

from __future__ import annotations

from hloom.ir.text.cursor import Cursor
from hloom.types.mesh import IotaDevices


def parse_iota(cursor: Cursor) -> IotaDevices:
    """Read `[8]` or `[2,4]T(1,0)`, the part after `<=`."""
    at = cursor.skip()
    dims = cursor.integers("[", "]")
    if not dims or any(d < 0 for d in dims):
        cursor.fail("the dimensions of an iota are one or more sizes that are not negative", at)
    if len(dims) == 1:
        return IotaDevices(dims, (0,))
    cursor.expect("T", "after the dimensions of an iota, unless there is only one")
    at = cursor.skip()
    permutation = cursor.integers("(", ")")
    if sorted(permutation) != list(range(len(dims))):
        cursor.fail(f"T{permutation} is not a permutation of {len(dims)} dimensions", at)
    return IotaDevices.of(dims, permutation)
