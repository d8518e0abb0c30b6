"""What has been decided about a graph: order of execution, place of each value."""
