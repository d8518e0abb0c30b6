"""Measurements: `make bench` runs all of them. See bench/run.py."""
