"""The command line: `hloom print`, `convert`, `verify`, `eval`, `stats` and `opt`."""
