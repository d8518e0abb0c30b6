"""Other names for the symbols of objects."""

import pytest

from hloom.codegen.llvm.compile import NEUTRAL_MODULE, module_text, neutral
from hloom.codegen.llvm.elf_symbols import renamed
from hloom.codegen.llvm.machine import Machine, object_bytes

HOST = Machine.host()
SQUARE = """define float @{name}(float %x) nounwind {{
  %y = fmul float %x, %x
  %z = call float @{name}_inner(float %y)
  ret float %z
}}
define internal float @{name}_inner(float %x) nounwind noinline {{
  %y = fadd float %x, 0x3FF8000000000000
  ret float %y
}}"""


def made(name: str) -> bytes:
    return object_bytes(module_text(HOST, [SQUARE.format(name=name)], [name]), HOST)


def test_the_names_that_were_do_not_show():
    wanted = renamed(made("f0"), {"f0": "the_name"})
    assert wanted is not None and b"the_name\0" in wanted and b"f0\0" not in wanted
    again = renamed(wanted, {"the_name": "f0"})
    assert again == renamed(made("f0"), {})


@pytest.mark.parametrize("machine", [HOST, Machine.of("aarch64-linux-gnu")])
def test_other_symbols_stay(machine):
    text = module_text(machine, [SQUARE.format(name="f0"), SQUARE.format(name="f1")], ["f0", "f1"])
    content = object_bytes(text, machine)
    swapped = renamed(content, {"f0": "f1", "f1": "f0"})
    assert swapped is not None
    assert renamed(swapped, {"f0": "f1", "f1": "f0"}) == renamed(content, {})


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x02\x01", bytes(64), made("f0")[:-64]])
def test_what_is_laid_out_otherwise_is_left_to_others(content):
    assert renamed(content, {"f0": "g"}) is None


def test_a_text_that_calls_others_of_a_like_name_keeps_its_names():
    call = "declare void @k_a_1(ptr)\ndefine void @k_a() {\n  call void @k_a_1(ptr null)\n}"
    assert neutral(["k_a"], [call]) is None
    found = neutral(["k_b"], [call.replace("@k_a()", "@k_b()")])
    assert found is not None and "@k_a_1(" in found[0][0]
    assert found[1] == {"f0": "k_b", NEUTRAL_MODULE: "k_b"}
