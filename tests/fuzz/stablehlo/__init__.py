"""Drawn programs of every operation of StableHLO and CHLO, at the corners of what it allows."""
