"""The ground floor: registries and errors. Knows nothing of compilers."""
