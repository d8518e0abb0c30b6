"""Collectives: fewer of them, fewer bytes through them, out of loops, in two halves."""
