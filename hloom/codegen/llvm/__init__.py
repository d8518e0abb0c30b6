"""Kernels to machine code: LLVM text built in Python, and LLVM's instruction selection."""
