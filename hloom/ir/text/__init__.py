"""HLO text, both ways: `parse_module(show_module(m))` equals `m`.

The names below are loaded when first asked for: the attribute values need the cursor of this
room before the graph, and with it the parser, can be loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hloom.ir.text.digest import fingerprint
    from hloom.ir.text.options import PRESETS, PrintOptions
    from hloom.ir.text.parse import parse_module
    from hloom.ir.text.show import show_computation, show_instruction, show_module

__all__ = [
    "PRESETS",
    "PrintOptions",
    "fingerprint",
    "parse_module",
    "show_computation",
    "show_instruction",
    "show_module",
]
_HOME = {
    "PRESETS": "options",
    "PrintOptions": "options",
    "fingerprint": "digest",
    "parse_module": "parse",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME.get(name, 'show')}"), name)
