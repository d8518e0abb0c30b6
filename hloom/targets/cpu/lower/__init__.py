"""How the CPU runs each operation: one file per family, `@CPU_LOWERS.of(opcode)`."""

from hloom.targets.cpu.lower import (
    call,
    collective,
    control,
    custom_call,
    dot,
    elementwise,
    fft,
    gather,
    host,
    linalg,
    random,
    sort,
)

FAMILIES = (
    call,
    collective,
    control,
    custom_call,
    dot,
    elementwise,
    fft,
    gather,
    host,
    linalg,
    random,
    sort,
)
