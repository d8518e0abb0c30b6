"""Several functions in one library, weights in files, versions of the code, threads."""

import ctypes
import re
import shutil
import subprocess

import numpy as np
import pytest

import hloom
from hloom.aot.weights import file_sum
from hloom.api import HloError, Machine, UsageError
from hloom.base.guarding import GUARDING
from tests.aot.calling import called

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory"),
]
ROWS, COLUMNS = 40, 64
WEIGHTS = np.random.default_rng(0).normal(size=(ROWS, COLUMNS)).astype(np.float32)
BIAS = np.random.default_rng(1).normal(size=COLUMNS).astype(np.float32)


def literal(array):
    rows = [f"{{{', '.join(map(repr, map(float, row)))}}}" for row in np.atleast_2d(array)]
    return rows[0] if array.ndim == 1 else "{" + ", ".join(rows) + "}"


def program(batch, name, other=""):
    return f"""HloModule {name}
ENTRY e {{
  x = f32[{batch},{ROWS}] parameter(0)
  w = f32[{ROWS},{COLUMNS}] constant({literal(WEIGHTS)})
  b = f32[{COLUMNS}] constant({literal(BIAS)})
  c = f32[{batch},{COLUMNS}] broadcast(b), dimensions={{1}}
  d = f32[{batch},{COLUMNS}] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  s = f32[{batch},{COLUMNS}] add(d, c)
  ROOT r = f32[{batch},{COLUMNS}] {other or "tanh"}(s)
}}"""


ONE, SEVEN = program(1, "decode"), program(7, "prefill", "logistic")
WIDE = """HloModule wide
ENTRY e {
  x = f32[512,512] parameter(0)
  y = f32[512,512] exponential(x)
  ROOT d = f32[512,512] dot(y, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}"""


def argument(batch):
    return np.random.default_rng(batch).normal(size=(batch, ROWS)).astype(np.float32)


