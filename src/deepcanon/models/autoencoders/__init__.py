"""Models that learn a code from which the data can be rebuilt."""
