"""Libraries called from C, in a process without Python."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import numpy as np

import hloom
from hloom.aot.export import CLibrary
from hloom.aot.link import compiler
from hloom.runtime.buffer import in_layout

HERE = Path(__file__).parent


@cache
def driver(folder: Path) -> Path:
    """The program that calls libraries."""
    path = folder / "driver"
    words = [*compiler("tests"), "-O1", "-Wall", "-pthread", str(HERE / "driver.c"), "-ldl"]
    subprocess.run([*words, "-o", str(path)], check=True)
    return path


def call_words(library: CLibrary, threads: int = 1) -> list[str]:
    """What the driver is told of a call."""
    inputs, outputs = library.interface.inputs, library.interface.outputs
    words = [library.path, library.name, threads, library.workspace_bytes]
    words += [len(inputs), len(outputs), *[a.size_bytes for a in inputs]]
    words += [a.size_bytes for a in outputs]
    words += [a.alignment for a in (*inputs, *outputs)]
    words += [-1 if a.alias is None else a.alias for a in outputs]
    return [str(w) for w in words]


def called(
    folder: Path, library: CLibrary, arguments: list[np.ndarray], threads: int = 1
) -> list[bytes]:
    """The bytes of each output; `threads` call it at once and must agree. Inputs that the library
    may change come back changed where they stand, the others must not."""
    inputs, outputs = library.interface.inputs, library.interface.outputs
    words = [str(driver(folder)), *call_words(library, threads)]
    data = b"".join(
        [in_layout(a, i.shape).tobytes() for a, i in zip(arguments, inputs, strict=True)]
    )
    done = subprocess.run(words, input=data, capture_output=True, timeout=120)
    assert done.returncode == 0, f"status {done.returncode}: {done.stderr.decode()}"
    found, at = [], 0
    for a in outputs:
        found.append(done.stdout[at : at + a.size_bytes])
        at += a.size_bytes
    assert at == len(done.stdout)
    return found


def exported(folder: Path, text: str, name: str = "model", suffix: str = ".so") -> CLibrary:
    return hloom.export_c(text, folder / f"lib{name}{suffix}", folder / f"{name}.h", name=name)
