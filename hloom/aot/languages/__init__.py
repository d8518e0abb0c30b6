"""Sources that call a C library from other languages, a file for each language."""
