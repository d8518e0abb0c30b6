"""Programs as C libraries, called from C: the same bits as in this process, nothing else needed."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom.api import known_names
from hloom.base.guarding import GUARDING
from hloom.runtime.buffer import in_layout
from tests.aot.calling import called, exported
from tests.aot.programs import PROGRAMS

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory"),
]


ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("libraries")


def leaves(literal):
    if literal.elements:
        return [x for e in literal.elements for x in leaves(e)]
    return [literal.array]


def arguments_of(text, seed=0):
    found = hloom.random_arguments(hloom.parse(text), seed=seed)
    return found, [x for literal in found for x in leaves(literal)]


def flat_bytes(value):
    """The bytes of each array in a result."""
    if isinstance(value, tuple | list):
        return [x for v in value for x in flat_bytes(v)]
    return [in_layout(np.asarray(value), value.shape).tobytes()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_bits(folder, name):
    text = PROGRAMS[name]
    library = exported(folder, text, name)
    for seed in (0, 1):
        literals, arrays = arguments_of(text, seed)
        assert called(folder, library, arrays, threads=1 + 7 * seed) == flat_bytes(
            hloom.compile(text)(*literals)
        )


NUMBERS = "s8 u32 s64 f16 bf16 f32 f64 f8e4m3fn f8e4m3fnuz s4".split()


def orders(dtype):
    """Sorts and the first few of rows with many equal values, NaNs and zeros of both signs."""
    first = "LT" if dtype.startswith(("s", "u")) else "GT"
    lines = [f"HloModule m\nx_less {{ a = {dtype}[] parameter(0)\n b = {dtype}[] parameter(1)"]
    kind = "" if dtype[0] in "su" else ", type=TOTALORDER"
    lines.append(f" ROOT r = pred[] compare(a, b), direction={first}{kind} }}")
    lines.append(f"y_less {{ a = {dtype}[] parameter(0)\n b = {dtype}[] parameter(1)")
    lines.append(" c = s32[] parameter(2)\n d = s32[] parameter(3)")
    lines.append(" ROOT r = pred[] compare(a, b), direction=LT }")
    lines.append(
        f"ENTRY e {{ x = {dtype}[3,70] parameter(0)\n i = s32[3,70] iota(), iota_dimension=1"
    )
    lines.append(f" one = {dtype}[3,70] sort(x), dimensions={{1}}, to_apply=x_less")
    lines.append(f" turned = {dtype}[3,70] sort(x), dimensions={{0}}, to_apply=x_less")
    lines.append(
        f" both = ({dtype}[3,70], s32[3,70]) sort(x, i), dimensions={{1}}, is_stable=true,"
        " to_apply=y_less"
    )
    tops = ""
    if not dtype.startswith(("s4", "u4")):
        lines.append(f" most = ({dtype}[3,8], s32[3,8]) topk(x), k=8, largest=true")
        lines.append(f" all = ({dtype}[3,70], s32[3,70]) topk(x), k=70, largest=false")
        tops = ", most, all"
    pair = f"({dtype}[3,70], s32[3,70])"
    more = f", ({dtype}[3,8], s32[3,8]), {pair}" if tops else ""
    lines.append(
        f" ROOT t = ({dtype}[3,70], {dtype}[3,70], {pair}{more}) tuple(one, turned, both{tops}) }}"
    )
    return "\n".join(lines)


@pytest.mark.parametrize("dtype", NUMBERS)
def test_orders_of_every_type(folder, dtype):
    text = orders(dtype)
    library = exported(folder, text, f"order_{dtype}")
    array = arguments_of(text)[1][0].copy()
    flat = array.reshape(-1)
    flat[::3] = flat[0]
    if dtype[0] not in "su":
        specials = np.array([0.0, -0.0, np.nan, -0.0, 0.0, -np.nan, 1.0, -1.0])
        flat[1:9] = specials.astype(flat.dtype)
    run = hloom.compile(text)
    assert called(folder, library, [array]) == flat_bytes(run(array))


STATE = PROGRAMS["state_in_place"]
MAIN = """#include <stdio.h>
#include <string.h>
#include "state.h"

static float x[64], kept[64], old[64];
static int32_t place = 3;
static char workspace[STATE_WORKSPACE_BYTES + 1] __attribute__((aligned(64)));

