"""Models of the score, the gradient of a log-density."""
