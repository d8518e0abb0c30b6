"""What a program does, step by step: one file per kind of thunk."""