int main(void) {
  state_arrays a;
  int k, status;
  memset(&a, 0, sizeof a);
  status = state_call(&a);
  if (status != 3 || strcmp(state_error(status), "a pointer is null or not aligned")) return 1;
  for (k = 0; k < 64; k++) x[k] = (float)k, kept[k] = 100.0f;
  a.x = x, a.state = kept, a.i = &place;
  a.old = old, a.next = kept, a.workspace = workspace;
  if (state_call(&a) || *state_error(0)) return 2;
  for (k = 0; k < 64; k++) {
    float want = k >= 3 && k < 11 ? 100.0f + (float)(k - 3) : 100.0f;
    if (old[k] != -(float)k || kept[k] != want) return 3;
  }
  a.old = (float *)((char *)old + 2);
  if (state_call(&a) != 3) return 4;
  printf("%d %d %d\\n", STATE_OUTPUT_next_DIM0, STATE_OUTPUT_next_BYTES, STATE_INPUTS);
  return 0;
}
"""


@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
@pytest.mark.parametrize("compiler", ["cc -std=c99 -pedantic", "c++"])
def test_header_and_every_kind_of_file(tmp_path, suffix, compiler):
    words = compiler.split()
    if shutil.which(words[0]) is None:
        pytest.skip(f"no {words[0]}")
    library = exported(tmp_path, STATE, "state", suffix)
    assert library.inputs == ("x", "state", "i") and library.outputs == ("old", "next")
    source = tmp_path / ("main.c" if words[0] == "cc" else "main.cc")
    source.write_text(MAIN)
    flags = [*words, "-Wall", "-Wextra", "-Werror", "-O1", str(source), str(library.path)]
    subprocess.run([*flags, "-o", str(tmp_path / "main")], check=True)
    env = {"LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([str(tmp_path / "main")], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "64 256 3\n")


def test_needs_the_c_library_alone(folder):
    library = exported(folder, PROGRAMS["sort"], "alone")
    names = subprocess.run(["nm", "-D", library.path], capture_output=True, text=True, check=True)
    found = {line.split()[-1].split("@")[0] for line in names.stdout.splitlines()}
    assert found <= {"alone", "memcpy", "memmove", "memset"} and "alone" in found
    needed = subprocess.run(
        ["readelf", "-d", library.path], capture_output=True, text=True, check=True
    ).stdout
    assert set(re.findall(r"NEEDED.*\[(.*?)\.so", needed)) <= {"libc", "libm"}


def test_every_symbol_has_the_prefix(folder):
    library = exported(folder, PROGRAMS["comparator"], "prefixed", ".a")
    names = subprocess.run(["nm", "-g", library.path], capture_output=True, text=True, check=True)
    found = {line.split()[-1] for line in names.stdout.splitlines() if " " in line}
    assert found
    assert {n for n in found if not n.startswith("prefixed")} <= {"memcpy", "memset", "memmove"}


ROUTINES = """HloModule m
less { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e {
  x = f32[12,12] parameter(0)
  c = f32[12,12] cholesky(x)
  s = f32[12,12] sort(c), dimensions={1}, to_apply=less
  z = f32[12,12] constant(0)
  k = c64[12,12] complex(s, z)
  f = c64[12,12] fft(k), fft_type=FFT, fft_length={12}
  ROOT t = (f32[12,12], c64[12,12]) tuple(s, f)
}"""
"""Sorting, linear algebra and transforms: the last two are the runtime's own C++."""
TWO_MAIN = """#include <stdio.h>
#include <string.h>
#include "one.h"
#include "two.h"

static float x[144], s[2][144], f[2][288];
static char workspace[ONE_WORKSPACE_BYTES + TWO_WORKSPACE_BYTES] __attribute__((aligned(64)));

int main(void) {
  for (int i = 0; i < 12; i++) x[13 * i] = (float)(i + 1) * (float)(i + 1);
  const void *in[] = {x};
  void *first[] = {s[0], f[0]}, *second[] = {s[1], f[1]};
  if (one(in, first, workspace) || two(in, second, workspace)) return 1;
  return memcmp(s[0], s[1], sizeof s[0]) || memcmp(f[0], f[1], sizeof f[0]) || s[0][143] != 12;
}
"""


@pytest.mark.usefixtures("routines_compiled_once")
@pytest.mark.parametrize("suffix", [".a", ".o"])
def test_routines_are_the_library_s_own(tmp_path, suffix):
    """Of routines in C++, too, others see what begins with the name: two libraries are linked."""
    files = [str(tmp_path / f"{n}{suffix}") for n in ("one", "two")]
    for file, name in zip(files, ("one", "two")):
        hloom.export_c(ROUTINES, file, tmp_path / f"{name}.h")
    words = ["nm", "-g", "--defined-only", files[0]]
    names = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    found = {line.split()[-1] for line in names.splitlines() if " " in line}
    assert {"one", "one_hl_cholesky", "one_hl_fft", "one_hl_sort_keys"} <= found
    assert not {n for n in found if not n.startswith("one")}
    main = tmp_path / "main.c"
    main.write_text(TWO_MAIN)
    out = tmp_path / "main"
    subprocess.run(["cc", f"-I{tmp_path}", str(main), *files, "-lm", "-o", str(out)], check=True)
    assert subprocess.run([str(out)]).returncode == 0


def test_two_libraries_in_one_program(tmp_path):
    """All of both is linked: no name is there twice."""
    files = [str(exported(tmp_path, PROGRAMS["sort"], n, ".a").path) for n in ("one", "two")]
    main = tmp_path / "main.c"
    main.write_text(
        '#include "one.h"\n#include "two.h"\n'
        "int main(void) { return one(0, 0, 0) != 3 || two(0, 0, 0) != 3; }\n"
    )
    words = ["cc", str(main), "-Wl,--whole-archive", *files, "-Wl,--no-whole-archive"]
    subprocess.run([*words, "-o", str(tmp_path / "main")], check=True)
    assert subprocess.run([str(tmp_path / "main")]).returncode == 0


def test_the_same_file_each_time(folder):
    text = PROGRAMS["topk"]
    assert exported(folder, text, "again", ".a").path.read_bytes() == (
        exported(folder, text, "again", ".a").path.read_bytes()
    )


def test_kernels_cut_for_many_cores(folder):
    text = """HloModule m
ENTRY e {
  x = f32[512,512] parameter(0)
  y = f32[512,512] exponential(x)
  ROOT d = f32[512,512] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""
    target = f"cpu:{next(n for n in known_names() if '64' in n)}"
    library = hloom.export_c(text, folder / "libcores.so", target=target)
    literals, arrays = arguments_of(text)
    run = hloom.compile(text, target)
    assert "hl_parallel_for_ns" in run.as_text("llvm")
    assert called(folder, library, arrays) == [np.asarray(run(*literals)).tobytes()]


def test_what_is_donated_may_stay_where_it_was(tmp_path):
    library = exported(tmp_path, STATE, "state")
    function = ctypes.CDLL(str(library.path)).state
    x, state = np.arange(64, dtype=np.float32), np.full(64, 2, np.float32)
    place, old, following = np.array(5, np.int32), np.zeros_like(x), np.zeros_like(x)

    def pointers(*arrays):
        return (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])

    room = np.zeros(library.workspace_bytes + 64, np.uint8)
    begin = ctypes.c_void_p(-(-room.ctypes.data // 64) * 64)
    assert function(pointers(x, state, place), pointers(old, following), begin) == 0
    assert np.array_equal(state, np.full(64, 2, np.float32))
    want = state.copy()
    want[5:13] = (x + state)[:8]
    assert np.array_equal(following, want)


def test_names_are_made_names_of_c(tmp_path):
    text = """HloModule m
ENTRY e {
  x.1 = f32[2] parameter(0)
  int = f32[2] parameter(1)
  x_1 = f32[2] parameter(2)
  y_BYTES = f32[2] add(x.1, int)
  z = f32[2] add(y_BYTES, x_1)
  ROOT t = (f32[2], f32[2]) tuple(y_BYTES, z)
}"""
    library = hloom.export_c(text, tmp_path / "lib2d-model.o", tmp_path / "m.h")
    assert library.name == "_2d_model"
    assert library.inputs == ("x_1", "int_", "x_1_2") and library.outputs == ("y_BYTES_", "z")
    chosen = hloom.export_c(
        text, tmp_path / "m.o", argument_names=["a", "b", "c"], result_names=["s", "t"]
    )
    assert (chosen.inputs, chosen.outputs) == (("a", "b", "c"), ("s", "t"))


def test_a_jax_function(folder):
    jnp = pytest.importorskip("jax.numpy")
    import hloom.jax

    def step(state, x):
        state = state * 0.5 + x
        return state, jnp.sum(state, axis=1)

    state, x = np.ones((4, 8), np.float32), np.full((4, 8), 2, np.float32)
    library = hloom.jax.export_c(
        step, state, x, path=folder / "libstep.so", donate_argnums=0, argument_names=["state", "x"]
    )
    assert library.interface.outputs[0].alias == 0
    want = [np.full((4, 8), 2.5, np.float32), np.full(4, 20, np.float32)]
    assert called(folder, library, [state, x]) == [w.tobytes() for w in want]


def test_the_guide_runs(tmp_path):
    """The example of the page, from JAX to a C program."""
    pytest.importorskip("jax")
    page = (ROOT / "docs" / "c-library.md").read_text()
    blocks = re.findall(r"```(python|c|sh|text)\n(.*?)```", page, re.DOTALL)
    first = {}
    for kind, text in blocks:
        first.setdefault(kind, text)
    (tmp_path / "model.py").write_text(first["python"])
    (tmp_path / "main.c").write_text(first["c"])
    script = first["sh"].replace("python ", f"{sys.executable} ")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-e", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, first["text"]), done.stderr


def test_guide_has_the_name_of_every_option():
    page = (ROOT / "docs" / "c-library.md").read_text()
    for word in ("--header", "--name", "--argument-names", "--result-names"):
        assert word in page
