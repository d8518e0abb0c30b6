"""Linear algebra in C libraries: the runtime's own, in the caller's memory."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hloom
from hloom.api import HloError
from hloom.base.guarding import GUARDING
from hloom.runtime.buffer import in_layout
from tests.aot.calling import called, exported

pytestmark = [
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory"),
    pytest.mark.usefixtures("routines_compiled_once"),
]
TYPED = "api_version=API_VERSION_TYPED_FFI"
# Below the size from which the runtime may ask a LAPACK that it finds.
PROGRAM = f"""HloModule m
ENTRY e {{
  x = f32[3,9,9] parameter(0)
  b = f32[3,9,2] parameter(1)
  c = f32[3,9,9] cholesky(x), lower=true
  s = f32[3,9,2] triangular-solve(c, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
  lu = (f32[3,9,9]{{1,2,0}}, s32[3,9], s32[3]) custom-call(x),
    custom_call_target="lapack_sgetrf_ffi", operand_layout_constraints={{f32[3,9,9]{{1,2,0}}}},
    {TYPED}, backend_config={{}}
  eig = (f32[3,9,9]{{1,2,0}}, f32[3,9], s32[3]) custom-call(x),
    custom_call_target="lapack_ssyevd_ffi", operand_layout_constraints={{f32[3,9,9]{{1,2,0}}}},
    {TYPED}, backend_config={{mode = 86 : ui8, uplo = 76 : ui8}}
  y = f64[12,5]{{0,1}} parameter(2)
  svd = (f64[12,5]{{0,1}}, f64[5], f64[12,5]{{0,1}}, f64[5,5]{{0,1}}, s32[]) custom-call(y),
    custom_call_target="lapack_dgesdd_ffi", operand_layout_constraints={{f64[12,5]{{0,1}}}},
    {TYPED}, backend_config={{mode = 83 : ui8}}
  ROOT t = tuple(c, s, lu, eig, svd)
}}"""

FACTORS, OVERWRITTEN = 5, 8
"""How many results come first that no LAPACK computes; the one that holds nothing."""


def arguments():
    random = np.random.default_rng(5)
    x = random.normal(size=(3, 9, 9)).astype(np.float32)
    x = x @ x.swapaxes(-1, -2) + 9 * np.eye(9, dtype=np.float32)
    b = random.normal(size=(3, 9, 2)).astype(np.float32)
    return [x, b, np.asfortranarray(random.normal(size=(12, 5)))]


def leaves(value):
    if isinstance(value, tuple | list):
        return [x for v in value for x in leaves(v)]
    return [value]


def test_the_same_values_and_only_the_c_library(tmp_path):
    library = exported(tmp_path, PROGRAM, "dense")
    values = leaves(hloom.compile(PROGRAM)(*arguments()))
    for threads in (1, 4):
        outputs = called(tmp_path, library, arguments(), threads)
        for k, (data, value) in enumerate(zip(outputs, values, strict=True)):
            want = in_layout(np.asarray(value), value.shape)
            got = np.frombuffer(data, want.dtype).reshape(want.shape)
            if k < FACTORS:
                np.testing.assert_array_equal(got, want)
            elif k != OVERWRITTEN:  # vectors have a sign of their own; a LAPACK may be asked here
                np.testing.assert_allclose(abs(got), abs(want), rtol=1e-4, atol=1e-4)
    names = subprocess.run(["nm", "-D", library.path], capture_output=True, text=True, check=True)
    symbols = {line.split()[-1].split("@")[0] for line in names.stdout.splitlines()}
    libc = set(
        "memcpy memmove memset memcmp strcmp strlen hypot hypotf fmax fmaxf fmin fminf".split()
    )
    assert symbols - libc == {"dense"}


RUN = """import sys
import numpy as np
import hloom
data = np.load(sys.argv[1])
results = hloom.compile(open(sys.argv[2]).read())(*[data[k] for k in data.files])
def leaves(value):
    return [x for v in value for x in leaves(v)] if isinstance(value, tuple | list) else [value]
np.savez(sys.argv[3], *map(np.asarray, leaves(results)))
"""


def run_with_lapack(folder, named):
    """The results of a process that is told which LAPACK to ask."""
    np.savez(folder / "x.npz", *arguments())
    (folder / "p.hlo").write_text(PROGRAM)
    words = [sys.executable, "-c", RUN, "x.npz", "p.hlo", "y.npz"]
    env = {**os.environ, "HLOOM_LAPACK": named, "PYTHONPATH": str(Path(hloom.__file__).parents[1])}
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)


def test_without_a_lapack_the_bits_are_those_of_the_library(tmp_path):
    """Eigenvalues and singular values, too: the same routines."""
    library = exported(tmp_path, PROGRAM, "dense")
    done = run_with_lapack(tmp_path, "none")
    assert done.returncode == 0, done.stderr
    results = np.load(tmp_path / "y.npz")
    values = [results[k] for k in results.files]
    outputs = called(tmp_path, library, arguments())
    for k, (data, value, a) in enumerate(
        zip(outputs, values, library.interface.outputs, strict=True)
    ):
        if k != OVERWRITTEN:
            assert data == in_layout(value, a.shape).tobytes(), k


def test_a_lapack_that_is_none(tmp_path):
    done = run_with_lapack(tmp_path, "libnosuch.so")
    assert done.returncode == 1 and "names 'libnosuch.so', which is no library" in done.stderr


def test_every_symbol_names_the_library(tmp_path):
    text = "HloModule m\nENTRY e { x = f64[4,4] parameter(0)\n ROOT c = f64[4,4] cholesky(x) }"
    library = exported(tmp_path, text, "factor", ".a")
    names = subprocess.run(["nm", "-g", library.path], capture_output=True, text=True, check=True)
    own = {
        w[-1] for line in names.stdout.splitlines() if len(w := line.split()) == 3 and w[1] != "U"
    }
    assert own and all("factor" in name for name in own)


@pytest.mark.parametrize("target", ["lapack_sgetrf_ffi", "cu_solver", "lapack_snosuch_ffi"])
def test_calls_that_are_not_there(tmp_path, target):
    api = "API_VERSION_ORIGINAL" if target.startswith("lapack_sg") else "API_VERSION_TYPED_FFI"
    text = f"""HloModule m
ENTRY e {{
  x = f32[4,4]{{0,1}} parameter(0)
  ROOT r = (f32[4,4]{{0,1}}, s32[4], s32[]) custom-call(x), custom_call_target="{target}",
    operand_layout_constraints={{f32[4,4]{{0,1}}}}, api_version={api}
}}"""
    with pytest.raises(HloError, match=r"%r.* needs a runtime"):
        hloom.export_c(text, tmp_path / "libx.so")
    assert not list(tmp_path.iterdir())
