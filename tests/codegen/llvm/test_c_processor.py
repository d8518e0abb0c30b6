"""What C libraries ask a processor is what the runtime asks it."""

import re
from pathlib import Path

import hloom.runtime
from hloom.codegen.llvm.c_processor import PLACES, Place, check_text, checked_features
from hloom.codegen.llvm.required_features import X86

NATIVE = Path(hloom.runtime.__file__).parent / "native" / "processor.cc"
REGISTERS = ("kEax", "kEbx", "kEcx", "kEdx")
SAVED = {"kNone": 0, "kYmm": 0x6, "kZmm": 0xE6, "kTiles": 0x60000, "kApx": 0x80000}


def test_places_are_those_of_the_runtime():
    rows = re.findall(r'\{"([\w.-]+)", (\w+), (\d+), (\w+), (\d+), (\w+)\},', NATIVE.read_text())
    known = {
        name: Place(int(leaf.rstrip("u"), 0), int(part), REGISTERS.index(r), int(bit), SAVED[saved])
        for name, leaf, part, r, bit, saved in rows
    }
    assert len(known) > 60
    assert {name: known[name] for name in PLACES} == PLACES


def test_vectors_are_asked_for():
    missing = {f for f in X86 if f.startswith(("avx5", "avx2", "fma", "sse4", "bmi"))} - set(PLACES)
    assert not missing, missing
    assert checked_features(["avx2", "clflushopt"]) == ["avx2"]


def test_one_question_for_each_leaf():
    text = check_text(["avx2", "avx512f", "bmi", "fma", "lzcnt"])
    assert text.count('"cpuid"') == 5 and text.count('"xgetbv"') == 1
    assert '"xgetbv"' not in check_text(["popcnt", "sse4.2"])
