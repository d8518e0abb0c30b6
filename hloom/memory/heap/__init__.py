"""Packing buffers into one block, one algorithm per file."""
