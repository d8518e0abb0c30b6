"""HLO text, both ways: `parse_module(show_module(m))` equals `m`."""

from hloom.ir.text.options import PRESETS, PrintOptions
from hloom.ir.text.parse import parse_module
from hloom.ir.text.show import fingerprint, show_computation, show_instruction, show_module

__all__ = [
    "PRESETS",
    "PrintOptions",
    "fingerprint",
    "parse_module",
    "show_computation",
    "show_instruction",
    "show_module",
]
