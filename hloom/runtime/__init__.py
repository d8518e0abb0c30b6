"""What runs programs: a small native library, and the Python that drives it.

This room knows nothing of graphs or compilers: a saved program runs where neither is installed.
Importing it loads nothing; `hloom.runtime.native` builds and opens the library on first use.
"""
