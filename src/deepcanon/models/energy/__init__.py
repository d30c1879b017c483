"""Models given by an energy."""
