"""What studies share: learning curves, and many networks trained at once."""
