"""Methods that wrap a model."""
