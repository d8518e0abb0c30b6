"""Our graph as StableHLO."""
