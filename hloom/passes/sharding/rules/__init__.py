"""Factors of each opcode, one file for each family."""
