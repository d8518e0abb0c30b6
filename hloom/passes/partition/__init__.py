"""The SPMD partitioner: from whole arrays and shardings to what each partition runs."""
