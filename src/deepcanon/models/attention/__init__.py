"""Transformers: tokens that attend to each other."""
