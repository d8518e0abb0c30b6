"""What the devices of a program do together, as one number."""

from __future__ import annotations

from hashlib import sha256

from hloom.program.program import Program
from hloom.program.thunks.among_devices import AmongDevices
from hloom.program.thunks.collective import Collective, CollectiveStart
from hloom.program.thunks.thunk import walk


def fingerprint_of_meetings(program: Program) -> int:
    """63 bits, the same for programs whose devices can meet: they do the same together, in the
    same order, whatever else they compute and for which processor."""
    sum_ = sha256(f"{program.name} {program.replicas} {program.partitions}".encode())
    for thunk in walk(program.thunks):
        if isinstance(thunk, AmongDevices):
            sum_.update(f"{type(thunk).__name__} {thunk.name} {thunk.particulars()}".encode())
        if isinstance(thunk, Collective | CollectiveStart):
            sum_.update(repr(thunk.operation._replace(folds=())).encode())
    return int.from_bytes(sum_.digest()[:8], "little") >> 1
