"""Fourier transforms in C libraries: the runtime's own, in lent memory, from constant plans."""

import shutil
import subprocess

import numpy as np
import pytest

import hloom
from hloom.base.guarding import GUARDING
from hloom.program.c_fft import fft_length
from hloom.runtime.buffer import in_layout
from hloom.runtime.library import library as native
from tests.aot.calling import called, exported

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory"),
    pytest.mark.usefixtures("routines_compiled_once"),
]


def transform(kind, real, batch, lengths):
    """A program of one transform, and an array for it."""
    dtype = {"f32": "c64", "f64": "c128"}[real]
    half = (*lengths[:-1], lengths[-1] // 2 + 1)
    source = (real if kind == "RFFT" else dtype, half if kind == "IRFFT" else lengths)
    target = (real if kind == "IRFFT" else dtype, half if kind == "RFFT" else lengths)
    shapes = [f"{d}[{','.join(map(str, (*batch, *n)))}]" for d, n in (source, target)]
    inside = ",".join(map(str, lengths))
    return shapes, f"fft_type={kind}, fft_length={{{inside}}}"


# One of each way that fft.cc has: one tile, rows and columns; two steps; two steps of two steps;
# chirps, alone and in columns; reals of even and odd lengths, alone and many; several dimensions.
CASES = [
    ("FFT", "f32", (3,), (1,)),
    ("FFT", "f32", (5,), (60,)),
    ("IFFT", "f64", (33,), (128,)),
    ("FFT", "f32", (2,), (1536,)),
    ("FFT", "f64", (), (12000,)),
    ("FFT", "f32", (2,), (17,)),
    ("IFFT", "f32", (2,), (1009, 6)),
    ("RFFT", "f32", (3,), (90,)),
    ("RFFT", "f64", (300,), (34,)),
    ("RFFT", "f32", (), (9, 21)),
    ("RFFT", "f32", (35,), (75,)),  # sequences of 15, a row in every lane
    ("RFFT", "f64", (3,), (31,)),  # of one
    ("IRFFT", "f64", (20,), (1025,)),
    ("IRFFT", "f32", (4,), (64,)),
    ("IRFFT", "f64", (2,), (6, 5, 15)),
    ("IRFFT", "f32", (2,), (19, 38)),
    ("FFT", "f32", (), (3, 40, 7)),
]


def program(cases):
    lines, results = ["HloModule m", "ENTRY e {"], []
    for k, case in enumerate(cases):
        (source, target), how = transform(*case)
        lines.append(f"  x{k} = {source} parameter({k})")
        lines.append(f"  y{k} = {target} fft(x{k}), {how}")
        results.append(f"y{k}")
    lines.append(f"  ROOT t = tuple({', '.join(results)})")
    return "\n".join([*lines, "}"])


def flat(value):
    return [in_layout(np.asarray(v), v.shape).tobytes() for v in value]


def arrays(text):
    return [a.array for a in hloom.random_arguments(hloom.parse(text), seed=3)]


def test_the_same_bits_and_only_the_c_library(tmp_path):
    text = program(CASES)
    library = exported(tmp_path, text, "waves")
    arguments = arrays(text)
    values = flat(hloom.compile(text)(*arguments))
    for threads in (1, 4):
        assert called(tmp_path, library, arguments, threads) == values
    names = subprocess.run(["nm", "-D", library.path], capture_output=True, text=True, check=True)
    symbols = {line.split()[-1].split("@")[0] for line in names.stdout.splitlines()}
    assert symbols - {"memcpy", "memmove", "memset"} == {"waves"}


def test_one_at_a_time_fits_its_memory(tmp_path):
    """The driver's workspace ends at a protected page, and nothing else asks for more."""
    for k in (4, 6, 10, 11, 12, 14):
        text = program(CASES[k : k + 1])
        library = exported(tmp_path, text, "wave")
        arguments = arrays(text)
        assert called(tmp_path, library, arguments) == flat(hloom.compile(text)(*arguments))


def test_every_symbol_names_the_library(tmp_path):
    library = exported(tmp_path, program(CASES[:2]), "tide", ".a")
    names = subprocess.run(["nm", "-g", library.path], capture_output=True, text=True, check=True)
    own = {w[-1] for t in names.stdout.splitlines() if len(w := t.split()) == 3 and w[1] != "U"}
    assert own and all("tide" in name for name in own)


def test_lengths_are_taken_apart_as_the_runtime_does():
    import ctypes
    import struct

    for n in [*range(1, 400), 1009, 1024, 4096, 4098, 8192, 12288, 10007, 65536, 99999]:
        numbers = ctypes.create_string_buffer(32)
        assert native().hl_fft_plan(n, 0, 0, numbers) == 32
        n1, n2, _, convolution = struct.unpack("<4q", numbers.raw)
        has_passes = native().hl_fft_plan(n, 0, 1, None) > 0
        assert fft_length(n)[1:] == (has_passes, n1, n2, convolution), n
