"""What looks at one model: the compute graph with the number on every edge."""
