"""What cannot be a C library: one error each, and what to do instead."""

import re

import pytest

import hloom
from hloom.api import HloError, UsageError
from hloom.base.guarding import GUARDING
from tests.aot.programs import PROGRAMS

pytestmark = pytest.mark.skipif(GUARDING, reason="kernels ask the runtime for guarded memory")

REFUSED = {
    "%call": (
        'call = f32[4] custom-call(x), custom_call_target="xla_ffi_python_cpu_callback"',
        "^no C program can call functions of Python: take pure_callback",
    ),
    "%mine": (
        'mine = f32[4] custom-call(x), custom_call_target="mine"',
        r'C programs with the runtime.* hloom_rt_register\("mine", handler, user\)$',
    ),
    "%state": (
        "state = u64[2] rng-get-and-update-state(), delta=1",
        "hloom.load_compiled, and for C programs with the runtime$",
    ),
    "%sent": (
        't = token[] after-all()\n  sent = token[] outfeed(x, t), outfeed_config="a"',
        "keeps it, for hloom run and hloom.load_compiled$",
    ),
}
"""What it is, and what is told of where else it can be."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_a_runtime_is_refused_by_name(tmp_path, name):
    line, way_out = REFUSED[name]
    root = line.rsplit("\n", 1)[-1].split(" = ")[0].strip()
    shape = line.rsplit("\n", 1)[-1].split(" = ")[1].split(" ")[0]
    text = f"HloModule m\nENTRY e {{\n  x = f32[4] parameter(0)\n  {line}\n"
    text += f"  ROOT r = ({shape}, f32[4]) tuple({root}, x)\n}}"
    with pytest.raises(HloError, match=f"{name}.* needs a runtime") as refused:
        hloom.export_c(text, tmp_path / "libx.so")
    assert refused.value.rule == "ahead-of-time"  # no fault of the compiler
    assert re.search(way_out, refused.value.hint or "")
    assert list(tmp_path.iterdir()) == []


def test_other_refusals(tmp_path, monkeypatch):
    text = PROGRAMS["same_twice"]
    several = text.replace("HloModule m", "HloModule m, num_partitions=2")
    with pytest.raises(HloError, match="is for 2 devices"):
        hloom.export_c(several, tmp_path / "libx.so")
    dynamic = "HloModule m\nENTRY e {\n  ROOT x = f32[<=8] parameter(0)\n}"
    with pytest.raises(HloError, match="run-time size"):
        hloom.export_c(dynamic, tmp_path / "libx.so")
    with pytest.raises(UsageError, match="no kind of library"):
        hloom.export_c(text, tmp_path / "libx.exe")
    with pytest.raises(UsageError, match="cannot be called main"):
        hloom.export_c(text, tmp_path / "main.o")
    with pytest.raises(HloError, match="Argument names must be unique: a, a"):
        hloom.export_c(PROGRAMS["dot"], tmp_path / "x.o", argument_names=["a", "a"])
    with pytest.raises(HloError, match="Result names must be unique"):
        hloom.export_c(text, tmp_path / "x.o", result_names=["a", "b", "a"])
    with pytest.raises(HloError, match="1 names for 3 results") as few:
        hloom.export_c(text, tmp_path / "x.o", result_names=["a"])
    assert "in this order: " in (few.value.hint or "")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(HloError, match=r"a C compiler is needed for linking libx\.so"):
        hloom.export_c(text, tmp_path / "libx.so")
    with pytest.raises(HloError, match="needed for the routines that %"):
        hloom.export_c(PROGRAMS["topk"], tmp_path / "x.a")
    assert hloom.export_c(text, tmp_path / "x.o").path.read_bytes()[:4] == b"\x7fELF"
    monkeypatch.setenv("CC", "/bin/false")
    with pytest.raises(HloError, match=r"the C compiler fails at linking libx\.so"):
        hloom.export_c(text, tmp_path / "libx.so")
    assert [p.name for p in tmp_path.iterdir()] == ["x.o"]
