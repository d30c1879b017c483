"""Models that give each value a distribution given the values before it."""
