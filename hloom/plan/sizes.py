"""Bytes of values, for those rooms that see plans but not programs."""

from hloom.program.slice import data_bytes as data_bytes
from hloom.program.slice import dynamic_size_offset as dynamic_size_offset
from hloom.program.slice import size_bytes as size_bytes
