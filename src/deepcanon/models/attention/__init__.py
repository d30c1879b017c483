"""Models in which tokens look at each other."""
