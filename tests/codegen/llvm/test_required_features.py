"""What saved programs compare of a processor: complete, and asked of it rightly."""

import platform

import pytest

from hloom.codegen.llvm.machine import Machine
from hloom.codegen.llvm.required_features import ARM, SYSTEM, X86, is_known, required_features
from hloom.runtime.library import library

X86_TRIPLE = "x86_64-unknown-linux-gnu"
is_x86 = platform.machine() == "x86_64"


@pytest.mark.skipif(not is_x86, reason="asks an x86")
def test_this_processor_answers_as_llvm_says():
    import llvmlite.binding as llvm

    told = llvm.get_host_cpu_features()
    assert len(told) > 50
    assert not [name for name in told if not is_known(name)]
    has = library().hl_has_feature
    assert {n: has(n.encode()) for n in X86 if n in told} == {
        n: int(told[n]) for n in X86 & {*told}
    }
    assert all(has(name.encode()) in (0, 1) for name in X86)
    assert has(b"no-such-feature") == -1


@pytest.mark.skipif(platform.machine() != "aarch64", reason="asks an ARM")
def test_an_arm_can_be_asked_for_everything():
    assert all(library().hl_has_feature(name.encode()) in (0, 1) for name in ARM)


def test_what_systems_use_and_what_is_preferred_is_not_required():
    host = Machine.host()
    assert host.required
    assert not [f for f in host.required if f in SYSTEM or f.startswith(("prefer", "tune"))]
    assert not set(host.required) & set(host.disabled)
    assert not SYSTEM & (X86 | ARM)


def test_a_capped_machine_requires_no_more_than_it_may_use():
    required = Machine.host().capped("AVX2").required if is_x86 else ()
    assert not [f for f in required if f.startswith(("avx512", "amx", "avx10"))]


def test_a_name_says_what_a_processor_has():
    required = Machine.of(X86_TRIPLE, "sapphirerapids").required
    assert {"avx512fp16", "amx-tile", "avx2", "sse4.2"} <= {*required}
    assert Machine.of(X86_TRIPLE, "x86-64").required == ()
    assert Machine.of(X86_TRIPLE, "x86-64-v3", "-fma").required == tuple(
        f for f in Machine.of(X86_TRIPLE, "x86-64-v3").required if f != "fma"
    )
    assert Machine.of(X86_TRIPLE, "", "+avx512fp16").required == ("avx512fp16",)


def test_a_name_that_says_nothing_is_required_itself():
    assert required_features("x86_64", "new-lake", ("avx2",), ()) == ("avx2", "cpu new-lake")
    assert "cpu" not in "".join(required_features("aarch64", "neoverse-n1", ("neon",), ()))


@pytest.mark.skipif(not is_x86, reason="of x86")
def test_features_that_nobody_could_ask_for_are_switched_off(monkeypatch):
    from hloom.codegen.llvm import machine

    real = machine._host()
    monkeypatch.setattr(machine, "_host", lambda: (*real[:2], real[2] + ",+of-the-future"))
    made = machine._host_machine.__wrapped__("")
    assert "of-the-future" in made.disabled and "of-the-future" not in made.enabled
