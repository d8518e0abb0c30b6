"""A workspace of a wrong size is noticed where the program is compiled with -DMODEL_DEBUG."""

import shutil
import subprocess

import numpy as np
import pytest

import hloom
from hloom.base.guarding import GUARDING
from tests.aot.calling import exported
from tests.aot.programs import PROGRAMS

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory"),
]

MAIN = """#include <stdio.h>
#include <stdlib.h>
#include "model.h"
int main(int count, char **words) {
  long bytes = count > 1 ? atol(words[1]) : MODEL_WORKSPACE_BYTES;
  char *memory = aligned_alloc(64, (MODEL_WORKSPACE_BYTES + 127) / 64 * 64);
  ARRAYS
  a.workspace = memory;
#ifdef MODEL_DEBUG
  a.workspace_bytes = bytes;
#endif
  int status = CALL;
  puts(model_error(status));
  return status;
}
"""


def run(folder, main, flags, *words):
    (folder / "main.c").write_text(main)
    program = folder / f"main{len(flags)}"
    warnings = ["-std=c11", "-Wall", "-Wextra", "-Wno-unused", "-Werror"]
    files = [str(folder / "main.c"), str(folder / "libmodel.a"), "-lm", "-o", str(program)]
    subprocess.run(["cc", *warnings, *flags, *files], check=True)
    done = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True)
    return done.returncode, done.stdout.strip()


def filled(function, name="model"):
    """C that gives every array memory of its own."""
    lines = [f"{name}_arrays a = {{0}};"]
    for array in (*function.interface.inputs, *function.interface.outputs):
        lines.append(f"void *p{len(lines)} = aligned_alloc(64, {array.size_bytes + 64 & ~63});")
    lines.append("void **all = (void **)&a;")
    lines += [f"all[{k}] = p{k + 1};" for k in range(len(lines) - 2)]
    return "\n  ".join(lines)


@pytest.mark.parametrize("name", ["topk", "comparator"])
def test_a_workspace_that_is_too_small(tmp_path, name):
    library = exported(tmp_path, PROGRAMS[name], "model", ".a")
    size = library.workspace_bytes
    assert size > 0
    main = MAIN.replace("ARRAYS", filled(library)).replace("CALL", "model_call(&a)")
    too_small = (10, "the workspace is smaller than MODEL_WORKSPACE_BYTES")
    debug = ["-DMODEL_DEBUG"]
    assert run(tmp_path, main, debug, size) == (0, "")
    assert run(tmp_path, main, debug, size + 1) == (0, "")
    assert run(tmp_path, main, debug, size - 1) == too_small
    assert run(tmp_path, main, debug, 0) == too_small
    assert run(tmp_path, main, []) == (0, "")


def test_one_that_needs_none(tmp_path):
    library = exported(tmp_path, PROGRAMS["constants"], "model", ".a")
    if library.workspace_bytes:
        pytest.skip("it needs some now")
    main = MAIN.replace("ARRAYS", filled(library)).replace("CALL", "model_call(&a)")
    assert run(tmp_path, main, ["-DMODEL_DEBUG"], 0) == (0, "")


def test_the_header_is_read_as_before(tmp_path):
    text = PROGRAMS["topk"]
    exported(tmp_path, text, "model")
    library = hloom.load_library(tmp_path / "libmodel.so", tmp_path / "model.h")
    (argument,) = hloom.random_arguments(hloom.parse(text))
    (name,) = library.inputs
    results = library(**{name: argument.array})
    wanted = hloom.compile(text)(argument)
    assert all(np.array_equal(a, b) for a, b in zip(results.values(), wanted, strict=True))
