"""Objects are loaded, tied together and run; wrong ones are refused with every name."""

from __future__ import annotations

import ctypes
import os
import random
import struct
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hloom.runtime.native import LoadError
from tests.runtime.native_parts import Context, LoadedObjects
from tests.runtime.native_programs import REGIONS, emit, pointers, regions, run_regions

AARCH64 = "aarch64-unknown-linux-gnu"
DATA = """
@table = internal constant [5 x i64] [i64 11, i64 22, i64 33, i64 44, i64 55]
@pointers = internal constant [2 x ptr] [ptr @twice, ptr @thrice]
@counter = global i64 100
@zeros = global [3000 x i64] zeroinitializer
@shared = external global i64
declare i64 @outer(i64)
define i64 @twice(i64 %x) {
  %y = mul i64 %x, 2
  ret i64 %y
}
define i64 @thrice(i64 %x) {
  %y = mul i64 %x, 3
  ret i64 %y
}
define i64 @look(i64 %i) {
  %p = getelementptr [5 x i64], ptr @table, i64 0, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}
define i64 @pick(i64 %i, i64 %x) {
  %p = getelementptr [2 x ptr], ptr @pointers, i64 0, i64 %i
  %f = load ptr, ptr %p
  %v = call i64 %f(i64 %x)
  ret i64 %v
}
define i64 @count() {
  %v = load i64, ptr @counter
  %w = add i64 %v, 1
  store i64 %w, ptr @counter
  %z = load i64, ptr getelementptr ([3000 x i64], ptr @zeros, i64 0, i64 2999)
  %s = add i64 %w, %z
  ret i64 %s
}
define i64 @both(i64 %x) {
  %v = load i64, ptr @shared
  %w = call i64 @outer(i64 %x)
  %s = add i64 %v, %w
  ret i64 %s
}
"""
OUTER = """
@shared = global i64 7000
define i64 @outer(i64 %x) {
  %y = add i64 %x, 5
  ret i64 %y
}
"""


def function(loaded: LoadedObjects, name: str, arguments: int = 1):
    """A loaded function of s64 numbers."""
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * arguments)(loaded.symbol(name))


@pytest.mark.parametrize("reloc", ["pic", "static"])
@pytest.mark.parametrize("opt", [0, 2])
def test_objects_work_together(reloc, opt):
    with LoadedObjects([emit(t, reloc=reloc, opt=opt) for t in (DATA, OUTER)]) as loaded:
        assert [function(loaded, "look")(i) for i in range(5)] == [11, 22, 33, 44, 55]
        assert function(loaded, "pick", 2)(0, 21) == 42
        assert function(loaded, "pick", 2)(1, 21) == 63
        count = function(loaded, "count", 0)
        assert [count(), count()] == [101, 102]
        assert function(loaded, "both")(3) == 7008


def test_symbols_of_the_caller_may_be_far():
    # Python's own memory is not within 2 GiB of the code: data through the table, calls by a jump.
    shared = ctypes.c_int64(9000)
    outer = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: x * 10)
    address = ctypes.cast(outer, ctypes.c_void_p).value
    with LoadedObjects(
        [emit(DATA)], functions={"outer": address}, data={"shared": ctypes.addressof(shared)}
    ) as loaded:
        assert function(loaded, "both")(3) == 9030


def test_far_data_is_refused_where_only_near_can_be_reached():
    shared = ctypes.c_int64(9000)
    with pytest.raises(LoadError, match=r"shared is out of reach.*position-independent"):
        LoadedObjects(
            [emit(DATA.replace("external global", "external dso_local global"), reloc="static")],
            functions={"outer": 1},
            data={"shared": ctypes.addressof(shared)},
        )


def test_c_functions_and_the_runtime_are_found():
    text = """
    declare ptr @memcpy(ptr, ptr, i64)
    declare ptr @memset(ptr, i32, i64)
    declare ptr @memmove(ptr, ptr, i64)
    declare i32 @hl_abi_version()
    define i32 @main(ptr %context, ptr %buffers) {
      %a = load ptr, ptr %buffers
      %second = getelementptr ptr, ptr %buffers, i64 1
      %b = load ptr, ptr %second
      call ptr @memcpy(ptr %a, ptr %b, i64 3)
      %a3 = getelementptr i8, ptr %a, i64 3
      call ptr @memset(ptr %a3, i32 65, i64 2)
      %a5 = getelementptr i8, ptr %a, i64 5
      call ptr @memmove(ptr %a5, ptr %a, i64 4)
      %v = call i32 @hl_abi_version()
      %ok = icmp sgt i32 %v, 0
      %status = select i1 %ok, i32 0, i32 13
      ret i32 %status
    }"""
    for reloc in ("pic", "static"):
        a, b = np.zeros(10, np.uint8), np.frombuffer(b"xyz", np.uint8)
        with LoadedObjects([emit(text, reloc=reloc)]) as loaded, Context() as context:
            context.execute(loaded.symbol("main"), pointers(a, b))
        assert bytes(a) == b"xyzAAxyzA\0"


