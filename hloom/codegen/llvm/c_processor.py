"""Whether the processor that a C library finds itself on has what its code needs.

The function that callers see is made for any processor of the architecture. At the first call it
asks for the features (Intel's manual, volume 2A, CPUID; AMD's, volume 3, appendix E), and whether
the system saves their registers; what it found is kept. A processor that lacks one gets a status,
not an illegal instruction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

_YMM, _ZMM, _TILES = 0x6, 0xE6, 0x60000
_SAVES_REGISTERS = 27
"""The bit of leaf 1, ecx, from which on the saved registers may be asked."""
LACKING = 4
"""The status of a call where the processor lacks something."""
CHECK = "processor_check"


class Place(NamedTuple):
    """Where a processor says that it has a feature, and which registers must be saved for it."""

    leaf: int
    part: int
    register: int
    """Of eax, ebx, ecx, edx."""
    bit: int
    saved: int = 0


_EAX, _EBX, _ECX, _EDX = range(4)
PLACES: Final = {
    **{
        name: Place(1, 0, _ECX, bit, saved)
        for name, bit, saved in (
            ("sse3", 0, 0),
            ("pclmul", 1, 0),
            ("ssse3", 9, 0),
            ("fma", 12, _YMM),
            ("sse4.1", 19, 0),
            ("sse4.2", 20, 0),
            ("movbe", 22, 0),
            ("popcnt", 23, 0),
            ("aes", 25, 0),
            ("avx", 28, _YMM),
            ("f16c", 29, _YMM),
        )
    },
    **{
        name: Place(7, 0, _EBX, bit, saved)
        for name, bit, saved in (
            ("bmi", 3, 0),
            ("avx2", 5, _YMM),
            ("bmi2", 8, 0),
            ("avx512f", 16, _ZMM),
            ("avx512dq", 17, _ZMM),
            ("avx512ifma", 21, _ZMM),
            ("avx512cd", 28, _ZMM),
            ("sha", 29, 0),
            ("avx512bw", 30, _ZMM),
            ("avx512vl", 31, _ZMM),
        )
    },
    **{
        name: Place(7, 0, _ECX, bit, saved)
        for name, bit, saved in (
            ("avx512vbmi", 1, _ZMM),
            ("avx512vbmi2", 6, _ZMM),
            ("gfni", 8, 0),
            ("vaes", 9, _YMM),
            ("vpclmulqdq", 10, _YMM),
            ("avx512vnni", 11, _ZMM),
            ("avx512bitalg", 12, _ZMM),
            ("avx512vpopcntdq", 14, _ZMM),
        )
    },
    "avx512vp2intersect": Place(7, 0, _EDX, 8, _ZMM),
    "amx-bf16": Place(7, 0, _EDX, 22, _TILES),
    "avx512fp16": Place(7, 0, _EDX, 23, _ZMM),
    "amx-tile": Place(7, 0, _EDX, 24, _TILES),
    "amx-int8": Place(7, 0, _EDX, 25, _TILES),
    "avxvnni": Place(7, 1, _EAX, 4, _YMM),
    "avx512bf16": Place(7, 1, _EAX, 5, _ZMM),
    "avxifma": Place(7, 1, _EAX, 23, _YMM),
    "avxvnniint8": Place(7, 1, _EDX, 4, _YMM),
    "avxneconvert": Place(7, 1, _EDX, 5, _YMM),
    "avxvnniint16": Place(7, 1, _EDX, 10, _YMM),
    "lzcnt": Place(0x80000001, 0, _ECX, 5),
    "sse4a": Place(0x80000001, 0, _ECX, 6),
    "xop": Place(0x80000001, 0, _ECX, 11, _YMM),
    "fma4": Place(0x80000001, 0, _ECX, 16, _YMM),
    "tbm": Place(0x80000001, 0, _ECX, 21),
}
"""By LLVM's name; a test holds them to those of runtime/native/processor.cc."""


def checked_features(features: Iterable[str]) -> list[str]:
    """Those of the features that are asked for."""
    return [f for f in features if f in PLACES]


def check_text(features: Iterable[str], name: str = CHECK) -> str:
    """`i32 @name()`: 1 where the processor has the features, 2 where it lacks one."""
    places = [PLACES[f] for f in checked_features(features)]
    masks: dict[tuple[int, int], list[int]] = {}
    saved = 0
    for p in places:
        masks.setdefault((p.leaf, p.part), [0, 0, 0, 0])[p.register] |= 1 << p.bit
        saved |= p.saved
    if saved:
        masks.setdefault((1, 0), [0, 0, 0, 0])[_ECX] |= 1 << _SAVES_REGISTERS
    lines = [f"define internal i32 @{name}() nounwind #99 {{", "start:"]
    for highest in (0, 0x80000000):
        leaves = [leaf for leaf, _ in masks if leaf & 0x80000000 == highest]
        if leaves:
            lines += _asked(f"most{highest}", highest, 0)
            lines += _branch(f"most{highest}", f"icmp uge i32 %most{highest}.0, {max(leaves)}")
    for number, ((leaf, part), registers) in enumerate(sorted(masks.items())):
        name = f"leaf{number}"
        lines += _asked(name, leaf, part)
        for k, mask in enumerate(registers):
            if mask:
                lines.append(f"  %{name}.has{k} = and i32 %{name}.{k}, {mask}")
                lines += _branch(f"{name}.r{k}", f"icmp eq i32 %{name}.has{k}, {mask}")
    if saved:
        lines.append('  %saves = call i32 asm sideeffect "xgetbv", "={ax},{cx},~{dx}"(i32 0)')
        lines.append(f"  %saved = and i32 %saves, {saved}")
        lines += _branch("saved.all", f"icmp eq i32 %saved, {saved}")
    return "\n".join([*lines, "  ret i32 1", "lacks:", "  ret i32 2", "}"])


def _asked(name: str, leaf: int, part: int) -> list[str]:
    """One question; the registers of its answer are `%name.0` to `%name.3`."""
    registers = "{i32, i32, i32, i32}"
    signed = leaf - (1 << 32) if leaf >> 31 else leaf
    call = 'asm sideeffect "cpuid", "={ax},={bx},={cx},={dx},{ax},{cx}"'
    lines = [f"  %{name} = call {registers} {call}(i32 {signed}, i32 {part})"]
    for k in range(4):
        lines.append(f"  %{name}.{k} = extractvalue {registers} %{name}, {k}")
    return lines


def _branch(name: str, condition: str) -> list[str]:
    """Go on where the condition holds."""
    return [
        f"  %{name}.ok = {condition}",
        f"  br i1 %{name}.ok, label %{name}.next, label %lacks",
        f"{name}.next:",
    ]
