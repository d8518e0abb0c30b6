"""The devices of one process, and how long they wait for one another."""
