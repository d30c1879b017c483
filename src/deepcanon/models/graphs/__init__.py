"""Graph neural networks."""
