"""Passes that leave less to compute and the same result."""
