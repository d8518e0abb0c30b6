"""Machines to compile for: a triple, a processor, features; and the way from LLVM text to objects.

A machine is a value: equal ones are equal whatever order their features were written in, so that
it can be a key of a compile cache. What a machine can do (fused multiply-add,
widths of registers) is not read from a table of processor names but asked of LLVM itself: a few
functions are compiled, and the instructions or calls that come out tell.

LLVM's optimizer is never run: text goes straight to instruction selection. One pass before that,
loop strength reduction, can be left out: it looks at all pairs of addresses in a loop, and took up
to three quarters of the time of a kernel with 140 loads in one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from hloom.base.diagnostics import HloError
from hloom.codegen.llvm.emission import EmissionError, Settings, emitter
from hloom.codegen.llvm.required_features import is_known, may_use_tiles, required_features
from hloom.codegen.llvm.triple import full_triple
from hloom.program.program import system_of

PLAIN_ADDRESSES = '"hloom-plain-addresses"'
"""The attribute of functions that do not want the addresses in their loops rewritten."""

# Instruction sets in the order in which `cpu_max_isa` caps them, each with a processor that has it
# and with the features it is the first to have.
_ISAS: tuple[tuple[str, str, str], ...] = (
    ("SSE4_2", "nehalem", ""),
    ("AVX", "sandybridge", "avx"),
    ("AVX2", "haswell", "avx2 fma f16c bmi bmi2 lzcnt movbe"),
    (
        "AVX512",
        "skylake-avx512",
        "avx512f avx512cd avx512bw avx512dq avx512vl avx512er avx512pf evex512 avx512ifma"
        " avx512vbmi avx512vbmi2 avx512bitalg avx512vpopcntdq avx512vp2intersect vaes vpclmulqdq",
    ),
    ("AVX512_VNNI", "cascadelake", "avx512vnni"),
    ("AVX512_BF16", "cooperlake", "avx512bf16"),
    (
        "AMX",
        "sapphirerapids",
        "amx-tile amx-int8 amx-bf16 avx512fp16 avxvnni avxifma avxneconvert avxvnniint8"
        " avxvnniint16",
    ),
    (
        "AMX_FP16",
        "graniterapids",
        "amx-fp16 amx-complex amx-fp8 amx-tf32 amx-avx512 amx-movrs amx-transpose avx10.1"
        " avx10.1-256 avx10.1-512 avx10.2 avx10.2-256 avx10.2-512",
    ),
)
# What processors of one maker or of later years have beside the sets above, and code is chosen by.
_BESIDE = frozenset("gfni sse4a xop fma4 tbm sha sha512 sm3 sm4".split())
_NO_GATHER = ("prefer-no-gather", "prefer-no-scatter")

_PROBE = """
define <4 x float> @a(<4 x float> %x) {
  %r = call <4 x float> @llvm.fma.v4f32(<4 x float> %x, <4 x float> %x, <4 x float> %x)
  ret <4 x float> %r
}
define <4 x float> @b(<4 x float> %x) {
  %r = call <4 x float> @llvm.floor.v4f32(<4 x float> %x)
  ret <4 x float> %r
}
define void @c(ptr %p, ptr %q) {
  %h = load <8 x half>, ptr %p
  %f = fpext <8 x half> %h to <8 x float>
  store <8 x float> %f, ptr %q
  %g = fptrunc <8 x float> %f to <8 x half>
  store <8 x half> %g, ptr %p
  ret void
}
define void @wide_float(ptr %p) {
  %x = load <16 x float>, ptr %p
  %y = fadd <16 x float> %x, %x
  store <16 x float> %y, ptr %p
  ret void
}
"""
# What only x86 and ARM may have; LLVM for others cannot select all of it.
_PROBE_NARROW = """
define void @narrow(ptr %p, ptr %q) {
  %x = load <8 x float>, ptr %p
  %y = fptrunc <8 x float> %x to <8 x bfloat>
  store <8 x bfloat> %y, ptr %q
  %h = load <8 x half>, ptr %p
  %s = fadd <8 x half> %h, %h
  store <8 x half> %s, ptr %p
  %n = load <8 x i32>, ptr %p
  %l = call <8 x float> @llvm.ldexp.v8f32.v8i32(<8 x float> %x, <8 x i32> %n)
  store <8 x float> %l, ptr %p
  ret void
}
"""


_PROBED_NARROW = ("x86_64", "amd64", "aarch64", "arm64")


def _error(message: str, hint: str | None = None) -> HloError:
    return HloError(message, rule="llvm", hint=hint)


@dataclass(frozen=True)
class Machine:
    """A target machine; make it with `host`, `of` or `capped`."""

    triple: str
    cpu: str
    enabled: tuple[str, ...] = ()
    """Features on top of the processor's own, sorted."""
    disabled: tuple[str, ...] = ()
    """Features of the processor that must not be used, sorted."""
    data_layout: str = field(init=False, compare=False, repr=False)
    """LLVM's description of sizes and alignments; every module of the machine carries it."""
    vector_bytes: int = field(init=False, compare=False, repr=False)
    """Width of the widest vector register that the machine computes floats in."""
    has_fma: bool = field(init=False, compare=False, repr=False)
    """a * b + c rounded once, as one instruction."""
    has_round: bool = field(init=False, compare=False, repr=False)
    """floor, ceil, trunc and roundeven as one instruction."""
    has_f16_convert: bool = field(init=False, compare=False, repr=False)
    """f16 to f32 and back as one instruction (f16c, NEON)."""
    has_scale: bool = field(init=False, compare=False, repr=False)
    """A float times a power of two as one instruction, whatever the result (AVX-512)."""
    has_bf16: bool = field(init=False, compare=False, repr=False)
    """f32 to bf16 as one instruction."""
    has_fp16: bool = field(init=False, compare=False, repr=False)
    """Arithmetic on f16 as it is."""

    def __post_init__(self) -> None:
        known = _probed(self.triple, self.cpu, self.features)
        for name, value in known.items():
            object.__setattr__(self, name, value)

    @property
    def features(self) -> str:
        """LLVM's text of the features, `+a,+b,-c`: the same for the same features."""
        return ",".join([f"+{f}" for f in self.enabled] + [f"-{f}" for f in self.disabled])

    @property
    def full_triple(self) -> str:
        """The triple with every part in its place, for LLVM."""
        return full_triple(self.triple)

    @property
    def architecture(self) -> str:
        """The first word of the triple: `x86_64`, `aarch64`."""
        return self.triple.split("-")[0]

    @property
    def system(self) -> str:
        """As `program.program.system_of` has it."""
        return system_of(self.triple)

    @property
    def address_bytes(self) -> int:
        """Of a pointer: 8, or 4."""
        return 4 if "-p:32:32" in self.data_layout else 8

    @property
    def required(self) -> tuple[str, ...]:
        """The features without which a processor cannot run this machine's code, sorted."""
        return required_features(self.architecture, self.cpu, self.enabled, self.disabled)

    @property
    def is_x86(self) -> bool:
        """Whether it is an x86 of 64 bits."""
        return self.architecture in ("x86_64", "amd64")

    @property
    def is_elf(self) -> bool:
        """Whether its objects are ELF files of 64 bits."""
        return "linux" in self.triple and self.architecture in ("x86_64", "amd64", "aarch64")

    @property
    def has_avx2(self) -> bool:
        """Vectors of 32 bytes, integers too."""
        return self.is_x86 and self.vector_bytes >= 32 and self.has_fma

    @property
    def has_avx512(self) -> bool:
        """Vectors of 64 bytes and mask registers."""
        return self.is_x86 and self.vector_bytes == 64

    def has(self, feature: str) -> bool:
        """Whether a feature is named as enabled (the host's all are)."""
        return feature in self.enabled

    def lanes(self, bits: int) -> int:
        """How many elements of this width fill a vector register."""
        return max(1, self.vector_bytes * 8 // bits)

    def as_dict(self) -> dict[str, str]:
        """Triple, cpu and features as text; `Machine.of(**d)` is the same machine."""
        return {"triple": self.triple, "cpu": self.cpu, "features": self.features}

    @staticmethod
    def of(triple: str, cpu: str = "", features: str = "") -> Machine:
        """From explicit strings. Every feature has a sign; avx512 prefers neither gather nor
        scatter unless the text says otherwise."""
        enabled, disabled = parsed_features(features)
        return Machine(triple, cpu, *_completed(enabled, disabled))

    @staticmethod
    def host(max_isa: str = "") -> Machine:
        """The machine this runs on, capped to an instruction set if one is named."""
        return _host_machine(max_isa)

    def capped(self, max_isa: str) -> Machine:
        """This machine without what is newer than `max_isa` (`cpu_max_isa`: AVX2, AVX512, ..).

        The processor's name changes only if a feature went. Not an x86: the machine itself.
        """
        names = [name for name, _, _ in _ISAS]
        isa = max_isa.upper().replace(".", "_").replace("-", "_")
        if isa not in names:
            raise _error(
                f"cpu_max_isa {max_isa!r} is no instruction set", f"one of {', '.join(names)}"
            )
        if not self.is_x86:
            return self
        at = names.index(isa)
        newer = {word for _, _, words in _ISAS[at + 1 :] for word in words.split()}
        gone = [f for f in self.enabled if f in newer]
        if not gone:
            return self
        gone += [f for f in self.enabled if f in _BESIDE]
        enabled = [f for f in self.enabled if f not in gone]
        if not any(f.startswith("avx512") for f in enabled):
            enabled = [f for f in enabled if f not in _NO_GATHER]
        disabled = {*self.disabled, *gone}
        return Machine(
            self.triple, _ISAS[at][1], *_completed(tuple(sorted(enabled)), tuple(sorted(disabled)))
        )


def parsed_features(features: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Enabled and disabled features of a text such as `+a,-b`, each sorted and once."""
    signs: dict[str, set[str]] = {"+": set(), "-": set()}
    for word in filter(None, (w.strip() for w in features.split(","))):
        if word[0] not in "+-" or len(word) == 1:
            raise _error(
                f"{word!r} in {features!r} is no feature: a sign and a name are needed", "+avx2"
            )
        signs[word[0]].add(word[1:])
        signs["-" if word[0] == "+" else "+"].discard(word[1:])
    return tuple(sorted(signs["+"])), tuple(sorted(signs["-"]))


def _completed(
    enabled: tuple[str, ...], disabled: tuple[str, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """With the preferences that AVX-512 implies unless they are spoken of."""
    if any(f.startswith("avx512") for f in enabled):
        enabled = tuple(sorted({*enabled, *(f for f in _NO_GATHER if f not in disabled)}))
    return enabled, disabled


_LLVM_RELEASE = 22
"""Others spell intrinsics differently, and 20 stops the process at some transposes."""


@lru_cache(maxsize=1)
def _llvm() -> Any:
    """llvmlite's binding, ready for every target; imported when first needed, for it is slow."""
    import llvmlite.binding as llvm

    release = llvm.llvm_version_info[0]
    if release != _LLVM_RELEASE:
        raise _error(
            f"the installed llvmlite holds LLVM {release}; hloom's code is for {_LLVM_RELEASE}",
            "install one that does: pip install 'llvmlite>=0.48,<0.51' (of numba, which takes one"
            " llvmlite a release, 0.66 to 0.68 work beside hloom)",
        )
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()  # C libraries ask their processor
    return llvm


@lru_cache(maxsize=1)
def _host() -> tuple[str, str, str]:
    llvm = _llvm()
    names = llvm.get_host_cpu_features()
    if names.get("amx-tile") and not may_use_tiles():
        names.update({name: False for name in names if name.startswith("amx-")})
    features = names.flatten(sort=True)
    return llvm.get_default_triple(), llvm.get_host_cpu_name(), features


@lru_cache(maxsize=16)
def _host_machine(max_isa: str) -> Machine:
    triple, cpu, features = _host()
    unknown = [f"-{f}" for f in parsed_features(features)[0] if not is_known(f)]
    machine = Machine.of(triple, cpu, ",".join([features, *unknown]))
    return machine.capped(max_isa) if max_isa else machine


def _target_machine(settings: Settings) -> Any:
    """LLVM's object for a machine; code is position independent and small."""
    triple, cpu, features, opt_level = settings
    llvm = _llvm()
    try:
        target = llvm.Target.from_triple(full_triple(triple))
    except RuntimeError as error:
        raise _error(f"LLVM knows no target {triple!r}: {error}") from None
    return target.create_target_machine(
        cpu=cpu, features=features, opt=opt_level, reloc="pic", codemodel="small"
    )


@lru_cache(maxsize=64)
def _probed(triple: str, cpu: str, features: str) -> dict[str, Any]:
    """What a machine can do, by the assembly that LLVM makes for it."""
    llvm = _llvm()
    target = _target_machine((triple, cpu, features, 1))
    text = target.emit_assembly(llvm.parse_assembly(_PROBE))
    head, _, wide = text.partition("wide_float:")
    narrow = ""
    if triple.split("-")[0] in _PROBED_NARROW:
        narrow = target.emit_assembly(llvm.parse_assembly(_PROBE_NARROW))
    return {
        "data_layout": str(target.target_data),
        "vector_bytes": 64 if "zmm" in wide else 32 if "ymm" in wide else 16,
        "has_fma": "fmaf" not in head,
        "has_round": "floorf" not in head,
        "has_f16_convert": "hfsf2" not in head and "h2f" not in head,
        "has_scale": "scalef" in narrow and "ldexp" not in narrow,
        "has_bf16": "vcvtneps2bf16" in narrow or "bfcvt" in narrow,
        "has_fp16": "vaddph" in narrow or ".8h" in narrow.partition("fadd")[2].partition("\n")[0],
    }


def object_bytes(
    ir_text: str, machine: Machine, opt_level: int = 2, plain_addresses: bool = False
) -> bytes:
    """The object file (ELF, or what the triple says) of a module of LLVM text.

    `opt_level` 0 to 3 is the effort of code generation; no optimizer pass runs. With
    `plain_addresses`, those in loops are computed as they are written (on an x86).
    """
    m = machine
    return object_code(ir_text, m.triple, m.cpu, m.features, opt_level, plain_addresses)


def object_code(
    ir_text: str,
    triple: str,
    cpu: str,
    features: str,
    opt_level: int,
    plain_addresses: bool = False,
) -> bytes:
    """As `object_bytes`, for who needs to know nothing else of the machine: nothing is probed."""
    settings = (triple, cpu, features, _checked(opt_level))
    return _emitted(ir_text, settings, plain_addresses, is_object=True)


def assembly_text(
    ir_text: str, machine: Machine, opt_level: int = 2, plain_addresses: bool = False
) -> str:
    """As `object_bytes`, as assembly to read."""
    settings = (machine.triple, machine.cpu, machine.features, _checked(opt_level))
    return _emitted(ir_text, settings, plain_addresses, is_object=False).decode()


def plain_addresses_at_work() -> bool:
    """Whether a thread compiles with plain addresses now, so that others that do not would wait."""
    return emitter(_llvm(), _target_machine).addresses.is_on


def _has_rich_addresses(triple: str) -> bool:
    """Whether an access may add a base, a scaled index and any constant, as an x86's does: there
    is then little to gain from computing addresses in another way."""
    return triple.split("-")[0] in ("x86_64", "amd64")


def _checked(opt_level: int) -> int:
    if opt_level not in (0, 1, 2, 3):
        raise _error(f"there is no code generation level {opt_level}", "0, 1, 2 or 3")
    return opt_level


def _emitted(ir_text: str, settings: Settings, plain_addresses: bool, is_object: bool) -> bytes:
    is_plain = plain_addresses and _has_rich_addresses(settings[0])
    try:
        lent = emitter(_llvm(), _target_machine)
        return lent.emitted(ir_text.encode(), settings, is_object, is_plain)
    except EmissionError as error:
        raise _error(f"LLVM does not accept the text made for it: {error}") from None
