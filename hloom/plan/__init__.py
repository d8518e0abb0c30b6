"""What has been decided about a graph: order of execution, buffer assignment."""
