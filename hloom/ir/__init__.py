"""HLO as a graph: module, computation, instruction, and every operation declared once."""

from hloom.base.registry import load_room

load_room("hloom.ir.ops")
