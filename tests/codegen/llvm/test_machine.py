"""Target machines: equality, order of features, caps; objects for several of them."""

import pickle
from itertools import permutations

import pytest

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm import machine
from hloom.codegen.llvm.emit import Emit, module_text
from hloom.codegen.llvm.machine import Machine, assembly_text, object_bytes
from tests.codegen.llvm.machine_code import HOST, MACHINES, X86, symbols_of, undefined_symbols


def addition(machine):
    e = Emit("add", machine, [("ptr", "p")])
    x = e.load(e.args[0], "f32", 4)
    e.store(e.fadd(x, x), e.args[0])
    e.ret()
    return e


def test_features_are_in_order_however_written():
    words = ["+b", "+a", "-d", "-c"]
    found = {Machine.of(X86, "x86-64", ",".join(p)) for p in permutations(words)}
    assert len(found) == 1
    assert found.pop().features == "+a,+b,-c,-d"


def test_avx512_prefers_no_gather():
    made = Machine.of(X86, "x86-64", "+avx512f")
    assert made.features == "+avx512f,+prefer-no-gather,+prefer-no-scatter"
    made = Machine.of(X86, "x86-64", "+avx512f,-prefer-no-gather")
    assert made.features == "+avx512f,+prefer-no-scatter,-prefer-no-gather"


@pytest.mark.parametrize("wrong", ["avx2", "+", "-", "+a,b"])
def test_features_without_sign_or_name_are_refused(wrong):
    with pytest.raises(HloError, match="no feature"):
        Machine.of(X86, "", wrong)


def test_the_last_sign_of_a_feature_counts():
    assert Machine.of(X86, "", "+fma,-fma").features == "-fma"
    assert Machine.of(X86, "", "-fma,+fma,+fma").features == "+fma"


def test_machines_are_values():
    made = Machine.of(X86, "haswell", "-fma,+sse4a")
    assert Machine.of(**made.as_dict()) == made == pickle.loads(pickle.dumps(made))
    assert hash(made) == hash(Machine.of(X86, "haswell", "+sse4a,-fma"))
    assert made != Machine.of(X86, "haswell", "+sse4a")
    assert Machine.host() == HOST


def test_what_machines_can_do():
    found = {
        name: (m.vector_bytes, m.has_fma, m.has_round, m.has_f16_convert, m.has_avx512)
        for name, m in MACHINES.items()
    }
    assert found == {
        "avx512": (64, True, True, True, True),
        "avx2": (32, True, True, True, False),
        "sse2": (16, False, False, False, False),
        "aarch64": (16, True, True, True, False),
    }
    assert not Machine.of(X86, "x86-64-v3", "-fma").has_fma
    assert MACHINES["avx2"].has_avx2 and not MACHINES["sse2"].has_avx2
    assert Machine.of(X86, "cooperlake").has_bf16 and not MACHINES["avx512"].has_bf16
    assert Machine.of(X86, "sapphirerapids").has_fp16 and not MACHINES["avx512"].has_fp16
    assert Machine.of("aarch64-unknown-linux-gnu", "neoverse-v2").has_fp16
    assert MACHINES["avx512"].lanes(32) == 16 and MACHINES["sse2"].lanes(64) == 2


def test_a_cap_takes_newer_features():
    """`cpu_max_isa`."""
    full = Machine.of(X86, "znver4", "+avx,+avx2,+fma,+avx512f,+avx512vnni,+avx512bf16,+sse4.2")
    capped = full.capped("AVX2")
    assert capped.cpu == "haswell"
    assert capped.enabled == ("avx", "avx2", "fma", "sse4.2")
    assert capped.disabled == ("avx512bf16", "avx512f", "avx512vnni")
    assert capped.vector_bytes == 32
    assert full.capped("avx512_vnni").disabled == ("avx512bf16",)
    assert full.capped("SSE4_2").enabled == ("sse4.2",)
    beside = Machine.of(X86, "znver4", "+avx2,+avx512f,+gfni,+sse4a")
    assert beside.capped("AVX2").disabled == ("avx512f", "gfni", "sse4a")
    # The name stays if nothing went.
    assert full.capped("AMX") is full and capped.capped("AVX512") is capped
    with pytest.raises(HloError, match="AVX9") as caught:
        full.capped("AVX9")
    assert "AVX512_BF16" in str(caught.value)


def test_a_capped_machine_emits_older_code():
    wide = Machine.of(X86, "znver4", "+avx,+avx2,+fma,+avx512f,+avx512vl")
    e = Emit("double", wide, [("ptr", "p")])
    x = e.load(e.args[0], "f32", 16)
    e.store(e.fadd(x, x), e.args[0])
    e.ret()
    assert "zmm" in assembly_text(module_text([e], wide), wide)
    capped = wide.capped("AVX2")
    text = assembly_text(module_text([e], capped), capped)
    assert "ymm" in text and "zmm" not in text


@pytest.mark.parametrize("name", MACHINES)
def test_modules_carry_the_layout(name):
    machine = MACHINES[name]
    text = module_text([addition(machine)], machine)
    assert text.startswith(f'target datalayout = "{machine.data_layout}"\n')
    data = object_bytes(text, machine, 1)
    assert data[:4] == b"\x7fELF" and undefined_symbols(data) == set()


def test_undefined_symbols_are_seen():
    """The test of all tests that nothing is called."""
    machine = MACHINES["sse2"]
    e = Emit("f", machine, [("ptr", "p")])
    x = e.load(e.args[0], "f32", 4)
    e.store(e.intrinsic("floor", x), e.args[0])
    e.call("hl_note", "void", [e.args[0]])
    e.ret()
    assert symbols_of([e], machine) == {"floorf", "hl_note"}


def test_other_object_formats():
    for triple, magic in (
        ("arm64-apple-macosx", b"\xcf\xfa\xed\xfe"),
        ("x86_64-pc-windows-msvc", b"\x64\x86"),
    ):
        machine = Machine.of(triple)
        assert object_bytes(module_text([addition(machine)], machine), machine).startswith(magic)


def test_errors_are_clear():
    with pytest.raises(HloError, match="knows no target 'z80-none'"):
        Machine.of("z80-none")
    with pytest.raises(HloError, match="does not accept"):
        object_bytes("define void @f() { ret i32 %x }", HOST)
    with pytest.raises(HloError, match="level 7"):
        object_bytes("", HOST, 7)


def test_another_release_of_llvm_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llvmlite.binding.llvm_version_info", (20, 1, 8))
    with pytest.raises(HloError, match=r"holds LLVM 20; hloom's code is for 22") as error:
        machine._llvm.__wrapped__()
    assert "llvmlite>=0.48" in (error.value.hint or "")
