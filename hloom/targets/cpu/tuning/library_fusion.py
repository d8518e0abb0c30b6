"""Configs of library fusions, XNNPACK's and YNNPACK's: whether the library uses the thread pool.

hloom has no such library: it takes these fusions apart, and kernels of its own compute them. What
is chosen here stays in the text, for a compiler that has one.
"""

from __future__ import annotations

from dataclasses import dataclass

from hloom.base.diagnostics import UsageError
from hloom.ir.instruction import Instruction
from hloom.ir.values.backend_config import BackendConfig

OPTIONS_OF = {"__xnn_fusion": "xnn_fusion_options", "__ynn_fusion": "ynn_fusion_options"}
"""By kind of fusion, the field of its options."""


@dataclass(frozen=True)
class LibraryFusionConfig:
    """How a library runs a fusion."""

    use_threadpool: bool = True


def library_kind(i: Instruction) -> str:
    """The kind of a library fusion; empty for every other instruction."""
    config = i.backend_config.json if i.opcode == "fusion" and i.backend_config else None
    fusion = config.get("fusion_config") if config else None
    kind = fusion.get("kind") if isinstance(fusion, dict) else None
    return kind if kind in OPTIONS_OF else ""


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
