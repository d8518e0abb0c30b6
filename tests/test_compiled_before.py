"""What was compiled before: its text executed as it stands, the executable exported and loaded."""

import ml_dtypes
import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import UsageError
from tests.aot.programs import PROGRAMS
from tests.aot.test_export import flat_bytes
from tests.small_programs import ADD

LOGS = """HloModule logs
ENTRY main {
  x = bf16[4] parameter(0)
  y = bf16[4] add(x, x)
  z = bf16[4] multiply(y, x)
  ROOT r = bf16[4] log(z)
}
"""
COPIES = """HloModule copies
ENTRY e {
  x = f32[8] parameter(0)
  y = f32[8] parameter(1)
  i = s32[] parameter(2)
  u = f32[2] slice(y), slice={[0:2]}
  one = f32[8] dynamic-update-slice(x, u, i)
  two = f32[8] dynamic-update-slice(x, y, i)
  s = f32[8] sine(y)
  ROOT t = (f32[8], f32[8], f32[8], f32[8]) tuple(one, two, x, s)
}"""


@pytest.mark.parametrize("program", [ADD, LOGS, COPIES, *PROGRAMS.values()])
def test_what_was_compiled_before_stays_as_it_is(program):
    """Without passes the text of a compiled program is executed as it stands, byte for byte."""
    arguments = hloom.random_arguments(hloom.parse(program), seed=2)
    first = hloom.compile(program)
    text = first.as_text()
    again = hloom.compile(text, options={"disable_all_hlo_passes": True})
    assert again.as_text() == text and not any(r.changed for r in again.pass_records)
    assert flat_bytes(again(*arguments)) == flat_bytes(first(*arguments))


def test_an_executable_is_exported():
    exe = hloom.compile(LOGS)
    result = exe.export()
    data = bytes(result)
    x = np.linspace(0.3, 7, 4).astype(ml_dtypes.bfloat16)
    for loaded in (result.load(), hloom.CompilationResult(data).load()):
        assert flat_bytes(loaded(x)) == flat_bytes(exe(x))
        assert bytes(loaded.export()) == data and loaded.argument_names == exe.argument_names
    with pytest.raises(UsageError, match="is loaded once"):
        result.load()
    with pytest.raises(UsageError, match="simulated devices"):
        hloom.compile(ADD, target="sim").export()
