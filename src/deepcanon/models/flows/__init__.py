"""Models that turn data into noise and back without loss."""
