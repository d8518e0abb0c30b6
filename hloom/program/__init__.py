"""What a machine executes: buffer slices, thunks, kernels as data."""
