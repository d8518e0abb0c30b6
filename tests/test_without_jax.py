"""hloom without JAX: everything but StableHLO and the doors to other frameworks."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("jax", "jaxlib", "scipy"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocked())
"""
PROGRAM = '''
import numpy as np
import hloom

module = hloom.parse("""
ENTRY e {
  x = f32[3,3] parameter(0)
  t = f32[3,3] transpose(x), dimensions={1,0}
  square = f32[3,3] dot(x, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[3,3] exponential(square)
  root = f32[3,3] cholesky(e), lower=true
  whole = c64[3,2] fft(root), fft_type=RFFT, fft_length={3}
  ROOT r = (f32[3,3], c64[3,2]) tuple(root, whole)
}
""")
x = np.diag(np.arange(1, 4, dtype=np.float32)) / 3
compiled = hloom.compile(module)(x)
wanted = hloom.evaluate(module, x)
for a, b in zip(compiled, wanted.elements, strict=True):
    np.testing.assert_allclose(np.asarray(a), b.array, 1e-5, 1e-5)
try:
    hloom.parse("module { func.func public @main() { return } }")
except hloom.HloError as error:
    print(error.rule)
print(sorted(m for m in sys.modules if m.partition(".")[0] in ("jax", "jaxlib", "scipy")))
'''


def without_jax(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BLOCKED + code]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)


def test_programs_are_compiled_and_run():
    done = without_jax(PROGRAM)
    assert done.stdout.splitlines() == ["jaxlib", "[]"], done.stderr


@pytest.mark.parametrize("words", [["run", "examples/softmax.hlo"], ["--help"]])
def test_the_command_line(words):
    done = without_jax(f"from hloom.tools.main import app\napp({words!r})")
    assert done.returncode == 0, done.stderr


def test_what_needs_jax_says_so():
    done = without_jax("import hloom.jax\nhloom.jax.jit(lambda x: x)(1)")
    assert done.returncode != 0 and "pip install 'hloom[jax]'" in done.stderr
