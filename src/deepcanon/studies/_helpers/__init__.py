"""Shared parts of studies: fair contests, many networks trained at once, and conclusions from numbers alone."""
