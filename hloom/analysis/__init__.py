"""Analyses: questions about a graph, answered in tables beside it; they never change it."""
