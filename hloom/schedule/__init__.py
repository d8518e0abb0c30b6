"""Orders of execution, one algorithm per file."""
