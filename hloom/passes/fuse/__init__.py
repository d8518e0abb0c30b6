"""Passes that put instructions together into kernels, and what they decided and why."""
