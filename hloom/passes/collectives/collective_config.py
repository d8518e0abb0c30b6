"""What backend configs say of collectives, set field by field: all else that they say stays."""

from __future__ import annotations

from hloom.ir.instruction import Instruction
from hloom.ir.values.backend_config import BackendConfig

CONFIG = "collective_backend_config"


def said_of(i: Instruction, field: str) -> object:
    """The value of a field of a collective's config; None where it says nothing of it."""
    config = i.backend_config
    of_collective = (config.json or {}).get(CONFIG) if config is not None else None
    return of_collective.get(field) if isinstance(of_collective, dict) else None


def set_said(i: Instruction, field: str, value: object) -> bool:
    """Say it; whether that is new. A config that is no JSON stays: what it means is not known."""
    config = i.backend_config
    if said_of(i, field) == value or (config is not None and config.json is None and config.raw):
        return False
    said = dict(config.json or {}) if config is not None else {}
    of_collective = dict(said.get(CONFIG) or {})
    i.backend_config = BackendConfig.from_json(said | {CONFIG: of_collective | {field: value}})
    return True
