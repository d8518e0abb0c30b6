"""Passes that bring programs to one form."""
