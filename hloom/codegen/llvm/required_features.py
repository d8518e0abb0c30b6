"""Which features of a processor machine code may use unasked: what a saved program must compare.

LLVM names a hundred things of a processor. Most are for systems (paging, virtual machines, random
numbers) or say what is fast; code generation never chooses them by itself. Those that it may choose
stand here, and the runtime asks the processor for each (native/processor.cc; a test holds the two
together). What is in neither list is switched off where code is made for this machine: a newer
LLVM may know a feature that no loader could ask for.
"""

from __future__ import annotations

import ctypes
from typing import Final

X86: Final = frozenset(
    "sse sse2 sse3 ssse3 sse4.1 sse4.2 sse4a mmx fxsr cx8 cx16 cmov 64bit sahf popcnt lzcnt movbe"
    " bmi bmi2 tbm adx aes pclmul sha sha512 sm3 sm4 gfni vaes vpclmulqdq crc32 prfchw"
    " avx avx2 f16c fma fma4 xop avxvnni avxifma avxneconvert avxvnniint8 avxvnniint16"
    " avx512f avx512bw avx512cd avx512dq avx512vl avx512ifma avx512vbmi avx512vbmi2 avx512vnni"
    " avx512bitalg avx512vpopcntdq avx512bf16 avx512fp16 avx512vp2intersect avx10.1 avx10.2"
    " amx-tile amx-int8 amx-bf16 amx-fp16 amx-complex amx-fp8 amx-tf32 amx-avx512 amx-movrs"
    " egpr push2pop2 ppx ndd ccmp nf cf zu cmpccxadd movrs".split()
)
ARM: Final = frozenset(
    "fp-armv8 neon crc aes sha2 sha3 sm4 lse rdm fullfp16 fp16fml dotprod bf16 i8mm rcpc"
    " complxnum jsconv flagm sve sve2".split()
)
SYSTEM: Final = frozenset(
    "clflushopt clwb clzero cldemote enqcmd fsgsbase hreset hle invpcid kl lwp movdir64b movdiri"
    " mwaitx pconfig pku prefetchi ptwrite raoint rdpid rdpru rdrnd rdseed rtm serialize sgx shstk"
    " tsxldtrk uintr usermsr waitpkg wbnoinvd widekl xsave xsavec xsaveopt xsaves evex512"
    " predres sb ssbs dit rand perfmon".split()
)
PREFERENCES: Final = ("prefer-", "tune-", "slow-", "fast-", "false-deps-")

# What a processor has by its name alone, in steps: each name has what those before it have. LLVM's
# llvm/lib/TargetParser/X86TargetParser.cpp; what every x86 of 64 bits has is left out.
_STEPS: tuple[tuple[str, str], ...] = (
    ("generic x86-64", ""),
    ("x86-64-v2 nehalem", "cx16 sahf popcnt sse3 ssse3 sse4.1 sse4.2"),
    ("westmere", "pclmul"),
    ("sandybridge", "avx"),
    ("ivybridge", "f16c"),
    ("x86-64-v3 haswell broadwell", "avx2 bmi bmi2 fma lzcnt movbe"),
    ("skylake", "aes"),
    ("x86-64-v4 skylake-avx512", "avx512f avx512bw avx512cd avx512dq avx512vl"),
    ("cascadelake", "avx512vnni"),
    ("cooperlake", "avx512bf16"),
    (
        "sapphirerapids",
        "avx512ifma avx512vbmi avx512vbmi2 avx512bitalg avx512vpopcntdq gfni vaes vpclmulqdq sha"
        " avx512fp16 avxvnni amx-tile amx-int8 amx-bf16",
    ),
    ("graniterapids", "amx-fp16"),
)
# Where all of these are spoken of, so is everything, and the processor's name adds nothing.
_WHOLE = frozenset("sse4.2 avx2 avx512f avx512fp16 avxvnni amx-tile".split())


def required_features(
    architecture: str, cpu: str, enabled: tuple[str, ...], disabled: tuple[str, ...]
) -> tuple[str, ...]:
    """What a machine must have for code made so, sorted.

    A processor whose name says nothing here is asked for itself (`cpu NAME`): nobody has that.
    """
    if architecture not in ("x86_64", "amd64"):
        return tuple(sorted(f for f in enabled if not is_beside(f)))
    needed = {f for f in enabled if not is_beside(f)}
    if not needed.union(disabled) >= _WHOLE:
        needed |= _implied(cpu) - set(disabled)
    return tuple(sorted(needed))


def is_beside(feature: str) -> bool:
    """Whether code does not depend on it."""
    return feature in SYSTEM or feature.startswith(PREFERENCES)


def is_known(feature: str) -> bool:
    """Whether loaders can ask for it, or need not."""
    return feature in X86 or feature in ARM or is_beside(feature)


def _implied(cpu: str) -> set[str]:
    features_: set[str] = set()
    for names, features in _STEPS:
        features_.update(features.split())
        if not cpu or cpu in names.split():
            return features_
    return {f"cpu {cpu}"}


def may_use_tiles() -> bool:
    """Whether Linux lets this process use tile registers: it must have asked
    (Documentation/arch/x86/xstate.rst). Who loads code asks again (runtime/native/processor.cc).
    """
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    try:
        return ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) == 0
    except (OSError, AttributeError):
        return False
