"""Families of operations, of which `bench.kernels.drawn` draws members."""
