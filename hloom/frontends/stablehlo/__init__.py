"""StableHLO and CHLO, read with jaxlib's MLIR bindings and turned into our graph, and back."""
