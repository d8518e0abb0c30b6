"""HLO as protobuf: modules, snapshots, files.

    data = module_to_bytes(module)          # what XLA reads
    module = module_from_bytes(data)        # what XLA wrote
    loaded = load("step.hlo.pb")            # any file: text, proto, snapshot

The names below are loaded when first asked for; protobuf itself only when a message is made.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hloom.ir.proto.files import Loaded, load, load_text, save
    from hloom.ir.proto.read import module_from_proto
    from hloom.ir.proto.snapshot import (
        Snapshot,
        snapshot_from_bytes,
        snapshot_from_text,
        snapshot_to_bytes,
        snapshot_to_text,
    )
    from hloom.ir.proto.wire import (
        module_from_bytes,
        module_from_text_proto,
        module_to_bytes,
        module_to_text_proto,
    )
    from hloom.ir.proto.write import module_to_proto

_HOME = {
    "Loaded": "files",
    "Snapshot": "snapshot",
    "load": "files",
    "load_text": "files",
    "module_from_bytes": "wire",
    "module_from_proto": "read",
    "module_from_text_proto": "wire",
    "module_to_bytes": "wire",
    "module_to_proto": "write",
    "module_to_text_proto": "wire",
    "save": "files",
    "snapshot_from_bytes": "snapshot",
    "snapshot_from_text": "snapshot",
    "snapshot_to_bytes": "snapshot",
    "snapshot_to_text": "snapshot",
}

__all__ = [
    "Loaded",
    "Snapshot",
    "load",
    "load_text",
    "module_from_bytes",
    "module_from_proto",
    "module_from_text_proto",
    "module_to_bytes",
    "module_to_proto",
    "module_to_text_proto",
    "save",
    "snapshot_from_bytes",
    "snapshot_from_text",
    "snapshot_to_bytes",
    "snapshot_to_text",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
