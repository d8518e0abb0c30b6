"""Shardings: rules for each opcode, and what decides the sharding of every value."""
