"""Passes over control flow and calls."""
