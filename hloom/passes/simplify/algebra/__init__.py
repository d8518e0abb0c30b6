"""Rules of the algebraic simplifier, one file for each family of operations."""