def call(library, entry, arrays):
    """The outputs of a function, called here."""
    function = ctypes.CDLL(str(library.path.resolve()))[entry.name]
    outputs = [np.zeros(a.shape.dims, np.float32) for a in entry.interface.outputs]
    room = np.zeros(entry.interface.workspace_bytes + 64, np.uint8)
    begin = ctypes.c_void_p(-(-room.ctypes.data // 64) * 64)
    pointers = [
        (ctypes.c_void_p * len(some))(*[a.ctypes.data for a in some]) for some in (arrays, outputs)
    ]
    return function(*pointers, begin), outputs


def exported(path):
    names = subprocess.run(["nm", "-D", path], capture_output=True, text=True, check=True).stdout
    return {line.split()[-1] for line in names.splitlines() if " T " in line}


@pytest.mark.parametrize("suffix", [".so", ".a", ".o"])
def test_functions_share_their_weights(tmp_path, suffix):
    path, header = tmp_path / f"libm{suffix}", tmp_path / "m.h"
    library = hloom.export_c([SEVEN, ONE], path, header, name="m")
    assert [e.name for e in library.entries] == ["m_f0", "m_f1"]
    library = hloom.export_c({"prefill": SEVEN, "decode": ONE}, path, header, name="m")
    assert [e.name for e in library.entries] == ["m_prefill", "m_decode"]
    assert path.read_bytes().count(BIAS.tobytes()) == 1
    main = tmp_path / "main.c"
    main.write_text(
        """#include <stdio.h>
#include "m.h"
enum { ROOM = M_PREFILL_WORKSPACE_BYTES + M_DECODE_WORKSPACE_BYTES + 1 };
static char room[ROOM] __attribute__((aligned(64)));
static float x[7 * 40], y[7 * 64], z[64];
int main(void) {
  m_prefill_arrays p = {.x = x, .r = y, .workspace = room};
  m_decode_arrays d = {.x = x, .r = z, .workspace = room};
  if (fread(x, 4, 7 * 40, stdin) != 7 * 40) return 9;
  if (m_prefill_call(&p) || m_decode_call(&d)) return 1;
  fwrite(y, 4, 7 * 64, stdout), fwrite(z, 4, 64, stdout);
  return m_prefill(0, 0, 0) != 3;
}
"""
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(["cc", *flags, main, path, "-lm", "-o", tmp_path / "main"], check=True)
    x = argument(7)
    done = subprocess.run([tmp_path / "main"], input=x.tobytes(), capture_output=True, check=True)
    want = [np.asarray(hloom.compile(p)(x[:n])) for p, n in ((SEVEN, 7), (ONE, 1))]
    assert done.stdout == b"".join([w.tobytes() for w in want])
    if suffix == ".so":
        assert exported(path) == {"m_prefill", "m_decode"}


def test_a_dict_of_functions_of_jax(tmp_path):
    pytest.importorskip("jax")
    import hloom.jax

    def prefill(x):
        return x @ WEIGHTS

    def decode(state, x):
        return state + x @ WEIGHTS[:, :4]

    state, x = np.ones(4, np.float32), argument(1)[0]
    library = hloom.jax.export_c(
        {"prefill": (prefill, argument(7)), "decode": (decode, state, x)},
        path=tmp_path / "libm.so",
        header_path=tmp_path / "m.h",
        donate_argnums={"decode": 0},
        argument_names={"decode": ["state", "x"]},
    )
    assert [e.name for e in library.entries] == ["m_prefill", "m_decode"]
    assert library.entries[1].inputs == ("state", "x")
    assert library.entries[1].interface.outputs[0].alias == 0
    function = hloom.load_library(tmp_path / "libm.so", name="m_decode")
    (out,) = function(state=state, x=x).values()
    np.testing.assert_allclose(out, state + x @ WEIGHTS[:, :4], rtol=1e-5)


@pytest.mark.parametrize("suffix", [".bin", ".safetensors", ".npz"])
def test_weights_in_a_file(tmp_path, suffix):
    path, file = tmp_path / "libm.so", tmp_path / f"m{suffix}"
    library = hloom.export_c({"a": SEVEN, "b": ONE}, path, tmp_path / "m.h", weights=file)
    assert BIAS.tobytes() not in path.read_bytes()
    assert exported(path) == {
        f"m_{n}" for n in "a b set_weights load_weights unload_weights".split()
    }
    native = ctypes.CDLL(str(path))
    assert call(library, library.entries[0], [argument(7)])[0] == 5
    assert native.m_load_weights(str(tmp_path / "nowhere").encode()) == 6
    assert native.m_load_weights(str(tmp_path).encode()) == 6
    assert native.m_load_weights(str(path).encode()) == 7
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 2] ^= 1
    (tmp_path / "altered").write_bytes(whole)
    assert native.m_load_weights(str(tmp_path / "altered").encode()) == 7
    assert native.m_load_weights(str(file).encode()) == 0
    for entry, text, batch in zip(library.entries, (SEVEN, ONE), (7, 1)):
        status, (out,) = call(library, entry, [argument(batch)])
        assert status == 0
        assert np.array_equal(out, np.asarray(hloom.compile(text)(argument(batch))))
    native.m_unload_weights()
    assert call(library, library.entries[1], [argument(1)])[0] == 5
    text = (tmp_path / "m.h").read_text()
    assert "the weights are not loaded" in text and "m_load_weights(const char *path)" in text
    if suffix == ".npz":
        arrays = dict(np.load(file))
        assert BIAS.tobytes() in {a.tobytes() for a in arrays.values()}
    if suffix == ".safetensors":
        safetensors = pytest.importorskip("safetensors.numpy")
        assert BIAS.tobytes() in {a.tobytes() for a in safetensors.load_file(file).values()}


def test_the_sum_of_a_file():
    data = bytes(range(256)) * 9 + b"end"
    first = file_sum(data)
    for k in range(0, len(data), 97):
        assert file_sum(data[:k] + bytes([data[k] ^ 128]) + data[k + 1 :]) != first
    assert file_sum(data[8:16] + data[:8] + data[16:]) != first


def test_versions_of_the_code(tmp_path):
    path = tmp_path / "libm.so"
    versions = ("x86-64-v3", "x86-64", "sapphirerapids")
    if Machine.host().architecture != "x86_64":
        pytest.skip("versions are for x86-64")
    library = hloom.export_c(SEVEN, path, tmp_path / "m.h", versions=versions)
    assert exported(path) == {"m"}
    x = argument(7)
    want = hloom.compile(SEVEN)(x)
    (out,) = called(tmp_path, library, [x], threads=4)
    np.testing.assert_allclose(
        np.frombuffer(out, np.float32).reshape(7, COLUMNS), want, rtol=1e-5, atol=1e-5
    )
    archive = hloom.export_c(SEVEN, tmp_path / "libm.a", versions=versions)
    names = subprocess.run(["nm", "-g", archive.path], capture_output=True, text=True).stdout
    for version in versions:
        assert re.search(rf" T m_{version.replace('-', '_')}$", names, re.MULTILINE)
    assert path.read_bytes().count(BIAS.tobytes()) == 1
    never = ("sapphirerapids", "graniterapids")
    if not Machine.host().has("amx-tile"):
        alone = hloom.export_c(SEVEN, tmp_path / "libn.so", versions=never)
        assert ctypes.CDLL(str(alone.path)).n(None, None, None) == 4
    with pytest.raises(UsageError, match="versions are for x86-64"):
        hloom.export_c(
            SEVEN,
            tmp_path / "x.a",
            versions=("cortex-a53", "neoverse-n1"),
            options={"target_triple": "aarch64-linux-gnu"},
        )


CALLER = """#include <stdio.h>
#include "m.h"
static float x[512 * 512], y[512 * 512];
static char room[M_WORKSPACE_BYTES + 1] __attribute__((aligned(64)));
static long pieces;
static void backwards(void *self, void (*piece)(void *, int64_t), void *data, int64_t n,
                      int64_t ns) {
  if (self != room || ns <= 0) return;
  pieces += n;
  while (n) piece(data, --n);
}
int main(void) {
  m_pool pool = {backwards, room};
  m_arrays a = {.x = x, .d = y, .workspace = room};
  if (fread(x, 4, 512 * 512, stdin) != 512 * 512) return 9;
  if (m_call_on(&pool, &a)) return 1;
  fwrite(y, 4, 512 * 512, stdout);
  return pieces > 1 ? 0 : 2;
}
"""


def test_threads_of_the_caller(tmp_path):
    library = hloom.export_c(WIDE, tmp_path / "libm.so", tmp_path / "m.h", pool=True)
    assert exported(library.path) == {"m", "m_on"}
    (tmp_path / "main.c").write_text(CALLER)
    words = ["cc", "-Wall", "-Werror", tmp_path / "main.c", library.path, "-o", tmp_path / "main"]
    subprocess.run([*words, f"-Wl,-rpath,{tmp_path}"], check=True)
    x = np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32)
    want = np.asarray(hloom.compile(WIDE)(x)).tobytes()
    done = subprocess.run([tmp_path / "main"], input=x.tobytes(), capture_output=True, check=True)
    assert done.stdout == want
    assert called(tmp_path, library, [x]) == [want]


def test_threads_of_its_own(tmp_path):
    library = hloom.export_c(WIDE, tmp_path / "libm.so", tmp_path / "m.h", threads=3)
    x = np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32)
    want = np.asarray(hloom.compile(WIDE)(x))
    for _ in range(3):
        status, (out,) = call(library, library.entries[0], [x])
        assert status == 0 and np.array_equal(out, want)
    assert exported(library.path) == {"m"}
    for threads, pool in ((0, False), (2, True)):
        with pytest.raises(UsageError, match="threads"):
            hloom.export_c(WIDE, tmp_path / "x.so", threads=threads, pool=pool)
    with pytest.raises(HloError, match="no threads of its own"):
        hloom.export_c(
            WIDE, tmp_path / "x.a", threads=2, options={"target_triple": "wasm32-unknown-unknown"}
        )


def test_refusals(tmp_path):
    with pytest.raises(UsageError, match="needs a program"):
        hloom.export_c([], tmp_path / "x.so")
    with pytest.raises(UsageError, match="names of their own"):
        hloom.export_c({"a-b": ONE, "a_b": ONE}, tmp_path / "x.so")
    with pytest.raises(UsageError, match="no file of weights"):
        hloom.export_c(ONE, tmp_path / "x.so", weights=tmp_path / "w.txt")
    assert not list(tmp_path.iterdir())
