"""Where values live: copies, sharing, heaps, buffer assignment."""
