"""Configs of library fusions, XNNPACK's and YNNPACK's: whether the library uses the thread pool.

Where such a library is registered (`targets/cpu/libraries.py`), its handler is told what is chosen.
hloom has none of its own: else it takes these fusions apart, and the choice stays in the text.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloom.base.diagnostics import UsageError
from hloom.ir.instruction import Instruction
from hloom.ir.values.backend_config import BackendConfig
from hloom.passes.expand.defuser import kind_of

OPTIONS_OF = {"__xnn_fusion": "xnn_fusion_options", "__ynn_fusion": "ynn_fusion_options"}
"""By kind of fusion, the field of its options."""


@dataclass(frozen=True)
class LibraryFusionConfig:
    """How a library runs a fusion."""

    use_threadpool: bool = True


def library_kind(i: Instruction) -> str:
    """The kind of a library fusion; empty for every other instruction."""
    kind = kind_of(i)
    return kind if kind in OPTIONS_OF else ""


def uses_threadpool(i: Instruction) -> bool:
    """Whether the library that computes a fusion is to use the thread pool: unless it says no."""
    if not library_kind(i):
        return True
    assert i.backend_config is not None and i.backend_config.json is not None
    options = i.backend_config.json["fusion_config"].get(OPTIONS_OF[library_kind(i)])
    return not isinstance(options, dict) or options.get("use_threadpool", True) is not False


def library_configs(i: Instruction) -> list[LibraryFusionConfig]:
    """What can be tried, the default first; `UsageError` for what is no library fusion."""
    _check(i)
    return [LibraryFusionConfig(True), LibraryFusionConfig(False)]


def apply_library_config(i: Instruction, config: LibraryFusionConfig) -> None:
    """Write a config into the `fusion_config` of a library fusion, beside what else is there."""
    kind = _check(i)
    assert i.backend_config is not None and i.backend_config.json is not None
    whole = i.backend_config.json
    fusion = dict(whole["fusion_config"])
    fusion[OPTIONS_OF[kind]] = {
        **(fusion.get(OPTIONS_OF[kind]) or {}),
        "use_threadpool": config.use_threadpool,
    }
    i.backend_config = BackendConfig.from_json({**whole, "fusion_config": fusion})


def _check(i: Instruction) -> str:
    kind = library_kind(i)
    if not kind:
        raise UsageError(
            f"%{i.name} is no library fusion: it is a {i.opcode}",
            rule="autotune",
            hint=f"a fusion whose fusion_config has a kind of {', '.join(OPTIONS_OF)}",
        )
    return kind
