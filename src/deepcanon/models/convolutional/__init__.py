"""Models that look at images through convolutions."""
