"""The CPU target: pipeline, lowering of instructions to thunks, assembly of programs."""
