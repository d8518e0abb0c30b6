"""Targets: each brings the stages together for one kind of machine."""
