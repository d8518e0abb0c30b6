"""Passes about how values lie in memory."""
