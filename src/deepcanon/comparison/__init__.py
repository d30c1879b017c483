"""Comparison of families of models on one data set: candidates trained on one split, measured, and reported."""
