"""How the CPU runs each operation: one file per family, `@CPU_LOWERS.of(opcode)`."""

from hloom.targets.cpu.lower import (
    call,
    control,
    dot,
    elementwise,
    fft,
    gather,
    linalg,
    random,
    sort,
)

FAMILIES = (call, control, dot, elementwise, fft, gather, linalg, random, sort)