def test_every_missing_symbol_is_named():
    text = "".join(f"declare void @{n}()\n" for n in ("hl_nothing", "sinf", "other"))
    text += "define void @f() {\n" + "".join(
        f"  call void @{n}()\n" for n in ("hl_nothing", "sinf", "other")
    )
    with pytest.raises(LoadError) as caught:
        LoadedObjects({"kernel_7": emit(text + "  ret void\n}")})
    for name in ("hl_nothing", "sinf", "other"):
        assert f"kernel_7: symbol {name} is not defined" in str(caught.value)


def test_every_double_symbol_is_named():
    with pytest.raises(LoadError) as caught:
        LoadedObjects({"a": emit(OUTER), "b": emit(OUTER)})
    assert "symbol shared is defined twice: in a and in b" in str(caught.value)
    assert "symbol outer is defined twice: in a and in b" in str(caught.value)


def test_a_weak_definition_gives_way():
    weak = "define weak i64 @f() {\n ret i64 1\n}"
    strong = "define i64 @f() {\n ret i64 2\n}"
    user = "declare i64 @f()\ndefine i64 @g() {\n %x = call i64 @f()\n ret i64 %x\n}"
    for order in ([weak, strong], [strong, weak]):
        with LoadedObjects([emit(t) for t in [*order, user]]) as loaded:
            assert function(loaded, "g", 0)() == 2


def test_an_unknown_symbol_and_no_objects():
    with LoadedObjects([]) as loaded, pytest.raises(LoadError, match="no symbol main"):
        loaded.symbol("main")


def test_another_machines_code_is_refused():
    with pytest.raises(LoadError, match=r"for machine 183, not for 62|for machine 62, not for 183"):
        other = "x86_64-unknown-linux-gnu" if os.uname().machine == "aarch64" else AARCH64
        LoadedObjects([emit(OUTER, triple=other)])


def test_rights():
    loaded = LoadedObjects([emit(DATA), emit(OUTER)])
    rights = {}
    lines = Path("/proc/self/maps").read_text().splitlines()
    for name in ("look", "counter"):
        for line in lines:
            start, end = (int(x, 16) for x in line.split()[0].split("-"))
            if start <= loaded.symbol(name) < end:
                rights[name] = line.split()[1][:3]
    assert rights == {"look": "r-x", "counter": "rw-"}
    loaded.close()


def test_perf_map(monkeypatch):
    monkeypatch.setenv("HLOOM_PERF_MAP", "1")
    path = Path(f"/tmp/perf-{os.getpid()}.map")
    try:
        with LoadedObjects([emit(OUTER)]) as loaded:
            assert f"{loaded.symbol('outer'):x} " in path.read_text()
            assert path.read_text().strip().endswith(" outer [object 0]")
    finally:
        path.unlink(missing_ok=True)


# AArch64, linked here and read by a small reader of instructions.


def bits(word: int, low: int, count: int, signed: bool = False) -> int:
    value = word >> low & ((1 << count) - 1)
    return value - (1 << count) if signed and value >> (count - 1) else value


def walk(address: int) -> tuple[list[int], list[int]]:
    """Addresses that a function without branches loads from or adds up, and those it calls."""
    x: dict[int, int] = {}
    seen, calls = [], []
    while True:
        (word,) = struct.unpack("<I", ctypes.string_at(address, 4))
        source, target = bits(word, 5, 5), bits(word, 0, 5)
        if word & 0x9F000000 == 0x90000000:  # adrp
            pages = bits(word, 5, 19, signed=True) * 4 + bits(word, 29, 2)
            x[target] = (address & ~0xFFF) + pages * 4096
        elif word & 0xFFC00000 == 0x91000000:  # add
            x[target] = x.get(source, 0) + bits(word, 10, 12)
            seen.append(x[target])
        elif word & 0x3B400000 == 0x39400000:  # ldr of 1 to 16 bytes
            is_vector, size = bits(word, 26, 1), bits(word, 30, 2)
            shift = 4 if is_vector and bits(word, 23, 1) else size
            place = x.get(source, 0) + (bits(word, 10, 12) << shift)
            seen.append(place)
            if not is_vector and size == 3 and place > 1 << 16:
                x[target] = struct.unpack("<Q", ctypes.string_at(place, 8))[0]
        elif word & 0x7C000000 == 0x14000000:  # b and bl
            calls.append(address + 4 * bits(word, 0, 26, signed=True))
            if not word >> 31:
                return seen, calls
        elif word == 0xD65F03C0:  # ret
            return seen, calls
        address += 4


