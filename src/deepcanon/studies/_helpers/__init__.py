"""Shared parts of studies: learning curves, and many networks trained at once."""
