"""Kernels chosen by measuring: candidates, measurements, results kept as text."""
