"""Score-based models: the gradient of a log-density is learned."""
