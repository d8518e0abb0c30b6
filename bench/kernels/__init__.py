"""Measurements of single kernels against peers."""
