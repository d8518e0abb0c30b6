"""Linear algebra in C libraries: the runtime's own, in the caller's memory."""

import shutil
import subprocess

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
