"""What a machine is, and what things cost on it."""
