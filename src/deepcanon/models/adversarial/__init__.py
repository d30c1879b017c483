"""Models trained by a game."""
