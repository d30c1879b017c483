"""Models that learn to undo the gradual destruction of data by noise."""
