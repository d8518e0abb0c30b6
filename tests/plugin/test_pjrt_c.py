"""The example in C: a saved program runs without Python, StableHLO needs an embedded one."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hloom.api import library_path
from hloom.program.saved_form import MAGIC, VERSION
from tests.plugin.child import run_python

if importlib.util.find_spec("jax") is None:
    pytest.skip("JAX is not installed (make setup)", allow_module_level=True)
if (COMPILER := shutil.which("cc")) is None:
    pytest.skip("there is no C compiler (cc)", allow_module_level=True)

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "pjrt_c"
CLEAN = {"PATH": os.defpath}
pytestmark = pytest.mark.slow

HEAD = MAGIC + bytes([VERSION])


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the program and what it reads."""
    folder = tmp_path_factory.mktemp("pjrt_c")
    assert COMPILER is not None
    subprocess.run(
        [COMPILER, "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]
        + [f"-I{ROOT / 'hloom/runtime/native/pjrt'}", str(EXAMPLE / "run.c")]
        + ["-o", str(folder / "run"), "-ldl", "-lm"],
        check=True,
    )
    code = (EXAMPLE / "save.py").read_text()
    done = run_python(f"import sys; sys.argv[1:] = [{str(folder)!r}]\n" + code)
    assert done.returncode == 0, done.stderr
    return folder


def run(folder: Path, mode: str, file: str, **more: str):
    command = [str(folder / "run"), library_path(), mode, str(folder / file)]
    return subprocess.run(command, env={**CLEAN, **more}, capture_output=True, text=True)


def test_a_saved_program_runs_without_python(built):
    done = run(built, "saved", "layer.hloom", LD_DEBUG="files")
    assert done.returncode == 0 and "largest error" in done.stdout, done.stderr[-2000:]
    assert "libhloom_runtime" in done.stderr and "libpython" not in done.stderr


def test_stablehlo_is_compiled(built):
    done = run(built, "compile", "layer.mlirbc", HLOOM_PYTHON=sys.executable)
    assert done.returncode == 0 and "largest error" in done.stdout, done.stderr


def test_stablehlo_that_is_none_is_an_error(built):
    (built / "text").write_text("hello")
    done = run(built, "compile", "text", HLOOM_PYTHON=sys.executable)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr


def test_an_interpreter_that_does_not_run_is_named(built):
    done = run(built, "compile", "layer.mlirbc", HLOOM_PYTHON="/nowhere/python")
    assert done.returncode == 1
    assert "/nowhere/python does not run" in done.stderr and "HLOOM_PYTHON" in done.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda b: b[:-9], "bytes has"),
        (lambda b: b + b"x", "bytes has"),
        (lambda b: b[:-9] + bytes([b[-9] ^ 1]) + b[-8:], "checksum"),
        (lambda b: b.replace(b"\x7fELF", b"\x7fELG"), "checksum of a saved program is wrong"),
        (
            lambda b: b.replace(MAGIC + bytes([VERSION]), MAGIC + bytes([VERSION + 1])),
            f"saved program has version {VERSION + 1}",
        ),
        (lambda b: b"hello", "no saved program"),
        (lambda b: b"", "no saved program"),
    ],
)
def test_damaged_bytes_are_refused(built, change, words):
    whole = (built / "layer.hloom").read_bytes()
    (built / "damaged").write_bytes(change(whole))
    done = run(built, "saved", "damaged")
    assert done.returncode == 1 and words in done.stderr, done.stderr


PROGRAMS = """
import sys, jax, jax.numpy as jnp, numpy as np
(folder,) = sys.argv[1:]
def write(name, f, *shapes):
    compiled = jax.jit(f).lower(*shapes).compile().runtime_executable()
    open(f"{folder}/{name}", "wb").write(compiled.serialize())
x, w = (jax.ShapeDtypeStruct(d, jnp.float32) for d in ((4, 8), (8, 3)))
table = np.arange(24, dtype=np.float32).reshape(8, 3)
one = table * 0 + 1
def solved(x, w):  # a LAPACK call in the middle that changes nothing
    eye = jnp.linalg.cholesky(jnp.eye(4) * 4 + 0 * x[:, :4] @ x[:, :4].T)
    return jnp.tanh(eye @ x @ w / 2)
write("constants", lambda x, w: jnp.tanh(x @ (w * one + table - jnp.asarray(table))), x, w)
write("lapack", solved, x, w)
write("loop", lambda x, w: jnp.tanh(jax.lax.fori_loop(0, 5, lambda i, a: a + x @ w / 5,
      jnp.zeros((4, 3), jnp.float32))), x, w)
write("callback", lambda x, w: jax.pure_callback(lambda a: a, x[:, :3], x[:, :3]) + w[0], x, w)
"""


@pytest.fixture(scope="module")
def programs(built):
    done = run_python(f"import sys; sys.argv[1:] = [{str(built)!r}]\n" + PROGRAMS)
    assert done.returncode == 0, done.stderr
    return built


@pytest.mark.parametrize("name", ["constants", "lapack", "loop"])
def test_programs_of_all_kinds_run_without_python(programs, name):
    done = run(programs, "saved", name)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_that_calls_python_is_refused_by_name(programs):
    done = run(programs, "saved", "callback")
    assert done.returncode == 1
    assert "xla_ffi_python_cpu_callback" in done.stderr and "custom-call-handler" in done.stderr
