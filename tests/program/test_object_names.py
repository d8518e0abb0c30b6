"""Objects are called as the LLVM modules that they were made of, in files and for profilers."""

import os
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom.codegen.llvm.compile import CodeCompiler
from hloom.compiler import compile_module
from hloom.ir.text import parse_module
from hloom.program.saved import program_from_bytes
from hloom.runtime.loaded_program import LoadedProgram
from hloom.runtime.native import LoadError, Pool

STT_FILE = 4
DOTS = """HloModule m
ENTRY e {
  x = f32[96,96] parameter(0)
  y = f32[96,96] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[80,96] slice(y), slice={[0:80], [0:96]}
  w = f32[80,80] dot(z, z), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  c = f32[80,80] cosine(w)
  ROOT t = (f32[96,96], f32[80,80]) tuple(y, c)
}"""
LOAD = """import sys, numpy as np, hloom
run = hloom.load_compiled(sys.argv[1], threads=1)
run(np.ones((96, 96), np.float32))
import os
print(open(f"/tmp/perf-{os.getpid()}.map").read())
os.unlink(f"/tmp/perf-{os.getpid()}.map")"""


def module_name(code: bytes) -> str:
    """What an object says it was made of: its symbol of the type FILE."""
    (table,) = struct.unpack_from("<Q", code, 40)
    (count,) = struct.unpack_from("<H", code, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, table + 64 * k) for k in range(count)]
    ((_, _, _, _, at, size, link, *_),) = [s for s in sections if s[1] == 2]
    strings = sections[link][4]
    for place in range(at, at + size, 24):
        name, info = struct.unpack_from("<IB", code, place)
        if info & 15 == STT_FILE:
            return code[strings + name : code.index(b"\0", strings + name)].decode()
    return ""


@pytest.fixture
def ids(monkeypatch):
    """Of the LLVM modules of the programs that are compiled meanwhile."""
    seen: list[str] = []
    objects = CodeCompiler.objects

    def watched(self):
        made = objects(self)
        seen.extend(batch.module_id for batch in self.batches)
        return made

    monkeypatch.setattr(CodeCompiler, "objects", watched)
    return seen


def test_in_a_saved_program(ids, tmp_path):
    compile_module(parse_module(DOTS), cached=False).save(tmp_path / "m.hloom")
    program = program_from_bytes((tmp_path / "m.hloom").read_bytes())
    names = [module_name(code) for code in program.objects]
    assert names == ids and len(names) >= 3 and len(set(names)) == len(names)
    assert program.entry in names


def test_kernels_of_another_program(ids):
    """An object that was compiled before, for another program, is called as this one's module."""
    for name in ("one", "two"):
        ids.clear()
        text = DOTS.replace("HloModule m", f"HloModule {name}").replace(" y", f" {name}")
        text = text.replace("(y", f"({name}")
        program = compile_module(parse_module(text)).program
        if ids:
            assert [module_name(code) for code in program.objects] == ids


def test_for_profilers(ids, tmp_path):
    compile_module(parse_module(DOTS), cached=False).save(tmp_path / "m.hloom")
    done = subprocess.run(
        [sys.executable, "-c", LOAD, str(tmp_path / "m.hloom")],
        env={
            **os.environ,
            "HLOOM_PERF_MAP": "1",
            "PYTHONPATH": str(Path(hloom.__path__[0]).parent),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split(" ", 2)[2] for line in done.stdout.splitlines() if line]
    assert {row[row.index("[") + 1 : -1] for row in rows} == set(ids)
    assert all(f"{name} [{name}]" in rows for name in ids)


def test_in_messages(ids):
    """An object that cannot be loaded is named by its module."""
    program = compile_module(parse_module(DOTS), cached=False).program
    twice = replace(program, objects=[program.objects[0], *program.objects])
    with pytest.raises(LoadError, match=rf"in {ids[0]} and in {ids[0]}"):
        LoadedProgram(twice, Pool.shared(1))


def test_the_same_values():
    x = np.eye(96, dtype=np.float32)
    run = hloom.compile(DOTS, threads=1)
    y, c = run(x)
    assert (np.asarray(y) == x).all() and np.asarray(c)[0, 0] == np.float32(np.cos(np.float32(1)))
