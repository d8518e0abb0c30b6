"""How the CPU runs each operation: one file per family, `@CPU_LOWERS.of(opcode)`."""
