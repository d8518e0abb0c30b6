"""Proof of what memory a kernel touches: `prove.py` is the way in."""