@pytest.mark.parametrize("reloc", ["static", "pic"])
def test_aarch64(reloc):
    widths = {1: "i8", 2: "i16", 4: "i32", 8: "i64", 16: "<4 x i32>"}
    names = {"g1": 3, "g2": 8, "g4": 12, "g8": 24, "g16": 48}
    text = "@far = external global i64\ndeclare void @away()\ndeclare void @near_by()\n"
    for (name, shift), kind in zip(names.items(), widths.values()):
        size = int(name[1:])
        text += f"@{name} = hidden global [9 x {kind}] zeroinitializer, align 16\n"
        text += f"define {kind} @load_{name}() {{\n  %v = load {kind}, ptr getelementptr"
        text += f" ({kind}, ptr @{name}, i64 {shift // size}), align {size}\n  ret {kind} %v\n}}\n"
    text += "@table = hidden constant [2 x ptr] [ptr @far, ptr @load_g1]\n"
    text += "define ptr @address() {\n  ret ptr @g8\n}\n"
    text += "define i64 @load_far() {\n  %v = load i64, ptr @far\n  ret i64 %v\n}\n"
    text += "define void @calls() {\n  call void @near_by()\n  call void @away()\n  ret void\n}\n"
    near = "define void @near_by() {\n  ret void\n}"
    far = ctypes.c_int64(5)
    address = ctypes.addressof(far)
    with LoadedObjects(
        [emit(t, triple=AARCH64, reloc=reloc) for t in ([text, near])]
        if reloc == "pic"
        else [
            emit(t, triple=AARCH64, reloc=reloc) for t in (text, near + "\n@far = global i64 5\n")
        ],
        machine=183,
        functions={"away": 0x7123_4567_89A0},
        data={"far": address} if reloc == "pic" else {},
    ) as loaded:
        for name, shift in names.items():
            seen, _ = walk(loaded.symbol(f"load_{name}"))
            assert seen[-1] == loaded.symbol(name) + shift, name
        assert walk(loaded.symbol("address"))[0] == [loaded.symbol("g8")]
        place = address if reloc == "pic" else loaded.symbol("far")
        assert walk(loaded.symbol("load_far"))[0][-1] == place
        _, (near_by, stub) = walk(loaded.symbol("calls"))
        assert near_by == loaded.symbol("near_by")
        jump = struct.unpack("<IIQ", ctypes.string_at(stub, 16))
        assert jump == (0x58000050, 0xD61F0200, 0x7123_4567_89A0)
        pointers_ = struct.unpack("<QQ", ctypes.string_at(loaded.symbol("table"), 16))
        assert pointers_ == (place, loaded.symbol("load_g1"))


# Malformed objects.


def test_what_is_no_object_is_refused():
    good = emit(REGIONS)
    for wrong in (b"", b"\x7fELF", b"!<arch>\n" + bytes(100), bytes(1000), good[:200], good[:-9]):
        with pytest.raises(LoadError, match="object 0: "):
            LoadedObjects([wrong])


@pytest.mark.parametrize("reloc", ["pic", "static"])
def test_random_damage_never_crashes(reloc):
    random_ = random.Random(3)
    good = emit(DATA, reloc=reloc), emit(OUTER, reloc=reloc)
    refused = 0
    for _ in range(1500):
        damaged = [bytearray(code) for code in good]
        for _ in range(random_.choice((1, 1, 2, 5))):
            code = random_.choice(damaged)
            # Headers and tables are at both ends; text in the middle is not checked anyway.
            size = len(code)
            near_the_end = size - 1 - random_.randrange(min(size, 900))
            at = random_.choice((random_.randrange(64), random_.randrange(size), near_the_end))
            code[at] = random_.choice((0, 1, 0x7F, 0x80, 0xFF, random_.randrange(256)))
        if random_.random() < 0.1:
            del damaged[0][random_.randrange(len(damaged[0])) :]
        try:
            LoadedObjects([bytes(code) for code in damaged]).close()
        except LoadError as error:
            refused += 1
            assert str(error)
    assert 200 < refused < 1500


def test_loaded_code_may_outlive_its_bytes_and_be_many():
    for _ in range(50):
        loaded = regions()
        with Context() as context:
            assert run_regions(context, loaded, 100, 7).tolist() == [1] * 100
        loaded.close()
