"""Structured attribute values of HLO: one frozen dataclass and one reader per sort of value."""
