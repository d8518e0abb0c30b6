"""What a compiled program depends on, part by part: the key of its entry in the compile cache.

The program itself is its text without what changes nothing (metadata), with the bytes of every
constant; names count, because kernels and messages carry them. A program that is read from bytes
has a second, quicker key, of those. The processor counts as it
describes itself: LLVM makes of that which features it uses, and takes 50 ms to import.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from hloom.base.guarding import GUARDING
from hloom.base.installed import hloom_version, installed_version
from hloom.base.options import Options
from hloom.runtime.processor_identity import processor_identity
from hloom.targets.cpu.options import KEPT_OPTIONS

if TYPE_CHECKING:
    from hloom.ir.module import Module
    from hloom.types.literal import Literal


def key_parts(module: Module, options: Options) -> dict[str, str]:
    """Name and value of every part."""
    return {"program": program_digest(module), **other_parts(options)}


def other_parts(options: Options) -> dict[str, str]:
    """All parts but the program."""
    return {
        "options": options_text(options),
        "processor": processor_identity() or _features(),
        "hloom": hloom_version(),
        "llvm": installed_version("llvmlite"),
        "guard": "on" if GUARDING else "off",
    }


def is_cacheable(options: Options) -> bool:
    """Whether nobody watches the compilation, so that it may as well not happen."""
    return not (
        options["unsupported_crash_on_hlo_pass_noop_change"]
        or options["unsupported_crash_on_hlo_pass_silent_hlo_change"]
    )


def program_digest(module: Module) -> str:
    """A hash that two modules share only if they compile to the same program."""
    from hloom.ir.text.options import PrintOptions
    from hloom.ir.text.show import show_module

    printed = PrintOptions(
        metadata=False,
        original_value=False,
        operand_shape=False,
        program_shape=False,
        percent=False,
        operand_index_comments=False,
        async_sugar=False,
    )
    digest = sha256(show_module(module, printed).encode("utf-8", "surrogateescape"))
    for c in module.computations_in_order():
        for i in c.instructions:
            if i.opcode == "constant":
                _add(i.attrs.literal, digest)
    return digest.hexdigest()


def _add(literal: Literal, digest: Any) -> None:
    for part in literal.elements:
        _add(part, digest)
    if literal.shape.is_array:
        array = literal.array
        digest.update(str(array.shape).encode())
        digest.update(array.tobytes())


def options_text(options: Options) -> str:
    """Every option that the program depends on, as `name=value` words; sets have no order."""
    words = []
    for name in sorted(KEPT_OPTIONS):
        value = options[name]
        if isinstance(value, tuple | list | set | frozenset):
            value = ",".join(sorted(set(map(str, value))))
        words.append(f"{name}={value}")
    return " ".join(words)


@cache
def _features() -> str:
    """What LLVM says of a processor that does not describe itself."""
    from hloom.codegen.llvm.machine import Machine

    return " ".join(Machine.host().as_dict().values())


def differences(differs: Mapping[str, tuple[str, str]]) -> list[str]:
    """A line for each part of a key that differs: what an entry has, what is wanted."""
    lines = []
    for name, (old, new) in differs.items():
        if name == "program":
            lines.append("program: it is another one")
        elif name == "options":
            was, now = [dict(word.split("=", 1) for word in x.split()) for x in (old, new)]
            for option in sorted({*was, *now}):
                pair = [words.get(option) or "(nothing)" for words in (was, now)]
                if pair[0] != pair[1]:
                    lines.append(f"option {option}: {pair[0]} there, {pair[1]} here")
        else:
            lines.append(f"{name}: {old or '(nothing)'} there, {new} here")
    return lines
