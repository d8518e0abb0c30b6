"""Element types, shapes, layouts and literals: immutable, and equal means identical."""
