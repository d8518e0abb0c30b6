"""Products and convolutions end to end: candidates agree, a result changes the kernel, off does
not."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hloom
from hloom.base.diagnostics import HloError, UsageError
from hloom.base.faults import CompilerFaultError
from hloom.ir.text.parse import parse_module
from hloom.targets.cpu.device import host_device
from hloom.targets.cpu.options import cpu_target
from hloom.targets.cpu.tuning.backend import CpuBackend
from hloom.targets.cpu.tuning.candidates import candidates
from hloom.targets.cpu.tuning.profiler import Measured
from hloom.targets.target import target_kind

HEAD = "HloModule m\nENTRY e {\n"
PROGRAMS = {
    "dot": " a = f32[37,70] parameter(0)\n b = f32[70,100] parameter(1)\n"
    " ROOT r = f32[37,100] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}",
    "deep": " a = f32[20,3000] parameter(0)\n b = f32[3000,40] parameter(1)\n"
    " ROOT r = f32[20,40] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}",
    "turned": " a = f32[70,37] parameter(0)\n b = f32[100,70] parameter(1)\n"
    " ROOT r = f32[37,100] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={1}\n}",
    "rows": " a = f32[3,256] parameter(0)\n b = f32[256,300] parameter(1)\n"
    " ROOT r = f32[3,300] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}",
    "along k": " a = f32[5,256] parameter(0)\n b = f32[90,256] parameter(1)\n"
    " ROOT r = f32[5,90] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}\n}",
    "batch": " a = f64[3,17,33] parameter(0)\n b = f64[3,33,40] parameter(1)\n"
    " ROOT r = f64[3,17,40] dot(a, b), lhs_batch_dims={0}, rhs_batch_dims={0},"
    " lhs_contracting_dims={2}, rhs_contracting_dims={1}\n}",
    "bf16": " a = bf16[40,64] parameter(0)\n b = bf16[64,48] parameter(1)\n"
    " ROOT r = bf16[40,48] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}",
    "s8": " a = s8[40,64] parameter(0)\n b = s8[64,48] parameter(1)\n"
    " ROOT r = s32[40,48] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}",
    "c64": " a = c64[20,30] parameter(0)\n b = c64[30,40] parameter(1)\n"
    " ROOT r = c64[20,40] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}",
    "convolution": " a = f32[2,9,11,6] parameter(0)\n b = f32[3,3,6,20] parameter(1)\n"
    " ROOT r = f32[2,9,11,20] convolution(a, b), window={size=3x3 pad=1_1x1_1},"
    " dim_labels=b01f_01io->b01f\n}",
    "depthwise": " a = f32[1,14,14,32] parameter(0)\n b = f32[3,3,1,32] parameter(1)\n"
    " ROOT r = f32[1,14,14,32] convolution(a, b), window={size=3x3 pad=1_1x1_1},"
    " dim_labels=b01f_01io->b01f, feature_group_count=32\n}",
}
DOT = HEAD + PROGRAMS["dot"]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HLOOM_CACHE_DIR", str(tmp_path / "programs"))
    monkeypatch.delenv("HLOOM_CACHE", raising=False)


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_candidate_computes_what_the_default_does(name):
    backend = CpuBackend(cpu_target(hloom.Options()))
    exe = hloom.compile(HEAD + PROGRAMS[name])
    root = exe.stages.module.entry.root
    able = backend.candidates(root, True)
    assert len(able) > 1 and len({c.text for c in able}) == len(able)
    found = backend.profiled(backend.alone(root), able[:1] + able[1::3], False)
    assert [m.failure for m in found] == [""] * len(found)


def test_candidates_are_for_products_and_convolutions_only():
    device = host_device()
    for text in ("negate(a)", "reverse(a), dimensions={0}"):
        module = parse_module(
            f"{HEAD} a = f32[64,64] parameter(0)\n ROOT r = f32[64,64] {text}\n}}"
        )
        assert candidates(module.entry.root, device, True) == []


def test_measuring_gives_a_program_that_computes_the_same(tmp_path):
    file = tmp_path / "results.toml"
    tuned = hloom.compile(DOT, options={"autotune": "quick", "autotune_export": str(file)})
    plain = hloom.compile(DOT)
    given = [np.ones((37, 70), np.float32), np.full((70, 100), 0.5, np.float32)]
    assert np.allclose(np.asarray(tuned(*given)), np.asarray(plain(*given)))
    text = file.read_text()
    assert "dot(f32[37,70], f32[70,100]) -> f32[37,100]" in text and "product packed" in text
    again = hloom.compile(DOT, options={"autotune": "load", "autotune_complete": True})
    assert again.as_text("kernels") == tuned.as_text("kernels")


def test_a_loaded_result_changes_the_kernel_and_off_does_not(tmp_path):
    file = tmp_path / "results.toml"
    before = hloom.compile(DOT).as_text("kernels")
    hloom.compile(DOT, options={"autotune": "quick", "autotune_export": str(file)})
    text = file.read_text()
    other = re.findall(r'^"(product packed [^"]*)" = ', text, re.M)[-1]
    file.write_text(re.sub(r'^choice = ".*"$', f'choice = "{other}"', text, flags=re.M))
    load = {"autotune": "load", "autotune_load": str(file)}
    changed = hloom.compile(DOT, options=load)
    assert changed.as_text("kernels") != before
    assert hloom.compile(DOT, options=load).as_text("kernels") == changed.as_text("kernels")
    assert hloom.compile(DOT).as_text("kernels") == before
    assert hloom.compile(DOT, options={"autotune": "off"}).as_text("kernels") == before
    given = [np.ones((37, 70), np.float32), np.full((70, 100), 0.5, np.float32)]
    assert np.allclose(np.asarray(changed(*given)), 35.0)


def test_level_0_switches_tuning_off(tmp_path):
    file = tmp_path / "results.toml"
    options = {"autotune": "quick", "autotune_export": str(file)}
    before = hloom.compile(DOT).as_text("kernels")
    off = hloom.compile(DOT, options={**options, "xla_gpu_autotune_level": 0})
    assert off.as_text("kernels") == before and not file.exists()
    hloom.compile(DOT, options={**options, "gpu_autotune_level": 4})
    assert file.exists()


@pytest.mark.parametrize("is_strict", [False, True])
def test_a_wrong_candidate_is_a_failure_or_a_fault_that_is_raised(monkeypatch, is_strict):
    wrong = [Measured("right", 1.0), Measured("off", failure="it differs", is_wrong=True)]
    monkeypatch.setattr("hloom.targets.cpu.tuning.backend.profiled", lambda *_: wrong)
    backend = CpuBackend(cpu_target(hloom.Options({"strict_compilation": is_strict})))
    module = backend.alone(parse_module(DOT).entry.root)
    if is_strict:
        with pytest.raises(CompilerFaultError, match="'off' is wrong: it differs"):
            backend.profiled(module, [], False)
    else:
        assert backend.profiled(module, [], False) == wrong


def test_wrong_options_are_named(tmp_path):
    for options, message in (
        ({"autotune": "quik"}, "autotune is 'quik'"),
        ({"autotune_load": "x"}, "autotune_load does nothing with autotune=off"),
        ({"autotune": "quick", "autotune_complete": True}, "autotune_complete is for"),
        ({"autotune": "load", "autotune_load": str(tmp_path / "no")}, "cannot read"),
    ):
        with pytest.raises(UsageError, match=message):
            hloom.compile(DOT, options=options)
    with pytest.raises(HloError, match="no tuning result for %"):
        hloom.compile(DOT, options={"autotune": "load", "autotune_complete": True})


def test_simulated_devices_say_that_they_are_not_tuned():
    options = hloom.Options({"autotune": "quick", "cpu_max_isa": "AVX2"})
    assert target_kind("sim").unread(options) == ["autotune"]
    assert target_kind("cpu").unread(options) == []


def test_results_for_another_cap_on_instructions_are_refused(tmp_path):
    file = tmp_path / "results.toml"
    hloom.compile(DOT, options={"autotune": "quick", "autotune_export": str(file)})
    options = {"autotune": "load", "autotune_load": str(file), "cpu_max_isa": "SSE4_2"}
    with pytest.raises(UsageError, match="is for another device"):
        hloom.compile(DOT, options=options)
