"""From fusions to kernels (tile), and from kernels to machine code (llvm)."""
