"""What a compiled program depends on, part by part: the key of its entry in the compile cache.

The program itself is its text without what changes nothing (metadata), with the bytes of every
constant; names count, because kernels and messages carry them. A program that is read from bytes
has a second, quicker key, of those. What else counts, the target says.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from hloom.base.options import Options
from hloom.targets.target import TargetKind

if TYPE_CHECKING:
    from hloom.ir.module import Module
    from hloom.types.literal import Literal


def key_parts(kind: TargetKind, module: Module, options: Options) -> dict[str, str]:
    """Name and value of every part."""
    return {"program": program_digest(module), **other_parts(kind, options)}


def other_parts(kind: TargetKind, options: Options) -> dict[str, str]:
    """All parts but the program."""
    return {"target": kind.name, **kind.key_parts(options)}


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
    is_cut = bool(module.spmd_parameters_shardings) or module.is_scheduled
    digest.update(repr((module.use_spmd_partitioning, is_cut)).encode())
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
