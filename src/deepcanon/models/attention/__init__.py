"""Models in which symbols look at each other."""
