"""The working memory of a C library's routines, which the caller lends.

Sorting takes it as aot/native/order.c says; linear algebra as runtime/native/linalg_calls.cc does
where it asks no LAPACK.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod

from hloom.base.diagnostics import UsageError
from hloom.program.c_fft import fft_scratch_bytes
from hloom.program.call_site import CallBuffer, CallSite
from hloom.program.program import Program
from hloom.program.slice import ALIGNMENT
from hloom.program.thunks.custom_call import CustomCall
from hloom.program.thunks.fft import FFT
from hloom.program.thunks.linalg import Cholesky, TriangularSolve
from hloom.program.thunks.routine import Function, Numbers
from hloom.program.thunks.sort import Sort, TopK
from hloom.program.thunks.thunk import Thunk, walk
from hloom.types.attributes import Typed, parsed_attributes

MOST_BUFFERS, MOST_ATTRIBUTES, NAME_BYTES = 16, 8, 32
"""Of one custom call, as aot/native/dense.cc has it."""
_ELEMENT_BYTES = {"s": 4, "d": 8, "c": 8, "z": 16}
_TARGET = re.compile(r"lapack_([sdcz])([a-z0-9]+)_ffi")


def scratch_bytes(program: Program) -> int:
    """Bytes that the routines of a program need at once: one runs at a time."""
    return max([_scratch(program, t) for t in walk(program.thunks)], default=0)


def is_known_call(program: Program, t: CustomCall) -> bool:
    """Whether a custom call is linear algebra that C libraries have."""
    site = program.call_sites[t.site]
    match = _TARGET.fullmatch(site.target)
    if match is None or match[2] not in _CALLS or not site.is_typed:
        return False
    buffers = (*site.operands, *site.results)
    if len(buffers) > MOST_BUFFERS or any(b.slice is None and prod(b.dims) for b in buffers):
        return False
    return scalar_attributes(site) is not None


def scalar_attributes(site: CallSite) -> list[tuple[str, int, int]] | None:
    """Name, type and value of each attribute of a custom call; None where one is no integer."""
    try:
        attributes = parsed_attributes(site.config)
    except UsageError:
        return None
    scalars = []
    for name, value in attributes.items():
        if not isinstance(value, Typed) or value.dtype.is_floating or len(name) >= NAME_BYTES:
            return None
        scalars.append((name, value.dtype.number, int(value.value)))
    return scalars if len(scalars) <= MOST_ATTRIBUTES else None


def _scratch(program: Program, t: Thunk) -> int:
    if isinstance(t, TopK):
        return 16 * _int(t.arguments[2]) * 2 + ALIGNMENT
    if isinstance(t, Sort):
        return _of_sort(t)
    if isinstance(t, (Cholesky, TriangularSolve)):
        return 4 * ALIGNMENT
    if isinstance(t, CustomCall):
        return _of_call(program.call_sites[t.site]) + 4 * ALIGNMENT
    if isinstance(t, FFT):
        return fft_scratch_bytes(t)
    return 0


def _of_sort(t: Sort) -> int:
    n, count = _int(t.arguments[1]), _int(t.arguments[3])
    sizes = t.arguments[6]
    assert isinstance(sizes, Numbers)
    keys = 0 if isinstance(t.arguments[7], Function) else _int(t.arguments[7])
    iotas = 8 * count if keys == 0 else 0
    # Two orders, keys or numbers of rows that are not there, a row of one array.
    return n * (4 + 4 + 8 * keys + iotas + max(sizes.values, default=0)) + 4 * ALIGNMENT


# -- linear algebra: of a matrix of m rows and n columns, of elements of so many bytes


def _of_call(site: CallSite) -> int:
    match = _TARGET.fullmatch(site.target)
    assert match is not None
    m, n = _matrix(site.operands[0])
    return _CALLS[match[2]](m, n, _ELEMENT_BYTES[match[1]])


def _matrix(buffer: CallBuffer) -> tuple[int, int]:
    """Rows and columns."""
    dims = (1, 1, *buffer.dims)
    return dims[-2], dims[-1]


def _reflectors(m: int, n: int, size: int) -> int:
    return (64 * (m + n) + 8192) * size


def _pivoted(m: int, n: int, size: int) -> int:
    return (64 * (n + 2) + 8 * n) * size + 8 * n


def _eigenvalues(m: int, n: int, size: int) -> int:
    return (n * n + 2 * n) * size + (2 * n * n + 5 * n + 64) * size + (5 * n + 64) * 8


def _singular_values(m: int, n: int, size: int) -> int:
    k, large = min(m, n), max(m, n)
    room = m * n + 2 * large * large + 2 * k * k + 2 * k + large + 64
    return (room + 5 * k * k + 7 * k + 2 * large * k + 64) * size + 8 * (8 * k + 8)


def _vectors(m: int, n: int, size: int) -> int:
    return (3 * n * n + 72 * n + 64) * size + 10 * n * size


_CALLS: dict[str, Callable[[int, int, int], int]] = {
    "potrf": lambda m, n, size: 64,
    "trsm": lambda m, n, size: 64,
    "gtsv": lambda m, n, size: 64,
    "getrf": lambda m, n, size: 8 * min(m, n),
    "geqrf": _reflectors,
    "geqp3": _pivoted,
    **dict.fromkeys("orgqr ungqr ormqr unmqr gehrd sytrd hetrd".split(), _reflectors),
    **dict.fromkeys("syevd heevd".split(), _eigenvalues),
    **dict.fromkeys("gesdd gesvd".split(), _singular_values),
    **dict.fromkeys("geev gees".split(), _vectors),
}


def _int(x: object) -> int:
    assert isinstance(x, int)
    return x
