"""C libraries of programs: a function, a header, and nothing else that has to be there."""
